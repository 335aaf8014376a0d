// The treebank: search it, and see where a parser differs from it.

import { api, count, element, explainBy, find, frame, percent, save, shorten, show } from "./common.js";
import { countForm } from "./counts.js";
import { difference, leavesOf, nodesOf, readTree } from "./brackets.js";
import { drawRewriting } from "./rewrite.js";
import { isLong, TreeView } from "./tree.js";

const MORE = 12;
const FIGURES = [["f1", "F1"], ["precision", "precision"], ["recall", "recall"], ["exact", "exact"], ["tag_accuracy", "tags"]];
const view = { tab: "search", pattern: "", words: false, key: "", value: "", model: null, chosen: null };
const TABS = ["search", "rewrite", "mistakes"];
const rewriting = {};
let info;
let timer;

async function start() {
  try {
    info = await frame();
    if (!info.treebank) {
      find("#content").replaceChildren(element("p", { class: "empty", text: "There is no treebank. Start the server with --treebank FILE." }));
      return;
    }
    explainBy(info.treebank, ...info.models);
    readLink();
    draw();
  } catch (error) {
    show(error);
  }
}

const grammars = () => info.models.filter((model) => model.kind === "grammar");

function readLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  view.tab = TABS.includes(given.get("tab")) ? given.get("tab") : "search";
  view.pattern = given.get("pattern") ?? "";
  view.words = given.get("words") === "1";
  view.key = given.get("key") ?? "";
  view.value = given.get("value") ?? "";
  view.model = grammars().find((model) => model.name === given.get("model"))?.name ?? grammars()[0].name;
  view.chosen = given.has("kind") ? { kind: given.get("kind"), gold: given.get("gold"), predicted: given.get("predicted") } : null;
}

function writeLink() {
  const values = { tab: view.tab };
  if (view.pattern) values.pattern = view.pattern;
  if (view.words) values.words = "1";
  if (view.key) [values.key, values.value] = [view.key, view.value];
  if (view.model !== grammars()[0].name) values.model = view.model;
  if (view.tab === "mistakes" && view.chosen) {
    for (const name of ["kind", "gold", "predicted"]) if (view.chosen[name] !== null) values[name] = view.chosen[name];
  }
  history.replaceState(null, "", `#${new URLSearchParams(values)}`);
}

function draw() {
  clearTimeout(timer);
  writeLink();
  const tab = (name, text) =>
    element("button", { type: "button", role: "tab", "aria-selected": String(view.tab === name), text, onclick: () => ((view.tab = name), show(), draw()) });
  const body = element("div", { id: "result" });
  find("#content").replaceChildren(
    element(
      "div",
      { class: "bar" },
      element("div", { class: "tabs", role: "tablist" }, tab("search", "Search"), tab("rewrite", "Rewrite"), tab("mistakes", "Gold against parsed")),
      element("span", { class: "note", text: `${info.treebank.name}: ${count(info.treebank.trees)} trees` }),
    ),
    body,
  );
  if (view.tab === "search") drawSearch(body);
  else if (view.tab === "rewrite") drawRewriting(body, rewriting);
  else drawMistakes(body);
}

// Searching.

function drawSearch(body) {
  const input = element("input", { type: "search", id: "pattern", class: "grow mono", "aria-label": "Pattern", placeholder: info.treebank.patterns.length ? `A pattern, such as ${info.treebank.patterns[0]}; empty for all trees` : "A pattern; empty for all trees", value: view.pattern, spellcheck: "false" });
  const results = element("div", { id: "found", "aria-live": "polite" });
  const choice = (value, text) =>
    element("label", {}, element("input", { type: "radio", name: "what", value, checked: view.words === (value === "words"), onchange: () => (view.words = value === "words") }), element("span", { text }));
  const form = element(
    "form",
    {
      class: "sheet",
      role: "search",
      onsubmit(event) {
        event.preventDefault();
        view.pattern = input.value;
        view.key = view.value = "";
        writeLink();
        search(results);
      },
    },
    element(
      "div",
      { class: "bar" },
      element("fieldset", { class: "choice" }, element("legend", { class: "unseen", text: "Search for" }), choice("pattern", "pattern"), choice("words", "words")),
      input,
      element("button", { class: "main", text: "Search" }),
    ),
    element(
      "div",
      { class: "bar", id: "patterns", hidden: !info.treebank.patterns.length },
      element("span", { class: "note", text: "Try" }),
      info.treebank.patterns.map((text) =>
        element("button", {
          type: "button",
          class: "plain mono",
          text,
          onclick() {
            input.value = text;
            form.querySelector("[value=pattern]").click();
            form.requestSubmit();
          },
        }),
      ),
    ),
    element(
      "details",
      {},
      element("summary", { text: "The pattern language" }),
      element(
        "table",
        { class: "plain" },
        element(
          "tbody",
          {},
          relations().map(([pattern, meaning]) => element("tr", {}, element("td", { class: "mono", text: pattern }), element("td", { text: meaning }))),
        ),
      ),
    ),
  );
  body.replaceChildren(form, results);
  search(results);
}

// The relations of the pattern language, with labels of the treebank.
function relations() {
  const { phrases, tags } = info.treebank;
  const [a, b, c] = ["A", "B", "C"].map((letter, number) => phrases[number] ?? letter);
  const [t, u] = ["T", "U"].map((letter, number) => tags[number] ?? letter);
  const bare = a.replace(/^@/, "");
  return [
    [`${a} < ${b}, ${a} > ${c}`, `${a} with a child ${b}; ${a} whose parent is ${c}`],
    [`${a} << ${b}, ${a} >> ${c}`, "anywhere below, anywhere above"],
    [`${a} $ ${b}, ${a} $. ${b}, ${a} $.. ${b}`, "has a sister; the next one; a later one"],
    [`${t} . ${u}, ${t} .. ${u}`, "right before; anywhere before"],
    [`${a} <1 ${t}, ${a} <- ${u}, ${a} <: ${u}`, "first, last, only child"],
    [`${a} < (${b} < ${t}) !< ${u}`, "parentheses, and not"],
    [`/^${bare.replaceAll('"', "")}/, @${bare}, __`, "regular expression; without function tags; any node"],
  ];
}

async function search(results) {
  show();
  results.classList.add("busy");
  try {
    await (view.pattern.trim() ? searched(results) : browsed(results));
  } catch (error) {
    results.replaceChildren();
    show(error);
  } finally {
    results.classList.remove("busy");
  }
}

async function searched(results) {
  const request = { pattern: view.pattern, words: view.words };
  const chosen = view.key ? { key: view.key, value: view.value } : {};
  const ask = (start, most = MORE) => api("search", { ...request, ...chosen, start, count: most });
  const first = await ask(0);
  const summary = element("p", { id: "summary", text: `${count(first.matches)} matches in ${count(first.matching_trees)} of ${count(first.trees)} trees (${percent(first.matching_trees / Math.max(1, first.trees))})` });
  const remarks = first.remarks.map((text) => element("p", { class: "warning", text }));
  const choose = (key, value) => {
    [view.key, view.value] = [key, value];
    writeLink();
    search(results);
  };
  const all = () => choose("", "");
  const group = view.key ? element("p", { id: "group" }, element("span", { class: "mono", dir: "auto", text: `${view.key}: ${view.value} ` }), element("button", { type: "button", text: "All matches", onclick: all })) : null;
  const tools = first.matches ? [...countForm(request, view.key, choose), element("div", { class: "bar" }, element("button", { type: "button", text: "Save trees", onclick: () => saveTrees(ask).catch(show) }))] : [];
  await listed(results, [group, summary, ...remarks, ...tools].filter(Boolean), first.results, first.matching_trees, async (start) => (await ask(start)).results);
}

// Save the trees of a search, the first thousand.
async function saveTrees(ask) {
  const lines = [];
  for (let start = 0; start < 1000; start += 100) {
    const found = (await ask(start, 100)).results;
    lines.push(...found.map((tree) => `${tree.tree}\n`));
    if (found.length < 100) break;
  }
  save("trees.mrg", new Blob(lines, { type: "text/plain" }));
}

async function browsed(results) {
  const ask = async (start) => (await api(`trees?start=${start}&count=${MORE}`)).trees;
  await listed(results, element("p", { id: "summary", class: "note", text: "All trees, in file order" }), await ask(0), info.treebank.trees, ask);
}

async function listed(results, summary, first, total, ask) {
  const cards = element("div", { class: "cards" });
  let have = 0;
  const add = (trees) => {
    for (const tree of trees) addTree(cards, tree);
    have += trees.length;
    more.hidden = have >= total;
  };
  const more = element("button", { type: "button", text: "More", async onclick() {
    try {
      add(await ask(have));
    } catch (error) {
      show(error);
    }
  } });
  results.replaceChildren(element("section", { class: "sheet" }, element("h2", { class: "unseen", text: "Trees" }), summary, cards, more));
  add(first);
}

function addTree(cards, found) {
  const root = readTree(found.tree, found.words);
  const nodes = nodesOf(root);
  const marked = new Set((found.nodes ?? []).map((number) => nodes[number]));
  const tree = new TreeView({ height: "short", classes: (node) => (marked.has(node) ? ["matched"] : []), describe: found.tree, tools: false });
  cards.append(
    element("article", { class: isLong(found.words) ? "card long" : "card", "aria-label": `Tree ${found.number}` }, element("div", { class: "bar spread" }, element("h3", { text: `Tree ${count(found.number)}` }), parseLink(found.words)), sentence(found.words, [...marked]), tree.frame),
  );
  tree.show(root);
}

function parseLink(words) {
  return element("a", { class: "note", href: `/parse#${encodeURIComponent(JSON.stringify({ text: words.join(" "), input: "tokens" }))}`, text: "parse it" });
}

function sentence(words, marked) {
  const below = marked.map((node) => leavesOf(node).map((leaf) => leaf.start));
  const inside = new Set(below.flat());
  const whole = below.some((places) => places.length === words.length);
  return element("p", { class: "note sentence", dir: "auto" }, words.map((word, number) => (inside.has(number) && !whole ? [element("mark", { text: word }), " "] : `${word} `)));
}

// Gold against parsed.

function drawMistakes(body) {
  const head = element("section", { class: "sheet" });
  const list = element("section", { class: "sheet", id: "worst" });
  body.replaceChildren(head, list);
  let shownAt = -1;
  const query = (start) => {
    const values = { model: view.model, start, count: MORE };
    if (view.chosen) {
      values.kind = view.chosen.kind;
      if (view.chosen.gold !== null) values.gold = view.chosen.gold;
      if (view.chosen.predicted !== null) values.predicted = view.chosen.predicted;
    }
    return api(`mistakes?${new URLSearchParams(values)}`);
  };
  const refresh = async () => {
    try {
      const found = await query(0);
      head.replaceChildren(...headOf(found, draw));
      // While it parses the list is drawn again only as it has grown a lot, so that one can read it.
      if (found.complete || found.done > 1.7 * shownAt) {
        shownAt = found.done;
        worst(list, found, query);
      }
      if (!found.complete && head.isConnected) timer = setTimeout(refresh, 1000);
    } catch (error) {
      show(error);
    }
  };
  refresh();
}

function headOf(found, again) {
  const same = (one) => view.chosen && one.kind === view.chosen.kind && one.gold === view.chosen.gold && one.predicted === view.chosen.predicted;
  const kinds = { phrase: "takes", tag: "tags", missing: "misses", spurious: "adds" };
  const text = (one) => (one.kind === "missing" ? `misses ${one.gold}` : one.kind === "spurious" ? `adds ${one.predicted}` : `${kinds[one.kind]} ${one.gold} as ${one.predicted}`);
  return [
    element(
      "div",
      { class: "bar spread" },
      element(
        "div",
        { class: "bar" },
        grammars().length > 1
          ? element(
              "select",
              { "aria-label": "Model", onchange: (event) => ((view.model = event.target.value), (view.chosen = null), again()) },
              grammars().map((model) => element("option", { value: model.name, text: model.name, selected: model.name === view.model })),
            )
          : element("h2", { text: view.model }),
        element("span", { class: found.complete ? "badge" : "badge warn", id: "progress", text: found.complete ? `${count(found.done)} trees parsed` : `${count(found.done)} of ${count(found.total)} parsed` }),
      ),
      element("div", { class: "figures" }, FIGURES.map(([name, title]) => element("div", {}, element("strong", { text: found[name] === null ? "–" : found[name].toFixed(1) }), element("span", { class: "note", text: title })))),
    ),
    element("p", { class: "subtle", text: "Most frequent errors" }),
    element(
      "div",
      { class: "words confusions", role: "group", "aria-label": "Confusions" },
      found.confusions.slice(0, 28).map((one) =>
        element("button", { type: "button", "aria-pressed": String(Boolean(same(one))), onclick: () => ((view.chosen = same(one) ? null : one), again()) }, text(one), element("span", { class: "note", text: count(one.count) })),
      ),
    ),
  ];
}

function worst(list, found, query) {
  const cards = element("div", { class: "pairs" });
  let have = 0;
  const add = (rows) => {
    for (const row of rows) addPair(cards, row);
    have += rows.length;
    more.hidden = have >= found.wrong_trees;
  };
  const more = element("button", { type: "button", text: "More", async onclick() {
    try {
      add((await query(have)).worst);
    } catch (error) {
      show(error);
    }
  } });
  list.replaceChildren(
    element("div", { class: "bar" }, element("h2", { text: view.chosen ? "Trees with this error, worst first" : "Worst trees first" }), element("span", { class: "note", text: `${found.wrong_trees === 1 ? "1 tree" : `${count(found.wrong_trees)} trees`}; red: not in the other tree` })),
    cards,
    more,
  );
  add(found.worst);
  if (!found.worst.length) cards.append(element("p", { class: "empty", text: found.complete ? "No mistakes." : "None yet." }));
}

function addPair(cards, row) {
  const [gold, predicted] = [readTree(row.gold, row.words), readTree(row.predicted, row.words)];
  const side = (title, root, other, text) => {
    const wrong = new Set(difference(root, other));
    const tree = new TreeView({ height: "short", classes: (node) => (wrong.has(node) ? ["wrong"] : []), describe: text, tools: false });
    return { part: element("div", {}, element("p", { class: "subtle", text: title }), tree.frame), show: () => tree.show(root) };
  };
  const one = side("Gold", gold, predicted, row.gold);
  const other = side("Parsed", predicted, gold, row.predicted);
  cards.append(
    element(
      "article",
      { class: "card", "aria-label": `Tree ${row.number}` },
      element("div", { class: "bar spread" }, element("div", { class: "bar" }, element("h3", { text: `Tree ${count(row.number)}` }), element("span", { class: row.f1 > 99.5 ? "badge warn" : "badge bad", text: `F1 ${row.f1.toFixed(0)}` }), element("span", { class: "note", text: row.mistakes === 1 ? "1 mistake" : `${row.mistakes} mistakes` })), parseLink(row.words)),
      element("p", { class: "note", dir: "auto", text: shorten(row.words.join(" "), 300) }),
      element("div", { class: isLong(row.words) ? "stack" : "two" }, one.part, other.part),
    ),
  );
  one.show();
  other.show();
}

addEventListener("hashchange", () => {
  readLink();
  draw();
});
start();
