// Hidden-states page: the states of each symbol, side by side.

import { api, copy, count, element, find, frame, meter, percent, show, times } from "./common.js";
import { anchors, feature, spectrum, splits } from "./origins.js";

const view = { model: null, symbol: null, kind: "phrases", filter: "", chosen: [] };
let symbols = [];
let shown = null;
let info;

async function start() {
  try {
    info = await frame();
    const given = new URLSearchParams(location.hash.slice(1));
    const grammars = info.models.filter((model) => model.kind === "grammar");
    view.model = grammars.find((model) => model.name === given.get("model"))?.name ?? grammars[0].name;
    await loadSymbols(given.get("symbol"));
  } catch (error) {
    show(error);
  }
}

const named = (name) => symbols.find((symbol) => `${symbol.name}${symbol.preterminal ? "/tag" : ""}` === name);
const key = (symbol) => `${symbol.name}${symbol.preterminal ? "/tag" : ""}`;

async function loadSymbols(wanted) {
  const answer = await api(`symbols?model=${encodeURIComponent(view.model)}`);
  symbols = answer.symbols;
  view.method = answer.method;
  view.probabilistic = answer.probabilistic;
  const first = named(wanted) ?? symbols.find((symbol) => kindOf(symbol) === "phrases" && symbol.states > 1) ?? symbols[0];
  view.kind = kindOf(first);
  await choose(first);
}

function kindOf(symbol) {
  return symbol.preterminal ? "tags" : symbol.intermediate ? "between" : "phrases";
}

async function choose(symbol) {
  view.symbol = symbol;
  view.chosen = [];
  find("#content").classList.add("busy");
  try {
    show();
    shown = await api(`states?model=${encodeURIComponent(view.model)}&symbol=${symbol.number}&top=9`);
    if (shown.pending) setTimeout(() => view.symbol === symbol && !view.chosen.length && choose(symbol), 1500);
    history.replaceState(null, "", `#${new URLSearchParams({ model: view.model, symbol: key(symbol) })}`);
  } catch (error) {
    show(error);
  } finally {
    find("#content").classList.remove("busy");
  }
  draw();
}

function draw() {
  find("#content").replaceChildren(element("div", { class: "columns" }, side(), element("div", {}, ...main())));
}

// The list of symbols.

function side() {
  const list = element("ul", { class: "list scroll", "aria-label": "Symbols" });
  const fill = () =>
    list.replaceChildren(
      ...symbols
        .filter((symbol) => kindOf(symbol) === view.kind && symbol.name.toLowerCase().includes(view.filter.toLowerCase()))
        .slice(0, 400)
        .map((symbol) =>
          element(
            "li",
            {},
            element(
              "button",
              { type: "button", "aria-pressed": String(symbol === view.symbol), title: `${count(symbol.count)} times in the training trees`, onclick: () => choose(symbol) },
              element("strong", { text: symbol.name }),
              element("span", { class: "note", text: symbol.states === 1 ? "1 state" : `${symbol.states} states` }),
            ),
          ),
        ),
    );
  fill();
  const kinds = element(
    "fieldset",
    { class: "choice" },
    element("legend", { class: "unseen", text: "Kind of symbols" }),
    [["phrases", "phrases"], ["tags", "tags"], ["between", "between"]].map(([value, text]) =>
      element(
        "label",
        { title: value === "between" ? "Symbols that binarising adds" : undefined },
        element("input", { type: "radio", name: "kind", value, checked: view.kind === value, onchange: () => ((view.kind = value), fill()) }),
        element("span", { text }),
      ),
    ),
  );
  const grammars = info.models.filter((model) => model.kind === "grammar");
  const models = element(
    "select",
    { "aria-label": "Model", onchange: (event) => ((view.model = event.target.value), loadSymbols(key(view.symbol)).catch(show)) },
    grammars.map((model) => element("option", { value: model.name, text: model.name, selected: model.name === view.model })),
  );
  return element(
    "aside",
    { class: "sheet side" },
    grammars.length > 1 ? models : null,
    kinds,
    element("input", { type: "search", placeholder: "Find a symbol", "aria-label": "Find a symbol", value: view.filter, oninput: (event) => ((view.filter = event.target.value), fill()) }),
    list,
  );
}

// One symbol.

const label = (symbol, state) => `sapwood-name ${view.model} ${key(symbol)} ${state}`;
const nameOf = (state) => localStorage.getItem(label(view.symbol, state)) ?? "";

function main() {
  if (!shown) return [];
  const { symbol } = view;
  const parts = [
    element(
      "section",
      { class: "sheet" },
      element(
        "div",
        { class: "bar spread" },
        element(
          "div",
          { class: "bar" },
          element("h2", { text: symbol.name }),
          element("span", { class: "badge plain", text: `${count(symbol.count)} times` }),
          element("span", { class: "badge", text: symbol.states === 1 ? "1 state" : `${symbol.states} states` }),
          element("span", { class: "note", text: `learned by ${view.method}` }),
        ),
        element("button", { type: "button", text: "Copy names", title: "All your names of states of this model, as JSON", onclick: copyNames }),
      ),
      element("p", {
        class: "note",
        text: view.probabilistic
          ? "Properties that distinguish a state from the others of its symbol, most distinctive first; × is the ratio to the average probability. Name a state yourself, or select two to compare them."
          : "The states of this grammar are directions in a space of features, not classes: they have weights of both signs and no words of their own.",
      }),
      view.probabilistic ? splits({ states: shown.states, levels: shown.levels, method: view.method, nameOf, show: showState }) : null,
      spectrum({ values: shown.singular_values, states: symbol.states }),
      view.probabilistic ? anchors({ pairs: shown.anchors, states: shown.states, nameOf, show: showState }) : null,
    ),
  ];
  if (view.chosen.length === 2) parts.push(comparison());
  if (view.probabilistic) parts.push(element("section", { class: "cards dense", "aria-label": "States" }, shown.states.map(card)));
  return [element("div", { id: "result" }, ...parts)];
}

// Go to a state's card.
function showState(number) {
  const card = find(`.cards.dense > [data-state="${number}"]`);
  card?.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "center" });
  card?.querySelector("input").focus({ preventScroll: true });
}

function copyNames() {
  const prefix = `sapwood-name ${view.model} `;
  const names = {};
  for (let i = 0; i < localStorage.length; i++) {
    const item = localStorage.key(i);
    if (item.startsWith(prefix)) names[item.slice(prefix.length)] = localStorage.getItem(item);
  }
  copy(JSON.stringify(names, null, 1), "Names");
}

function card(state) {
  const number = state.state;
  const chosen = view.chosen.includes(number);
  const input = element("input", {
    type: "text",
    class: "name",
    id: `name-${number}`,
    "aria-label": `Name of state ${number}`,
    placeholder: `state ${number}`,
    value: nameOf(number),
    maxlength: 60,
    onchange(event) {
      const text = event.target.value.trim();
      if (text) localStorage.setItem(label(view.symbol, number), text);
      else localStorage.removeItem(label(view.symbol, number));
      draw();
    },
  });
  return element(
    "article",
    { class: chosen ? "card chosen" : "card", "aria-label": `State ${number}`, "data-state": number },
    element(
      "div",
      { class: "bar spread" },
      element("div", { class: "grow" }, input),
      element("button", {
        type: "button",
        "aria-pressed": String(chosen),
        text: "Compare",
        onclick() {
          view.chosen = chosen ? view.chosen.filter((one) => one !== number) : [...view.chosen, number].slice(-2);
          draw();
        },
      }),
    ),
    element("div", { class: "share" }, meter(state.share), element("p", { class: "note", text: `${percent(state.share)} of ${view.symbol.name} · ${count(state.count)} times` })),
    ...lists(state),
  );
}

function lists(state, most = 9) {
  const parts = [];
  const anchor = shown.anchors[state.state];
  if (anchor) parts.push(element("div", {}, element("p", { class: "subtle", text: "Anchors" }), element("div", { class: "of-state" }, feature("inside", anchor.inside), feature("outside", anchor.outside))));
  if (state.words.length) parts.push(element("div", {}, element("p", { class: "subtle", text: view.symbol.preterminal ? "Words" : "Words right below" }), chips(state.words.slice(0, most))));
  if (state.rules.length) parts.push(element("div", {}, element("p", { class: "subtle", text: "Rules" }), telling(state.rules.slice(0, 5), (name) => `→ ${name}`)));
  if (state.contexts.length) parts.push(element("div", {}, element("p", { class: "subtle", text: "Contexts" }), telling(state.contexts.slice(0, 5), (name) => name)));
  if (!parts.length) parts.push(element("p", { class: "note", text: "Nothing distinguishes it from the others." }));
  if (state.examples.length) {
    parts.push(element("div", {}, element("p", { class: "subtle", text: "Examples" }), element("ul", { class: "examples" }, state.examples.map(example))));
  }
  return parts;
}

function chips(words) {
  const strength = (lift) => (lift >= 8 ? 3 : lift >= 3 ? 2 : lift >= 1.5 ? 1 : 0);
  return element("div", { class: "words" }, words.map((word) => element("span", { class: `w${strength(word.lift)}`, dir: "auto", text: word.name, title: `${percent(word.probability)}, ${times(word.lift)}` })));
}

function telling(rows, shape) {
  return element(
    "ul",
    { class: "telling" },
    rows.map((row) =>
      element("li", {}, element("span", { class: "what", text: shape(row.name) }), element("span", { class: "lift", title: "Probability", text: percent(row.probability) }), element("span", { class: "lift", title: "How much more probable it is than on average", text: times(row.lift) })),
    ),
  );
}

function example({ words, start, end }) {
  const before = words.slice(Math.max(0, start - 4), start).join(" ");
  const after = words.slice(end, end + 4).join(" ");
  return element("li", { dir: "auto" }, `${start > 4 ? "… " : ""}${before} `, element("mark", { text: words.slice(start, end).join(" ") }), ` ${after}${end + 4 < words.length ? " …" : ""}`);
}

// Two states: what each has that the other has less of.
function comparison() {
  const [one, other] = view.chosen.map((number) => shown.states.find((state) => state.state === number));
  const title = (state) => nameOf(state.state) || `state ${state.state}`;
  const column = (state) =>
    element("div", { class: "card chosen" }, element("h3", { text: title(state) }), element("div", { class: "share" }, meter(state.share), element("p", { class: "note", text: `${percent(state.share)} of ${view.symbol.name}` })), ...lists(state, 24));
  return element(
    "section",
    { class: "sheet", id: "comparison", "aria-label": "Two states side by side" },
    element("div", { class: "bar spread" }, element("h2", { text: `${title(one)} and ${title(other)}` }), element("button", { type: "button", text: "Close", onclick: () => ((view.chosen = []), draw()) })),
    element("div", { class: "cards" }, column(one), column(other)),
  );
}

addEventListener("hashchange", () => {
  const wanted = named(new URLSearchParams(location.hash.slice(1)).get("symbol"));
  if (wanted && wanted !== view.symbol) {
    view.kind = kindOf(wanted);
    choose(wanted);
  }
});
start();
