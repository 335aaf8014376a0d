// Parse page: text in, trees out, with constraints.

import { api, copy, element, explainBy, find, frame, openMenu, percent, save, say, shorten, show, warn } from "./common.js";
import { blocksOf, difference, nodesOf, readTree, wordsOf } from "./brackets.js";
import { heatMap } from "./chart.js";
import { isLong, TreeView } from "./tree.js";

const STATUS = {
  parsed: ["parsed", "badge"],
  relaxed: ["parsed with less pruning", "badge"],
  coarse: ["by a simpler grammar: this one has no parse", "badge warn"],
  flat: ["no parse: a flat tree", "badge bad"],
  "too long": ["too long: a flat tree", "badge bad"],
  "out of memory": ["too large: a flat tree", "badge bad"],
  "timed out": ["took too long: a flat tree", "badge bad"],
  "no parse": ["no parse under these constraints", "badge bad"],
};

let info;
// What the page shows, and all that a link needs to show it again.
const state = { text: "", input: "text", model: null, count: 3, sentence: 0, constraints: [] };
let results = [];
let running;

async function start() {
  try {
    info = await frame();
    const grammars = info.models.filter((model) => model.kind === "grammar");
    find("#model").append(...grammars.map((model) => element("option", { value: model.name, text: model.name })));
    find("#model-field").hidden = grammars.length < 2;
    state.model = grammars[0].name;
    Object.assign(state, grammar().example);
    readLink();
    fillForm();
    if (state.text) await parse();
  } catch (error) {
    show(error);
  }
}

function grammar() {
  return info.models.find((model) => model.name === state.model);
}

// The link.

function readLink() {
  if (location.hash.length < 2) return;
  try {
    const given = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    if (typeof given.text === "string") state.text = given.text;
    if (["text", "tokens"].includes(given.input)) state.input = given.input;
    else if (typeof given.text === "string") state.input = "text";
    if (info.models.some((model) => model.name === given.model && model.kind === "grammar")) state.model = given.model;
    if (Number.isInteger(given.count)) state.count = Math.max(1, Math.min(20, given.count));
    if (Number.isInteger(given.sentence)) state.sentence = Math.max(0, given.sentence);
    if (Array.isArray(given.constraints)) state.constraints = given.constraints.filter((one) => one && Number.isInteger(one.start));
  } catch {
    say("The link could not be read");
  }
}

function writeLink() {
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(state))}`);
}

function fillForm() {
  find("#text").value = state.text;
  find("#model").value = state.model;
  find("#count").value = state.count;
  for (const radio of document.querySelectorAll("[name=input]")) radio.checked = radio.value === state.input;
}

function readForm() {
  const before = JSON.stringify([state.text, state.input]);
  state.text = find("#text").value;
  state.input = find("[name=input]:checked").value;
  const { example } = grammar();
  state.model = find("#model").value;
  // Each model has an example of its own language.
  if (state.text === example.text && grammar().example.text) {
    Object.assign(state, grammar().example);
    fillForm();
  }
  state.count = Number(find("#count").value);
  if (JSON.stringify([state.text, state.input]) !== before) {
    state.constraints = [];
    state.sentence = 0;
  }
}

// Asking.

async function parse() {
  show();
  running?.abort();
  const mine = (running = new AbortController());
  find("#form").classList.add("busy");
  try {
    const options = { model: state.model, marginals: true, alternatives: state.count };
    const body = state.input === "text" ? { text: state.text } : { sentences: tokenLines() };
    const answer = await api("parse", { ...body, ...options }, { signal: mine.signal });
    results = answer.results.filter((result) => result.status !== "empty");
    explainBy(grammar(), ...info.models);
    state.sentence = Math.min(state.sentence, Math.max(0, results.length - 1));
    for (const warning of answer.warnings ?? []) warn(warning);
    if (results.length) await reconsider(mine);
    else {
      find("#result").hidden = find("#sentences").hidden = true;
      show(new Error("There is no sentence in this text."));
    }
  } catch (error) {
    if (error.name !== "AbortError") show(error);
  } finally {
    if (running === mine) find("#form").classList.remove("busy");
  }
}

function tokenLines() {
  return state.text.split("\n").map((line) => line.split(/\s+/).filter(Boolean)).filter((line) => line.length);
}

// The sentence that is shown, under its constraints, and its whole chart.
async function reconsider(mine = new AbortController()) {
  const result = results[state.sentence];
  const sentence = constrained(result.words);
  const asked = { sentences: [sentence], model: state.model };
  const [parsed, chart] = await Promise.all([
    state.constraints.length
      ? api("parse", { ...asked, marginals: true, alternatives: state.count }, { signal: mine.signal }).then((answer) => answer.results[0])
      : result,
    result.words.length <= info.limits.words
      ? api("marginals", { ...asked, least: 0.01 }, { signal: mine.signal }).then((answer) => answer.results[0].marginals)
      : [],
  ]);
  writeLink();
  draw(parsed, chart);
}

function constrained(words) {
  const tokens = words.map((word) => word);
  const phrases = [];
  const absent = [];
  for (const { start, end, label, kind } of state.constraints) {
    if (end > words.length) continue;
    if (kind === "tag") tokens[start] = [words[start], label];
    else (kind === "absent" ? absent : phrases).push([start, end, label]);
  }
  return { tokens, phrases, absent };
}

async function constrain(constraint) {
  const same = (one) => one.start === constraint.start && one.end === constraint.end && one.kind === constraint.kind;
  const rest = state.constraints.filter((one) => !(same(one) && (constraint.kind !== "absent" || one.label === constraint.label)));
  await setConstraints([...rest, constraint]);
}

async function setConstraints(constraints) {
  state.constraints = constraints;
  find("#result").classList.add("busy");
  try {
    show();
    await reconsider();
  } catch (error) {
    show(error);
  } finally {
    find("#result").classList.remove("busy");
  }
}

// Showing.

function draw(result, chart) {
  const { words } = result;
  const place = find("#result");
  place.hidden = false;
  const parts = [];
  listSentences();
  if (result.tree === null) {
    parts.push(element("section", { class: "sheet" }, element("p", { class: "warning", text: "The grammar has no parse that satisfies all constraints. Remove one of them." }), chips(words)));
    place.replaceChildren(...parts);
    return;
  }
  const root = readTree(result.tree, words);
  const posteriors = new Map(chart.map(([start, end, label, p]) => [`${start} ${end} ${label}`, p]));
  for (const [start, end, label, p] of result.marginals ?? []) posteriors.set(`${start} ${end} ${label}`, p);
  const posterior = (node) => posteriorOf(node, posteriors);
  const held = new Set(state.constraints.filter((one) => one.kind !== "absent").map((one) => `${one.start} ${one.end}`));
  const view = new TreeView({
    posterior,
    classes: (node) => (held.has(`${node.start} ${node.end}`) ? ["constrained"] : []),
    act: (node, x, y) => nodeMenu(node, posterior(node), x, y, view, words),
    describe: `The same in brackets: ${result.tree}`,
  });
  const [status, badge] = STATUS[result.status];
  parts.push(
    element(
      "section",
      { class: "sheet", "aria-label": "The best tree" },
      element(
        "div",
        { class: "bar spread" },
        element(
          "div",
          { class: "bar" },
          element("h2", { text: "Tree" }),
          element("span", { class: badge, id: "status", text: status }),
          result.log_probability === null ? null : element("span", { class: "note", title: "Natural logarithm of the sentence's probability", text: `log p = ${result.log_probability.toFixed(1)}` }),
          element("span", { class: "scale" }, "unsure", element("i"), "sure"),
        ),
        exportBar(view, result),
      ),
      chips(words),
      view.frame,
      element("p", { class: "note", text: "Hover for probabilities; click a phrase or a tag to constrain it; double-click to fold it. Drag to move, Ctrl and wheel to zoom. Keys: arrows, Enter, Space, + and −." }),
      element("details", {}, element("summary", { text: "In brackets" }), element("pre", { class: "brackets", id: "brackets", dir: "auto", text: result.tree })),
    ),
  );
  if (result.alternatives?.length > 1) parts.push(alternatives(result, root, posterior));
  if (chart.length) {
    parts.push(
      element(
        "section",
        { class: "sheet", "aria-label": "Chart" },
        element("div", { class: "bar" }, element("h2", { text: "Chart" }), element("span", { class: "scale" }, "unsure", element("i"), "sure")),
        element("p", { class: "note", text: "Row: the first word of a span; column: its last; the number is the probability of its phrase. Outlined: in the tree. Click a cell, or press Enter on it, to constrain it." }),
        heatMap(words, chart, nodesOf(root), (start, end, found, x, y, from) => spanMenu(start, end, found, words, x, y, from)),
      ),
    );
  }
  place.replaceChildren(...parts);
  view.show(root);
  for (const show of waiting.splice(0)) show();
}

// The posterior of a phrase; with gaps, that of its least probable part, of the most probable mark.
function posteriorOf(node, posteriors) {
  const blocks = blocksOf(node);
  if (blocks.length === 1) return posteriors.get(`${node.start} ${node.end} ${node.label}`);
  const of = (mark) => Math.min(...blocks.map(([start, end]) => posteriors.get(`${start} ${end} ${node.label}${mark}`) ?? 0));
  return Math.max(...["*", "*2", "*3"].map(of)) || undefined;
}

const waiting = [];

// The list of sentences, if there are several; it is made once for each answer, so that it keeps its place.
function listSentences() {
  const place = find("#sentences");
  place.hidden = results.length < 2;
  if (place.hidden) return;
  if (listed !== results) {
    listed = results;
    const step = (by, text, title) => element("button", { type: "button", class: "icon", title, "aria-label": title, text, onclick: () => choose(state.sentence + by) });
    place.replaceChildren(
      element("div", { class: "bar spread" }, element("h2", { id: "which" }), element("div", { class: "bar" }, step(-1, "↑", "Previous sentence"), step(1, "↓", "Next sentence"))),
      element("ol", { class: "list scroll" }, results.map((result, number) => element("li", {}, sentenceButton(result, number)))),
    );
  }
  find("#which").textContent = `Sentence ${state.sentence + 1} of ${results.length}`;
  place.querySelectorAll("li > button").forEach((button, number) => {
    if (number === state.sentence) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  });
  const [list, current] = [place.querySelector("ol"), place.querySelector("[aria-current]")];
  // The page itself does not move.
  if (current.offsetTop < list.scrollTop) list.scrollTop = current.offsetTop;
  else if (current.offsetTop + current.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = current.offsetTop + current.offsetHeight - list.clientHeight;
}

let listed;

function sentenceButton({ words, status }, number) {
  const [text, badge] = STATUS[status];
  return element(
    "button",
    { type: "button", onclick: () => choose(number) },
    element("span", { class: "note", text: `${number + 1}` }),
    element("span", { class: "grow", dir: "auto", text: shorten(words.join(" "), 200) }),
    status === "parsed" ? null : element("span", { class: badge, text }),
  );
}

function choose(number) {
  if (number < 0 || number >= results.length) return;
  state.sentence = number;
  setConstraints([]);
}

function chips(words) {
  return element(
    "ul",
    { class: "chips", "aria-label": "What must hold", hidden: !state.constraints.length },
    state.constraints.map((one) => {
      const what = shorten(words.slice(one.start, one.end).join(" "), 34);
      const text = one.kind === "absent" ? `no ${one.label ?? "phrase"}: ${what}` : `${one.label}: ${what}`;
      return element(
        "li",
        { class: one.kind === "absent" ? "chip absent" : "chip" },
        element("span", { text, dir: "auto" }),
        element("button", { type: "button", "aria-label": `Take back ${text}`, text: "×", onclick: () => setConstraints(state.constraints.filter((other) => other !== one)) }),
      );
    }),
  );
}

function chooser(labels, chosen, name) {
  return element("select", { "aria-label": name }, labels.map((label) => element("option", { value: label, text: label, selected: label === chosen })));
}

function nodeMenu(node, posterior, x, y, view, words) {
  const { start, end, label } = node;
  const what = shorten(words.slice(start, end).join(" "), 50);
  const title = `${label}: ${what}`;
  const from = view.groups.get(node);
  const done = (constraint) => {
    close();
    constrain(constraint);
  };
  const button = (text, constraint, main) => element("button", { type: "button", class: main ? "main" : undefined, text, onclick: () => done(constraint) });
  const parts = [];
  if (posterior !== undefined) parts.push(element("p", { class: "note", text: `Probability ${percent(posterior)}` }));
  if (node.word !== null) {
    const select = chooser(grammar().tags, label, "Tag");
    parts.push(
      element("div", { class: "bar" }, select, element("button", { type: "button", class: "main", text: "Fix this tag", onclick: () => done({ start, end, label: select.value, kind: "tag" }) })),
    );
  } else {
    const select = chooser(grammar().labels, label, "Label");
    parts.push(
      element("div", { class: "bar" }, select, element("button", { type: "button", class: "main", text: "It is this", onclick: () => done({ start, end, label: select.value, kind: "phrase" }) })),
      element("div", { class: "bar" }, button(`No ${label} here`, { start, end, label, kind: "absent" }), button("No phrase here", { start, end, label: null, kind: "absent" })),
      element("button", { type: "button", class: "plain", text: view.collapsed.has(node) ? "Open (Space)" : "Fold (Space)", onclick: () => (close(), view.toggle(node)) }),
    );
  }
  const close = openMenu(title, x, y, parts, { from });
}

function spanMenu(start, end, found, words, x, y, from) {
  const what = shorten(words.slice(start, end).join(" "), 60);
  const done = (constraint) => {
    close();
    constrain(constraint);
  };
  const phrases = found.filter(([label]) => grammar().labels.includes(label));
  const select = chooser(grammar().labels, phrases[0]?.[0] ?? grammar().labels[0], "Label");
  const close = openMenu(what, x, y, [
    phrases.length ? element("p", { class: "note", text: phrases.slice(0, 4).map(([label, p]) => `${label} ${percent(p)}`).join(" · ") }) : element("p", { class: "note", text: "No phrase above 1 %" }),
    element("div", { class: "bar" }, select, element("button", { type: "button", class: "main", text: "It is this", onclick: () => done({ start, end, label: select.value, kind: "phrase" }) })),
    element("div", { class: "bar" }, element("button", { type: "button", text: "No phrase here", onclick: () => done({ start, end, label: null, kind: "absent" }) })),
  ], { from });
}

function alternatives(result, best, posterior) {
  const all = result.alternatives;
  const top = Math.max(...all.map((one) => one.log_probability));
  const cards = all.map((one, number) => {
    const root = readTree(one.tree, result.words);
    const more = difference(root, best);
    const less = difference(best, root);
    const marked = new Set(more);
    const view = new TreeView({ height: "short", posterior, classes: (node) => (marked.has(node) ? ["differs"] : []), describe: one.tree, tools: false });
    const change = (kind) => (node) => element("li", { class: kind, dir: "auto", text: `${node.label}: ${shorten(wordsOf(node).join(" "), 60)}` });
    waiting.push(() => view.show(root));
    const share = result.log_probability === null ? null : Math.exp(one.log_probability - result.log_probability);
    return element(
      "article",
      { class: isLong(result.words) ? "card long" : "card", "aria-label": `Tree ${number + 1}` },
      element(
        "div",
        { class: "bar spread" },
        element("h3", { text: `${number + 1}. ${more.length + less.length ? "" : "the tree above"}` }),
        element("span", { class: "badge plain", title: "Share of the sentence's probability, and ratio to the most probable tree", text: share === null ? `× ${Math.exp(one.log_probability - top).toPrecision(2)}` : percent(Math.min(1, share)) }),
      ),
      view.frame,
      element("ul", { class: "changes" }, more.slice(0, 6).map(change("more")), less.slice(0, 6).map(change("less"))),
    );
  });
  return element(
    "section",
    { class: "sheet", "aria-label": "The best trees" },
    element("div", { class: "bar" }, element("h2", { text: `The ${all.length} best trees` }), element("span", { class: "note", text: "dashed: not in the tree above; per cent: share of the probability of all parses" })),
    element("div", { class: "cards" }, cards),
  );
}

// Taking it away.

function exportBar(view, result) {
  const written = (to, what) => async () => {
    try {
      copy((await api("format", { trees: result.tree, to })).text, what);
    } catch (error) {
      show(error);
    }
  };
  const actions = {
    Brackets: () => copy(result.tree, "Brackets"),
    "LaTeX (forest)": written("latex", "LaTeX"),
    "LaTeX (qtree)": written("qtree", "LaTeX"),
    SVG: () => copy(view.toSVG().text, "SVG"),
    "SVG file": () => save("tree.svg", new Blob([view.toSVG().text], { type: "image/svg+xml" })),
    "PNG file": async () => save("tree.png", await view.toPNG()),
    JSON: () => copy(JSON.stringify(result, null, 1), "JSON"),
    Link: () => copy(location.href, "Link"),
  };
  const button = element("button", {
    type: "button",
    id: "take",
    text: "Copy or save…",
    "aria-haspopup": "dialog",
    onclick() {
      const box = button.getBoundingClientRect();
      const close = openMenu("Copy or save the tree", box.left, box.bottom, [
        element("div", { class: "bar" }, Object.entries(actions).map(([name, act]) => element("button", { type: "button", text: name, onclick: () => (close(), act()) }))),
      ]);
    },
  });
  return button;
}

find("#form").addEventListener("submit", (event) => {
  event.preventDefault();
  readForm();
  parse();
});
find("#text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("#form").requestSubmit();
});
addEventListener("hashchange", () => {
  readLink();
  fillForm();
  parse();
});
start();
