// The tree as it is edited: the node that is chosen, the words that are selected, and subtrees that are dragged.

import { element, hint, openMenu } from "./common.js";
import { keyOf, nodesOf } from "./brackets.js";
import { TreeView } from "./tree.js";

// Marks of nodes, as in sapwood/annotation/state.py.
export const [LABEL, CHILDREN, UNSURE] = [1, 2, 4];
// How far a pointer moves before it drags.
const DRAG = 6;
// The least scale of a tree whose phrases are all open: its tags have about nine pixels.
const LEGIBLE = 0.72;
// The rank of labels that begin with what was typed; better ones are equal to it.
const PREFIX = 2;

const isBelow = (node, other) => {
  for (let at = node; at; at = at.parent) if (at === other) return true;
  return false;
};

export class EditorView extends TreeView {
  // `onMove(node, parent, adjoin)` is called when a subtree was dropped, `onSelect()` when the words or the node change.
  constructor({ onMove, onSelect, ...settings }) {
    super({ ...settings, legible: LEGIBLE, marked: (node) => node === this.current, act: (node, x, y) => this.choose(node, x, y) });
    Object.assign(this, { onMove, onSelect, range: null, anchor: null, moving: null });
    this.frame.addEventListener("pointerdown", (event) => this.grab(event), true);
  }

  // Show another state of the tree, with the node at `span` chosen if there is one: what is folded stays so.
  update(root, span) {
    const folded = new Set([...this.collapsed].map(keyOf));
    const byItself = this.byItself ?? true;
    this.root = root;
    const nodes = nodesOf(root);
    this.current = (span && nodes.find((node) => `${node.start} ${node.end} ${node.label}` === span)) ?? (span && this.nearest(nodes, span)) ?? root;
    this.moving = null;
    if (byItself) this.fold();
    else {
      this.collapsed = new Set(nodes.filter((node) => node.word === null && folded.has(keyOf(node)) && !isBelow(this.current.parent, node)));
      this.draw();
      if (this.untouched) this.fit();
      else this.place();
    }
    this.paint();
  }

  nearest(nodes, span) {
    const [start, end] = span.split(" ").map(Number);
    const inside = nodes.filter((node) => node.start <= start && node.end >= Math.min(end, nodes[0].end) && node.parent);
    return inside.reduce((best, node) => (!best || node.end - node.start <= best.end - best.start ? node : best), null);
  }

  // The node that has the focus keeps it.
  draw() {
    const had = this.frame.contains(document.activeElement) && document.activeElement.closest(".node");
    super.draw();
    this.paint();
    if (!had) return;
    this.groups.get(this.current)?.focus({ preventScroll: true });
    hint(); // nobody asked for it
  }

  choose(node, x, y, extend = false) {
    this.range = null;
    this.anchor = node;
    this.focus(node);
    this.onSelect?.();
    if (extend) this.extend(node.start, node.end);
  }

  focus(node) {
    super.focus(node);
    this.paint();
  }

  // Select the words from those of the anchor to these.
  extend(start, end) {
    const from = this.anchor ?? this.current;
    this.select(Math.min(from.start, start), Math.max(from.end, end));
  }

  select(start, end) {
    this.range = { start, end };
    this.paint();
    this.onSelect?.();
  }

  // Point at a word: its tag is chosen, or the folded phrase that has it.
  point(word) {
    this.anchor = nodesOf(this.root).find((node) => node.word !== null && node.start === word);
    let seen = this.anchor;
    while (seen.parent && !this.groups.has(seen)) seen = seen.parent;
    this.focus(seen);
    this.select(word, word + 1);
  }

  // The nodes that actions concern: the selected words, or else the chosen node.
  get targets() {
    const { range } = this;
    return range ? nodesOf(this.root).filter((node) => node.word !== null && node.start >= range.start && node.end <= range.end) : [this.current];
  }

  unselect() {
    this.range = this.moving = null;
    this.anchor = this.current;
    this.paint();
    this.onSelect?.();
  }

  // What is chosen, selected, or about to be moved.
  paint() {
    if (!this.groups) return;
    const { range, targets } = this;
    for (const [node, group] of this.groups) {
      group.classList.toggle("chosen", targets.length === 1 && node === targets[0]);
      group.classList.toggle("selected", Boolean(range) && node.word !== null && node.start >= range.start && node.end <= range.end);
      group.classList.toggle("moving", node === this.moving);
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.shiftKey && event.key.startsWith("Arrow")) {
      event.preventDefault();
      event.stopPropagation();
      this.grow(event.key);
      return;
    }
    if (event.shiftKey && event.key !== "+") return;
    if (event.key.startsWith("Arrow") || event.key === "Home") this.range = null;
    if (event.key === "Enter") return; // the page's
    super.key(event);
    if (event.key.startsWith("Arrow") || event.key === "Home") {
      this.anchor = this.current;
      this.paint();
      this.onSelect?.();
    }
  }

  // Select a word more or less.
  grow(key) {
    if (!["ArrowLeft", "ArrowRight"].includes(key)) return;
    const from = this.anchor ?? this.current;
    const { start, end } = this.range ?? from;
    const ahead = (key === "ArrowRight") !== this.plan.mirrored;
    if (ahead) this.select(start < from.start ? start + 1 : start, start < from.start ? end : Math.min(end + 1, this.root.end));
    else this.select(end > from.end ? start : Math.max(0, start - 1), end > from.end ? end - 1 : end);
  }

  // Drag a subtree to another parent.
  grab(event) {
    const group = event.target.closest?.(".node");
    const node = group && [...this.groups].find(([, one]) => one === group)?.[0];
    if (!node || event.button > 0) return;
    event.stopPropagation();
    this.moved = false;
    if (event.shiftKey) {
      event.preventDefault();
      this.moved = true;
      this.extend(node.start, node.end);
      return;
    }
    const [x, y] = [event.clientX, event.clientY];
    let ghost;
    let target;
    const over = (move) => {
      const found = document.elementFromPoint(move.clientX, move.clientY)?.closest?.("svg.tree .node");
      let at = found && [...this.groups].find(([, one]) => one === found)?.[0];
      if (at && at.word !== null) at = at.parent;
      return at && !isBelow(at, node) && at !== node.parent ? at : null;
    };
    const onMove = (move) => {
      if (move.pointerId !== event.pointerId) return;
      if (!ghost && Math.hypot(move.clientX - x, move.clientY - y) < DRAG) return;
      if (!ghost) {
        ghost = element("div", { class: "ghost", "aria-hidden": "true", text: node.label });
        document.body.append(ghost);
        this.moved = true;
        this.drawing.classList.add("dragging");
        this.moving = node;
        this.paint();
      }
      ghost.style.left = `${move.clientX + 12}px`;
      ghost.style.top = `${move.clientY + 10}px`;
      this.groups.get(target)?.classList.remove("target");
      target = over(move);
      this.groups.get(target)?.classList.add("target");
    };
    const stop = (up) => {
      if (up.pointerId !== event.pointerId) return;
      for (const [name, handler] of [["pointermove", onMove], ["pointerup", stop], ["pointercancel", stop]]) removeEventListener(name, handler);
      ghost?.remove();
      this.drawing.classList.remove("dragging");
      this.groups.get(target)?.classList.remove("target");
      if (!ghost) return;
      this.moving = null;
      this.paint();
      if (up.type === "pointerup" && target) this.onMove(node, target, up.altKey);
    };
    for (const [name, handler] of [["pointermove", onMove], ["pointerup", stop], ["pointercancel", stop]]) addEventListener(name, handler);
  }
}

// A dialog to choose a label, each explained, or to make up a new one, which is asked for twice.
export function chooseLabel(title, labels, explanations, x, y, { first = "", from, done }) {
  const input = element("input", {
    type: "text", role: "combobox", "aria-label": title, "aria-expanded": "true", "aria-controls": "choices", "aria-autocomplete": "list",
    autocomplete: "off", spellcheck: "false", placeholder: "type a label, or what it means",
  });
  const list = element("ul", { class: "choices", role: "listbox", id: "choices", "aria-label": "Labels" });
  const foot = element("div", { class: "stack" });
  let shown = [];
  // The place of the label that Enter takes, -1 if there is none.
  let active = 0;
  // Labels that match a text, best first, with their ranks: up to PREFIX they begin with it, others only mention it.
  const matches = (text) => {
    const wanted = text.toLowerCase();
    const pieces = wanted.split(/\s+/);
    const rank = (label) => {
      const low = label.toLowerCase();
      if (label === text) return 0;
      if (low === wanted) return 1;
      if (low.startsWith(wanted)) return PREFIX;
      const meaning = (explanations[label] ?? "").toLowerCase();
      if (meaning.startsWith(wanted)) return 3;
      const words = meaning.split(/[^\p{L}\p{N}]+/u);
      if (pieces.every((piece) => words.some((word) => word.startsWith(piece)))) return 4;
      return low.includes(wanted) || meaning.includes(wanted) ? 5 : 9;
    };
    const ranked = labels.map((label, place) => [rank(label), place, label]).filter(([score]) => score < 9);
    // Of labels that only mention it, those with the shortest explanation come first.
    const length = ([score, , label]) => (score > PREFIX ? (explanations[label] ?? "").length : 0);
    return ranked.sort((a, b) => a[0] - b[0] || length(a) - length(b) || a[1] - b[1]);
  };
  const choose = (label) => {
    close();
    done(label);
  };
  const paint = (isTyped = true) => {
    const text = input.value.trim();
    const found = text ? matches(text) : [];
    shown = (text ? found.map(([, , label]) => label) : first && labels.includes(first) ? [first, ...labels.filter((label) => label !== first)] : labels).slice(0, 60);
    if (isTyped) active = text && !(found[0]?.[0] <= PREFIX) ? -1 : 0;
    active = Math.min(active, shown.length - 1);
    list.replaceChildren(
      ...shown.map((label, place) =>
        element(
          "li",
          { role: "option", id: `choice-${place}`, "aria-selected": String(place === active), onclick: () => choose(label) },
          element("b", { text: label }),
          element("span", { text: explanations[label] ?? "" }),
        ),
      ),
    );
    list.hidden = !shown.length;
    if (active >= 0) input.setAttribute("aria-activedescendant", `choice-${active}`);
    else input.removeAttribute("aria-activedescendant");
    const isNew = text && !labels.includes(text) && !/\s/.test(text);
    foot.replaceChildren(...(isNew ? [element("button", { type: "button", id: "new-label", text: `New label ${text} …`, onclick: () => confirm(text) })] : []));
  };
  // A label that there is not yet.
  const confirm = (text) => {
    const yes = element("button", { type: "button", class: "main", text: `Add ${text}`, onclick: () => choose(text) });
    list.hidden = true;
    foot.replaceChildren(element("p", { text: `No tree and no model has the label ${text} so far.` }), element("div", { class: "bar" }, yes, element("button", { type: "button", text: "Back", onclick: () => (paint(), input.focus()) })));
    yes.focus();
  };
  input.addEventListener("input", () => paint());
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      event.preventDefault();
      active = active < 0 ? (step > 0 ? 0 : shown.length - 1) : (active + step + shown.length) % shown.length;
      paint(false);
      list.children[active].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      event.stopPropagation();
      const text = input.value.trim();
      if (active >= 0) choose(shown[active]);
      else if (/\s/.test(text)) foot.replaceChildren(element("p", { text: shown.length ? "Choose a label with the arrow keys." : "A label has no spaces." }));
      else if (text) confirm(text);
    }
  });
  paint();
  const close = openMenu(title, x, y, [input, list, foot], { from });
  input.focus();
}
