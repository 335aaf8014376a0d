// The annotator: a list of sentences, and the tree of one, which the mouse and the keyboard edit alike.

import { api, element, explainBy, find, hint, openMenu, percent, place, Problem, save, say, shorten, show, topBar } from "./common.js";
import { difference, nodesOf, readTree } from "./brackets.js";
import { CHILDREN, chooseLabel, EditorView, LABEL, UNSURE } from "./editor.js";

// The probability below which a phrase is doubtful.
const SURE = 0.9;
const ROWS = 50;
const POLL = 4000;
// How often a window that is not seen asks.
const HIDDEN_POLL = 15000;
// A name for this window, by which the server knows it from others; it stays when the page is loaded again.
const NAME = "sapwood-window";
const WINDOW = sessionStorage.getItem(NAME) ?? Math.random().toString(36).slice(2, 12);
// A copy of this window, which takes what is stored along, gets a name of its own.
sessionStorage.removeItem(NAME);
addEventListener("pagehide", () => sessionStorage.setItem(NAME, WINDOW));
addEventListener("pageshow", () => sessionStorage.removeItem(NAME));
// Trees that a round needs: new ones, and all; as in sapwood/annotation/learning.py.
const [LEAST_NEW, LEAST_TREES] = [2, 4];
const treesOf = (count, kind) => `${count} ${kind} ${count === 1 ? "tree" : "trees"}`;
const STEPS = ["", "the first half of the new trees", "the second half", "all trees"];
const STATUS = { new: ["new", "badge plain"], begun: ["begun", "badge warn"], done: ["accepted", "badge"], skipped: ["skipped", "badge plain"] };

let project;
// The sentence that is shown, as the server has it.
let sentence;
let probable = new Map();
let view;
let start = 0;
let seen = 0;
// Actions wait for those before them.
let chain = Promise.resolve();
// The sentence that was accepted last, until something else is done.
let accepted = null;
// When the server was last asked for the project.
let polled = 0;

async function begin() {
  try {
    topBar().append(element("a", { href: "/", text: "Annotate", "aria-current": "page" }));
    view = new EditorView({
      posterior: (node) => (sentence.status === "done" || sentence.marks[node.number] & LABEL ? undefined : probable.get(`${node.start} ${node.end} ${node.label}`)),
      classes: (node) => [...(sentence.marks[node.number] & LABEL ? ["confirmed"] : []), ...(sentence.marks[node.number] & UNSURE ? ["unsure"] : [])],
      onMove: (node, parent, adjoin) => drop(node, parent, adjoin),
      onSelect: paintWords,
      describe: "Arrow keys walk in it; the keys of the buttons above edit it",
    });
    find("#tree").append(view.frame);
    view.buttons.addEventListener("click", (event) => event.detail && focusTree());
    find("#tools").append(...TOOLS.map(toolButton));
    await refresh();
    await list();
    const asked = Number(location.hash.slice(1));
    const number = asked >= 1 && asked <= project.sentences ? asked : (await api("annotate/next", { after: 0, order: find("#order").value })).number ?? 1;
    await open(number);
  } catch (error) {
    show(error);
  }
}

// The project.

async function refresh() {
  polled = Date.now();
  project = await api(`annotate/project?${new URLSearchParams({ window: WINDOW })}`);
  explainBy(project);
  find("#title").textContent = project.name;
  const { done, begun, skipped } = project.counts;
  find("#progress").textContent = `${done} of ${project.sentences} accepted${begun ? `, ${begun} begun` : ""}${skipped ? `, ${skipped} skipped` : ""}`;
  paintLearning();
  tell(project.messages, project.problem);
}

function paintLearning() {
  const { model, running, step, waiting, problem, before, after, trees } = project.learning;
  const last = before === null ? null : element("p", { class: "note", text: `Last round: ${after.toFixed(1)} F1, before ${before.toFixed(1)}, from ${trees} trees` });
  const missing = Math.max(LEAST_NEW - waiting, LEAST_TREES - project.counts.done);
  const why = running ? "A parser is learning now" : missing > 0 ? `Needs ${treesOf(missing, "more accepted")}` : "A new parser learns from the trees of this project alone";
  place(
    find("#learning"),
    element("p", { class: "subtle", text: "Parser" }),
    element("p", {}, model, " ", running ? element("span", { class: "badge warn", text: `learning from ${STEPS[step] ?? "trees"} (${step} of 3)` }) : null),
    last,
    problem ? element("p", { class: "warning", text: problem }) : null,
    element("button", { type: "button", id: "learn", title: why, disabled: running || missing > 0, text: `Learn from ${treesOf(waiting, "new")}`, onclick: learn }),
    !running && missing > 0 ? element("p", { class: "note", text: why }) : null,
  );
}

async function learn() {
  try {
    project.learning = await api("annotate/learn", {});
    paintLearning();
  } catch (error) {
    show(error);
  }
}

// What happened in the background.
function tell(messages, problem) {
  if (problem) show(new Problem(problem));
  if (messages.length <= seen) return;
  const news = find("#news");
  news.hidden = false;
  place(news, ...messages.slice(seen).map((text) => element("p", { text: text[0].toUpperCase() + text.slice(1) })), element("button", { type: "button", class: "plain", text: "Close", onclick: () => (news.hidden = true) }));
  seen = messages.length;
}

setInterval(async () => {
  if (!project || (document.hidden && Date.now() - polled < HIDDEN_POLL)) return;
  try {
    await refresh();
  } catch {
    // The next one may succeed; actions say what is wrong.
  }
}, POLL);

async function list() {
  const asked = new URLSearchParams({ order: find("#order").value, pattern: find("#pattern").value.trim(), start, count: ROWS });
  const { total, rows } = await api(`annotate/queue?${asked}`);
  place(find("#queue"), rows.map(row), rows.length ? null : element("li", { class: "empty", text: "No sentence" }));
  const step = (by, text, title) => element("button", { type: "button", class: "icon", title, "aria-label": title, text, disabled: start + by < 0 || start + by >= total, onclick: () => turn(by) });
  place(find("#pager"), element("span", { class: "note", text: total ? `${start + 1}–${Math.min(start + ROWS, total)} of ${total}` : "" }), total > ROWS ? element("div", { class: "bar" }, step(-ROWS, "↑", "Earlier sentences"), step(ROWS, "↓", "Later sentences")) : null);
}

function row({ number, text, status, doubts, words }) {
  const current = number === sentence?.number;
  return element(
    "li",
    {},
    element(
      "button",
      { type: "button", "data-number": number, "aria-current": current ? "true" : undefined, title: `${words} words, ${STATUS[status][0]}`, onclick: () => attempt(() => open(number)) },
      element("span", { class: `dot ${status}`, "aria-hidden": "true" }),
      element("span", { class: "note", text: number }),
      element("span", { class: "grow", dir: "auto", text: shorten(text, 70) }),
      element("span", { class: "unseen", text: STATUS[status][0] }),
      doubts ? element("span", { class: "badge warn", text: "?", title: "Has a note, or a doubt" }) : null,
    ),
  );
}

async function turn(by) {
  start += by;
  await attempt(list);
}

async function attempt(work) {
  try {
    show();
    await work();
  } catch (error) {
    show(error);
  }
}

// The sentence.

async function open(number) {
  accepted = null;
  draw(await api("annotate/open", { number, window: WINDOW }), true);
  for (const button of document.querySelectorAll("#queue button")) {
    if (Number(button.dataset.number) === number) {
      button.setAttribute("aria-current", "true");
      button.scrollIntoView({ block: "nearest" });
    } else button.removeAttribute("aria-current");
  }
}

// Show a sentence; of the same one, the node at `span`, by default the present one, stays chosen.
function draw(answer, isOther, span = null) {
  if (!isOther && view.root) span ??= `${view.current.start} ${view.current.end} ${view.current.label}`;
  sentence = answer;
  if (Number(location.hash.slice(1)) !== answer.number) history.replaceState(null, "", `#${answer.number}`);
  probable = new Map(answer.phrases.map(([from, to, label, p]) => [`${from} ${to} ${label}`, p]));
  const root = readTree(answer.tree, answer.words);
  nodesOf(root).forEach((node, number) => (node.number = number));
  find("#which").textContent = `Sentence ${answer.number}`;
  const [text, badge] = STATUS[answer.status];
  Object.assign(find("#status"), { textContent: text, className: badge });
  const last = answer.by ? `last changed by ${answer.by}, ${answer.time.replace("T", " ").replace("Z", " UTC")}` : "";
  find("#saved").textContent = last;
  const note = find("#note");
  note.hidden = !answer.note;
  note.textContent = answer.note ? `Note: ${answer.note}` : "";
  find("#accept").disabled = answer.status === "done";
  view.range = null;
  if (isOther) {
    view.byItself = true;
    view.collapsed.clear();
  }
  if (isOther || !view.root) {
    view.update(root, null);
    view.current = nextDoubt(root, null) ?? root;
    view.anchor = view.current;
    view.draw();
    view.place();
    if (document.activeElement === document.body) view.focus(view.current);
  } else {
    const hadFocus = view.frame.contains(document.activeElement) || document.activeElement === document.body;
    view.update(root, span);
    view.anchor = view.current;
    if (hadFocus) view.focus(view.current);
  }
  paintWords();
  hint();
  find("#tree").dataset.revision = answer.revision;
  for (const button of find("#tools").children) button.disabled = button.dataset.edit === "undo" ? !answer.can_undo : button.dataset.edit === "redo" && !answer.can_redo;
  tell(answer.messages, answer.problem);
  const { done } = answer.counts;
  if (project) {
    project.counts = answer.counts;
    find("#progress").textContent = find("#progress").textContent.replace(/^\d+/, done);
  }
  if (answer.remark) show(new Problem(answer.remark));
  else if (!answer.parsed) show(new Problem("The parser finds no tree with all that is confirmed, so that the rest is as it was."));
}

function paintWords() {
  const range = view.range ?? { start: view.current.start, end: view.current.end };
  const row = find("#words");
  if (row.childElementCount !== sentence.words.length || row.textContent !== sentence.words.join("")) place(row, sentence.words.map((word, at) => element("span", { text: word, "data-at": at })));
  [...row.children].forEach((one, at) => one.classList.toggle("selected", at >= range.start && at < range.end));
}

// Drag over words to select them.
function selectWords() {
  const row = find("#words");
  const at = (event) => {
    const found = document.elementFromPoint(event.clientX, event.clientY)?.closest?.("#words span");
    return found ? Number(found.dataset.at) : null;
  };
  let from = null;
  row.addEventListener("pointerdown", (event) => {
    const word = at(event);
    if (word === null) return;
    event.preventDefault();
    // The focus is in the tree, whose keys edit it.
    if (event.shiftKey) {
      from = (view.range ?? view.current).start;
      view.select(Math.min(from, word), Math.max(from, word) + 1);
      focusTree();
    } else {
      from = word;
      view.point(word);
    }
  });
  addEventListener("pointermove", (event) => {
    if (from === null || !event.buttons) return;
    const word = at(event);
    if (word !== null) view.select(Math.min(from, word), Math.max(from, word) + 1);
  });
  addEventListener("pointerup", () => (from = null));
}

// The next doubtful node after one, in the order of the tree.
function nextDoubt(root, after) {
  const nodes = nodesOf(root);
  const doubts = nodes.filter((node) => node.parent && !(sentence.marks[node.number] & LABEL) && (probable.get(`${node.start} ${node.end} ${node.label}`) ?? 1) < SURE);
  return doubts.find((node) => after && node.number > after.number) ?? doubts[0];
}

// Acting.

// Do something once all before it is done.
function enqueue(work) {
  chain = chain.then(work);
  return chain;
}

// Do an action once those before it are done; what it needs is taken from the tree at that time.
function act(edit, needed = () => ({}), said = "") {
  return enqueue(() => actNow(edit, needed, said));
}

async function actNow(edit, needed, said) {
  show();
  try {
    const more = needed();
    if (!more) return;
    const answer = await api("annotate/act", { number: sentence.number, revision: sentence.revision, edit, window: WINDOW, ...more });
    const node = more.node === undefined ? view.current : nodesOf(view.root)[more.node];
    const { start: from, end, label } = edit === "make" ? more : { ...node, label: more.label ?? node.label };
    accepted = null;
    draw(answer, false, `${from} ${end} ${label}`);
    if (!answer.stale) find("#saved").textContent = `saved: ${said || edit}`;
    refreshRow(answer);
  } catch (error) {
    show(error);
  }
}

function refreshRow({ number, status }) {
  const button = find(`#queue button[data-number="${number}"]`);
  if (!button) return;
  button.querySelector(".dot").className = `dot ${status}`;
  button.querySelector(".unseen").textContent = STATUS[status][0];
}

// The node that an action concerns: the chosen one, or the selected word.
function target() {
  const [node, ...others] = view.targets;
  if (others.length) throw new Problem("Several words are selected. Press m to make a phrase of them, or choose a node in the tree first.");
  return node;
}

const chosen = () => ({ node: target().number });
const focusTree = () => view.groups.get(view.current)?.focus({ preventScroll: true });

// Use a tool; one that was clicked on leaves the focus in the tree.
function use(work, event) {
  try {
    if (event?.detail) focusTree();
    show();
    work();
  } catch (error) {
    show(error);
  }
}

function remove() {
  const phrase = () => {
    const { word, label, number } = target();
    if (word !== null) throw new Problem(`Choose a phrase in the tree to remove it: ${label} is the tag of the word ${shorten(word, 30)}.`);
    return { node: number };
  };
  act("remove", phrase, "removed");
}

const whereIs = (node) => {
  const box = (view.groups.get(node) ?? view.frame).querySelector(".pill")?.getBoundingClientRect() ?? view.frame.getBoundingClientRect();
  return [box.left, box.bottom];
};
const textOf = (from, to) => shorten(sentence.words.slice(from, to).join(" "), 50);

function make() {
  const node = view.current;
  const { range } = view;
  const [from, to] = range ? [range.start, range.end] : [node.start, node.end];
  const likely = [...probable].filter(([key]) => key.startsWith(`${from} ${to} `)).map(([key, p]) => [key.split(" ").slice(2).join(" "), p]);
  const [best] = likely.filter(([label]) => project.labels.includes(label) && (range || label !== node.label)).sort((a, b) => b[1] - a[1]);
  const needed = range ? { start: from, end: to } : { start: from, end: to, over: node.number };
  const done = (label) => {
    learnLabel("labels", label);
    act("make", () => ({ ...needed, label }), `${label} over ${textOf(from, to)}`);
  };
  chooseLabel(`New phrase: ${textOf(from, to)}`, project.labels, project.explanations, ...whereIs(node), { first: best?.[0], done });
}

function relabel() {
  const node = target();
  const kind = node.word === null ? "labels" : "tags";
  const done = (label) => {
    learnLabel(kind, label);
    act("relabel", () => ({ node: node.number, label }), `${label}: ${textOf(node.start, node.end)}`);
  };
  chooseLabel(`${node.label}: ${textOf(node.start, node.end)}`, project[kind], project.explanations, ...whereIs(node), { first: node.label, done });
}

function learnLabel(kind, label) {
  if (!project[kind].includes(label)) project[kind].push(label);
}

function drop(node, parent, adjoin) {
  const siblings = node.parent.children;
  const beside = siblings[siblings.indexOf(node) - 1] === parent || siblings[siblings.indexOf(node) + 1] === parent;
  if (adjoin && beside) act("lower", () => ({ node: node.number, right: siblings.indexOf(parent) > siblings.indexOf(node), adjoin: true }), `${node.label} attached to a new ${parent.label}`);
  else act("move", () => ({ node: node.number, parent: parent.number }), `${node.label} moved to ${parent.label}`);
}

// Move by keyboard: the first time names what, the second time where.
function move() {
  if (!view.moving) {
    const node = target();
    if (!view.groups.has(node)) view.openAll();
    view.choose(node);
    view.moving = node;
    view.paint();
    say(`Go to the new parent of ${view.current.label}, then press v; Escape leaves it`);
    return;
  }
  const [node, parent] = [view.moving, view.current.word === null ? view.current : view.current.parent];
  view.moving = null;
  view.paint();
  if (node !== parent) act("move", () => ({ node: node.number, parent: parent.number }), `${node.label} moved to ${parent.label}`);
}

function toggleUnsure() {
  act("unsure", () => ({ ...chosen(), unsure: !(sentence.marks[target().number] & UNSURE) }), "unsure");
}

function toggleConfirmed() {
  const isWhole = nodesOf(target()).every((node) => (sentence.marks[node.number] & (LABEL | CHILDREN)) === (node.word === null ? LABEL | CHILDREN : LABEL));
  act(isWhole ? "unconfirm" : "confirm", chosen, isWhole ? "no longer confirmed" : "confirmed");
}

function accept() {
  return enqueue(async () => {
    const { number, status } = sentence;
    await actNow("accept", () => ({}), "accepted");
    if (sentence.number !== number || sentence.status !== "done") return;
    await next();
    if (sentence.number !== number && status !== "done") {
      accepted = number;
      find('[data-edit="undo"]').disabled = false;
      find("#saved").textContent = `sentence ${number} accepted: z takes that back`;
    }
    attempt(async () => {
      await refresh();
      await list();
    });
  });
}

// Take the last action back: also that the sentence before was accepted, if nothing was done since.
function undo() {
  return enqueue(async () => {
    const number = accepted;
    if (number !== null) await attempt(() => open(number));
    if (number === null || sentence.number === number) await actNow("undo", () => ({}), number === null ? "undo" : "no longer accepted");
  });
}

async function skip() {
  await act("skip", () => ({}), "skipped");
  await next();
}

async function next() {
  await attempt(async () => {
    const { number } = await api("annotate/next", { after: sentence.number, order: find("#order").value, pattern: find("#pattern").value.trim() });
    if (number === null) say("All of these sentences are done");
    else await open(number);
  });
}

// Go to the sentence before or after this one in the list.
function walk(by) {
  const numbers = [...document.querySelectorAll("#queue button")].map((button) => Number(button.dataset.number));
  const number = numbers[numbers.indexOf(sentence.number) + by];
  if (number) chain = chain.then(() => attempt(() => open(number)));
}

async function alternatives() {
  await attempt(async () => {
    const node = view.targets.length === 1 ? view.targets[0] : view.range;
    const { trees } = await api("annotate/alternatives", { number: sentence.number, count: 6 });
    const here = sentence.phrases
      .filter(([from, to, label]) => project.labels.includes(label) && from < node.end && node.start < to && !nodesOf(view.root).some((one) => one.start === from && one.end === to && one.label === label))
      .sort((a, b) => b[3] - a[3])
      .slice(0, 6);
    const options = trees.map((tree, at) => {
      const other = readTree(tree, sentence.words);
      const lines = (nodes, kind) => nodes.filter((one) => one.parent).slice(0, 6).map((one) => element("li", { class: kind, text: `${one.label}: ${textOf(one.start, one.end)}`, dir: "auto" }));
      const changes = element("ul", { class: "changes" }, lines(difference(view.root, other), "less"), lines(difference(other, view.root), "more"));
      return element("button", { type: "button", class: "choice-tree", "data-digit": at + 1, onclick: () => (close(), act("choose", () => ({ tree }), "another tree")) }, element("kbd", { text: at + 1 }), changes);
    });
    const phrases = here.map(([from, to, label, p]) =>
      element("button", { type: "button", onclick: () => (close(), act("make", () => ({ start: from, end: to, label }), `${label} over ${textOf(from, to)}`)) }, `${label}: ${textOf(from, to)}`, element("span", { class: "note", text: percent(p) })),
    );
    const none = options.length || phrases.length ? null : element("p", { text: "There is no other tree with all that is confirmed." });
    const close = openMenu("Other trees", ...whereIs(node), [none, phrases.length ? element("p", { class: "subtle", text: "Other phrases here" }) : null, ...phrases, options.length ? element("p", { class: "subtle", text: "The next best trees" }) : null, ...options].filter(Boolean), { from: view.groups.get(view.current) });
    const menu = find(".menu");
    menu.classList.add("middle");
    const box = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - box.width - 12))}px`;
    menu.style.top = `${Math.max(8, Math.min(box.top, innerHeight - box.height - 12))}px`;
    menu.addEventListener("keydown", (event) => {
      const digit = menu.querySelector(`[data-digit="${event.key}"]`);
      if (digit) digit.click();
      const buttons = [...menu.querySelectorAll("button")];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length]?.focus();
      }
    });
  });
}

function tokens() {
  const node = target();
  const position = node.start;
  const word = sentence.words[position];
  const input = element("input", { type: "text", id: "spelling", value: word, "aria-label": "Spelling; spaces split it", autocomplete: "off", spellcheck: "false", dir: "auto" });
  const change = () => {
    const words = input.value.split(/\s+/).filter(Boolean);
    close();
    if (words.length > 1) act("split", () => ({ position, words }), `split ${word}`);
    else if (words[0] && words[0] !== word) act("respell", () => ({ position, word: words[0] }), `${word} is now ${words[0]}`);
  };
  input.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), event.stopPropagation(), change()));
  const join = position + 1 < sentence.words.length ? element("button", { type: "button", id: "join", text: `Join with ${shorten(sentence.words[position + 1], 20)}`, onclick: () => (close(), act("join", () => ({ position }), "joined")) }) : null;
  const close = openMenu(`Word ${position + 1}: ${shorten(word, 30)}`, ...whereIs(node), [element("p", { class: "note", text: "Change the spelling; a space splits the word." }), input, element("div", { class: "bar" }, element("button", { type: "button", class: "main", text: "Change", onclick: change }), join)], { from: view.groups.get(node) });
  input.focus();
  input.select();
}

function writeNote() {
  const area = element("textarea", { rows: 4, "aria-label": "Note on this sentence", value: sentence.note, dir: "auto" });
  const keep = () => {
    close();
    act("note", () => ({ text: area.value }), "note");
  };
  area.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && (event.preventDefault(), event.stopPropagation(), keep()));
  const close = openMenu("Note", ...whereIs(view.current), [area, element("button", { type: "button", class: "main", text: "Save (Ctrl Enter)", onclick: keep })]);
  area.focus();
}

// What can be done: the key, the name on the button, the work, and what it is for.
const TOOLS = [
  ["m", "Phrase", make, "New phrase over the selected words, or over the chosen node"],
  ["l", "Label", relabel, "Another label or tag for the chosen node"],
  ["x", "Remove", remove, "Remove the chosen phrase; its children move up"],
  ["v", "Move", move, "Move the chosen subtree: press it, go to the new parent, press it again; or drag it"],
  ["r", "Raise", () => act("raise", chosen, "raised"), "Attach it one level higher"],
  ["b", "Lower", () => act("lower", chosen, "lowered"), "Attach it below the phrase on its left"],
  ["B", "Lower right", () => act("lower", () => ({ ...chosen(), right: true }), "lowered"), "Attach it below the phrase on its right"],
  ["j", "Adjoin", () => act("lower", () => ({ ...chosen(), adjoin: true }), "adjoined"), "Attach it to the phrase on its left, under a new node with that label"],
  ["c", "Confirm", toggleConfirmed, "Confirm the chosen node and all below it, or take that back"],
  ["a", "Others", alternatives, "Other phrases here, and the next best trees"],
  ["d", "Doubt", () => go(nextDoubt(view.root, view.current)), "Go to the next doubtful phrase"],
  ["u", "Unsure", toggleUnsure, "Mark the chosen node as unsure, or take that back"],
  ["t", "Word", tokens, "Spell, split or join the word"],
  ["n", "Note", writeNote, "Note on the sentence"],
  ["s", "Skip", skip, "Skip the sentence"],
  ["z", "Undo", undo, "Take the last action back; just after Accept, open that sentence again", "undo"],
  ["y", "Redo", () => act("redo"), "Do it again", "redo"],
];
const MORE_KEYS = [
  ["Arrows", "walk in the tree"],
  ["Shift ← →", "select words"],
  ["Enter", "label of the chosen node, or of the selected words"],
  ["Ctrl Enter", "accept the tree, and go on"],
  ["[ ]", "the sentence before or after in the list"],
  ["Space", "fold or open a phrase"],
  ["+ − 0", "zoom, and fit"],
  ["/", "search"],
  ["Escape", "leave a dialog, a selection or a move"],
];

function toolButton([key, name, work, what, edit]) {
  return element("button", { type: "button", title: what, "data-edit": edit ?? name, onclick: (event) => use(work, event) }, `${name} `, element("kbd", { text: key }));
}

function go(node) {
  if (!node) return say("No doubtful phrase is left");
  if (!view.groups.has(node)) view.openAll();
  view.choose(node);
  view.reveal(node);
}

function help() {
  const rows = [...TOOLS.map(([key, , , what]) => [key, what]), ...MORE_KEYS];
  const terms = rows.flatMap(([key, what]) => [element("dt", {}, element("kbd", { text: key })), element("dd", { text: what })]);
  openMenu("Keys", innerWidth / 2 - 380, 60, [element("dl", { class: "keys" }, terms), element("p", { class: "note", text: "With the mouse: click to choose, click with Shift or drag over the words to select, drag a node to its new parent (with Alt: adjoin)." }), element("button", { type: "button", text: "Close", onclick: () => find(".menu").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true })) })]);
  const menu = find(".menu");
  menu.classList.add("wide");
  menu.style.left = `${Math.max(8, (innerWidth - menu.getBoundingClientRect().width) / 2)}px`;
  menu.style.top = "4rem";
}

addEventListener("keydown", (event) => {
  if (!sentence || event.defaultPrevented || event.target.closest("input, textarea, select, .menu")) return;
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key === "Enter") {
    event.preventDefault();
    accept();
  } else if (control && event.key.toLowerCase() === "z") {
    event.preventDefault();
    if (event.shiftKey) act("redo");
    else undo();
  } else if (control && event.key.toLowerCase() === "y") {
    event.preventDefault();
    act("redo");
  } else if (control || event.altKey) return;
  else if (event.key === "Enter") {
    if (event.target.closest("button, a, summary")) return;
    event.preventDefault();
    use(view.range ? make : view.moving ? move : relabel);
  } else if (event.key === "Escape") view.unselect();
  else if (event.key === "Delete" || event.key === "Backspace") use(remove);
  else if (event.key === "?") help();
  else if (event.key === "[" || event.key === "]") walk(event.key === "[" ? -1 : 1);
  else if (event.key === "/") {
    event.preventDefault();
    find("#pattern").focus();
  } else {
    const tool = TOOLS.find(([key]) => key === event.key);
    if (!tool) return;
    event.preventDefault();
    use(tool[2]);
  }
});
find("#accept").addEventListener("click", (event) => use(accept, event));
find("#help").addEventListener("click", (event) => use(help, event));
find("#order").addEventListener("change", () => ((start = 0), attempt(list)));
find("#search").addEventListener("submit", (event) => (event.preventDefault(), (start = 0), attempt(list)));
find("#pattern").addEventListener("search", () => find("#pattern").value || ((start = 0), attempt(list)));
find("#export").addEventListener("click", () =>
  attempt(async () => {
    const to = find("#format").value;
    save(`${project.name}.${{ brackets: "mrg", pretty: "mrg", conllu: "conllu", latex: "tex", qtree: "tex" }[to] ?? to}`, new Blob([(await api(`annotate/export?to=${to}`)).text], { type: "text/plain" }));
  }),
);
find("#fold-list").addEventListener("click", (event) => {
  const alone = find(".desk").classList.toggle("alone");
  const button = event.currentTarget;
  button.title = alone ? "Show the list" : "Hide the list";
  place(button, element("span", { "aria-hidden": "true", text: alone ? "»" : "«" }), element("span", { class: "unseen", text: button.title }));
  button.setAttribute("aria-expanded", String(!alone));
});
addEventListener("hashchange", () => {
  const number = Number(location.hash.slice(1));
  if (number >= 1 && number <= project?.sentences && number !== sentence?.number) attempt(() => open(number));
});
selectWords();
begin();
