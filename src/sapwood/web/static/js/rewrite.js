// Preview of rewriting: rules, and the trees that they would change, before and after.

import { difference, readTree } from "./brackets.js";
import { api, count, element, place, save, shorten, show } from "./common.js";
import { isLong, TreeView } from "./tree.js";

const MORE = 12;
const EXAMPLE = "% Function tags become labels.\n/^NP-(.*)/#1%function=phrase\n\nrelabel phrase %{function}\n";

// Draw the form; `state` keeps the rules from one drawing to the next.
export function drawRewriting(body, state) {
  const rules = element("textarea", { id: "rules", class: "mono", rows: 8, "aria-label": "Rules", spellcheck: "false", value: state.rules ?? EXAMPLE });
  const words = element("input", { type: "checkbox", checked: state.allowed ?? false });
  const results = element("div", { id: "rewritten", "aria-live": "polite" });
  const form = element(
    "form",
    {
      class: "sheet",
      async onsubmit(event) {
        event.preventDefault();
        [state.rules, state.allowed] = [rules.value, words.checked];
        show();
        results.classList.add("busy");
        try {
          await preview(results, { rules: rules.value, allow_word_changes: words.checked });
        } catch (error) {
          results.replaceChildren();
          show(error);
        } finally {
          results.classList.remove("busy");
        }
      },
    },
    rules,
    element(
      "div",
      { class: "bar" },
      element("button", { class: "main", text: "Preview" }),
      element("label", {}, words, element("span", { text: " Rules may change words" })),
      element("button", { type: "button", text: "Save rules", onclick: () => save("rules.txt", new Blob([rules.value], { type: "text/plain" })) }),
      element("span", { class: "note", text: "The treebank stays as it is. To write new trees: sapwood rewrite rules.txt TREEBANK -o NEW" }),
    ),
  );
  body.replaceChildren(form, results);
}

async function preview(results, request) {
  const ask = (start) => api("rewrite", { ...request, start, count: MORE });
  const first = await ask(0);
  const cards = element("div", { class: "pairs" });
  const shown = [];
  const add = (trees) => {
    for (const tree of trees) addPair(cards, tree);
    shown.push(...trees);
    more.hidden = shown.length >= first.changed;
  };
  const more = element("button", { type: "button", text: "More", async onclick() {
    try {
      add((await ask(shown.length)).results);
    } catch (error) {
      show(error);
    }
  } });
  place(
    results,
    element(
      "section",
      { class: "sheet" },
      element("h2", { class: "unseen", text: "Rewritten trees" }),
      element("p", { id: "summary", text: `${count(first.changed)} of ${count(first.trees)} trees change` }),
      element("ul", { class: "note" }, first.rules.map((rule) => element("li", { text: `rule of line ${rule.line}: ${count(rule.rewrites)} rewrites` }))),
      cards,
      element(
        "div",
        { class: "bar" },
        more,
        first.changed ? element("button", { type: "button", text: "Save the trees shown", onclick: () => save("rewritten.mrg", new Blob(shown.map((tree) => `${tree.after}\n`), { type: "text/plain" })) }) : null,
      ),
    ),
  );
  add(first.results);
}

function addPair(cards, found) {
  const [before, after] = [readTree(found.before, found.words_before), readTree(found.after, found.words)];
  const side = (title, root, other, text) => {
    const changed = new Set(difference(root, other));
    const tree = new TreeView({ height: "short", classes: (node) => (changed.has(node) ? ["matched"] : []), describe: text, tools: false });
    return { part: element("div", {}, element("p", { class: "subtle", text: title }), tree.frame), show: () => tree.show(root) };
  };
  const sides = [side("Before", before, after, found.before), side("After", after, before, found.after)];
  cards.append(
    element(
      "article",
      { class: "card", "aria-label": `Tree ${found.number}` },
      element("h3", { text: `Tree ${count(found.number)}` }),
      element("p", { class: "note", dir: "auto", text: shorten(found.words.join(" "), 300) }),
      element("div", { class: isLong(found.words) ? "stack" : "two" }, sides.map((one) => one.part)),
    ),
  );
  for (const one of sides) one.show();
}
