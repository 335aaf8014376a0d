// Language-model page: next words, similar words, and hidden states.

import { api, count, element, find, frame, meter, percent, place, show } from "./common.js";

// What a model calls the end of a sentence.
const END = "</s>";
const view = { model: null, context: "", word: "" };
let info;

async function start() {
  try {
    info = await frame();
    const models = info.models.filter((model) => model.kind === "language model");
    if (!models.length) {
      find("#content").replaceChildren(element("p", { class: "empty", text: "There is no language model. Start the server with -m MODEL, a model from sapwood lm train." }));
      return;
    }
    const given = new URLSearchParams(location.hash.slice(1));
    view.model = models.find((one) => one.name === given.get("model"))?.name ?? models[0].name;
    view.context = given.get("context") ?? "";
    view.word = given.get("word") ?? "";
    draw(models);
  } catch (error) {
    show(error);
  }
}

function writeLink() {
  const { model, context, word } = view;
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries({ model, context, word }).filter(([, value]) => value))}`);
}

const model = () => info.models.find((one) => one.name === view.model);

function draw(models) {
  const next = element("div", { id: "next", "aria-live": "polite" });
  const word = element("div", { id: "word", class: "stack", "aria-live": "polite" });
  const topics = element("div", { id: "topics", class: "cards dense" });
  const context = element("input", { type: "text", id: "context", class: "grow", "aria-label": "Beginning of the sentence", placeholder: "Beginning of a sentence", value: view.context, dir: "auto", oninput: () => ((view.context = context.value), suggest(next, context)) });
  const asked = element("input", { type: "text", id: "asked", class: "grow", "aria-label": "A word", placeholder: "A word", value: view.word, dir: "auto" });
  const by = element("select", { "aria-label": "Order of words", onchange: () => loadTopics(topics, by.value) }, element("option", { value: "lift", text: "most distinctive words" }), element("option", { value: "probability", text: "most frequent words" }));
  const latent = model().states > 0;
  place(
    find("#content"),
    element(
      "div",
      { class: "bar" },
      models.length > 1
        ? element("select", { "aria-label": "Model", onchange: (event) => ((view.model = event.target.value), draw(models)) }, models.map((one) => element("option", { value: one.name, text: one.name, selected: one.name === view.model })))
        : element("h2", { text: view.model }),
      element("span", { class: "badge plain", text: model().method }),
      element("span", { class: "note", text: `${count(model().words)} words${latent ? `, ${count(model().states)} states` : ""}` }),
    ),
    element(
      "div",
      { class: "two" },
      element("section", { class: "sheet" }, element("h2", { text: "Next words" }), element("div", { class: "bar" }, context), next),
      latent
        ? element(
            "section",
            { class: "sheet" },
            element("h2", { text: "A word" }),
            element("form", { class: "bar", onsubmit: (event) => (event.preventDefault(), look(word, asked.value)) }, asked, element("button", { class: "main", text: "Look" })),
            word,
          )
        : null,
    ),
    latent ? element("section", { class: "sheet" }, element("div", { class: "bar spread" }, element("h2", { text: "Hidden states" }), by), topics) : null,
  );
  suggest(next, context);
  if (latent) loadTopics(topics, "lift");
  if (latent && view.word) look(word, view.word);
}

let asking = 0;
async function suggest(results, input) {
  const mine = ++asking;
  try {
    show();
    writeLink();
    const found = await api("lm/next", { context: view.context.split(/\s+/).filter(Boolean), model: view.model, top: 12 });
    if (mine !== asking) return;
    const most = Math.max(...found.next.map((one) => one.probability), 1e-9);
    place(
      results,
      found.unknown.length ? element("p", { class: "note", text: `The model does not know: ${found.unknown.join(" ")}` }) : null,
      element(
        "ul",
        { class: "list" },
        found.next.map((one) =>
          element(
            "li",
            {},
            element(
              "button",
              {
                type: "button",
                disabled: one.word === END,
                onclick() {
                  view.context = `${view.context.trim()} ${one.word}`.trim();
                  input.value = view.context;
                  suggest(results, input);
                },
              },
              element("span", { class: one.word === END ? "grow note" : "grow", dir: "auto", text: one.word === END ? "end of the sentence" : one.word }),
              element("span", { class: "wide" }, meter(one.probability / most)),
              element("span", { class: "note number", text: percent(one.probability) }),
            ),
          ),
        ),
      ),
    );
  } catch (error) {
    show(error);
  }
}

async function look(results, word) {
  try {
    show();
    view.word = word.trim();
    writeLink();
    if (!view.word) return;
    const found = await api("lm/word", { word: view.word, model: view.model, top: 12 });
    if (!found.known) {
      place(results, element("p", { class: "note", text: `The model does not know ${found.word}.` }));
      return;
    }
    place(
      results,
      element("p", { class: "note", text: `${found.word}: ${count(found.count)} times in the training text` }),
      element("p", { class: "subtle", text: "Leads to the states" }),
      element("ul", { class: "list" }, found.profile.filter((one) => one.probability > 0.005).map((one) => element("li", { class: "line" }, element("span", { class: "grow", text: `state ${one.state}` }), element("span", { class: "wide" }, meter(one.probability)), element("span", { class: "note number", text: percent(one.probability) })))),
      element("p", { class: "subtle", text: "Words that lead to the same states" }),
      element("div", { class: "words" }, found.nearest.map((one) => element("button", { type: "button", dir: "auto", title: `likeness ${one.likeness.toFixed(3)}`, text: one.word, onclick: () => ((find("#asked").value = one.word), look(results, one.word)) }))),
    );
  } catch (error) {
    show(error);
  }
}

async function loadTopics(results, by) {
  try {
    const { states } = await api(`lm/topics?${new URLSearchParams({ model: view.model, by, top: 12, states: 60 })}`);
    place(
      results,
      ...states.map((state) =>
        element(
          "article",
          { class: "card", "aria-label": `State ${state.state}` },
          element("div", { class: "stack" }, element("h3", { text: `state ${state.state}` }), meter(state.probability / states[0].probability), element("p", { class: "note", text: `${percent(state.probability)} of all words` })),
          element("div", { class: "words" }, state.words.map((one) => element("span", { class: "w2", dir: "auto", text: one.word }))),
          state.contexts.length ? element("p", { class: "note", dir: "auto", text: `after ${state.contexts.slice(0, 8).map((one) => one.word).join(", ")}` }) : null,
        ),
      ),
    );
  } catch (error) {
    show(error);
  }
}

start();
