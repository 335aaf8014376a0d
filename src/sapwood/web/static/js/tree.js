// A tree in a frame, as layout.js has it, with zoom, pan, folding, hover and keyboard. It opens whole: phrases are folded
// until the rest is large enough to be read.

import { element, explanations, hint, percent, shorten, shortenMiddle, svg } from "./common.js";
import { keyOf, nodesOf, wordsOf } from "./brackets.js";
import { isRightToLeft, layOut } from "./layout.js";

// The height of a row, and of one of a deep tree.
const ROW = 58;
const LOW_ROW = 40;
const GAP = 16;
const PILL = 24;
const MARGIN = 22;
// How far words are below their tags.
const BELOW = 36;
const CORNER = 7;
// The scale below which a tree is too small to be read, in a frame of the whole width and in a card; the largest one;
// and the heights of frames.
const SIZES = {
  tall: { least: 0.7, most: 1.15, low: 230, high: 900 },
  short: { least: 0.6, most: 0.9, low: 170, high: 620 },
};
// The number of characters that are seen of a folded phrase; on narrow screens fewer.
const [TEXT, SHORT_TEXT] = [22, 9];
const NARROW = 560;
// How much smaller than can be read a tree may be so that a node with classes is seen.
const MOST_SHRUNK = 1.5;
// A click on a folded phrase opens it; the second of a double-click does not fold it again.
const DOUBLE_CLICK = 600;

// Whether a sentence is too long for the tree to stand in a card next to others.
export const isLong = (words) => words.length > 12;

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();
function widthOf(text, font) {
  const key = `${font}\n${text}`;
  if (!widths.has(key)) {
    if (widths.size > 5000) widths.clear();
    ruler.font = font;
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

// Give every node that is seen its place; of a folded phrase, up to `most` characters are seen.
function arrange(root, collapsed, most) {
  const family = getComputedStyle(document.documentElement).getPropertyValue("--sans");
  const { places, width, rows, mirrored } = layOut(root, {
    labelWidth: (node) => Math.max(30, widthOf(node.label || " ", `${node.word === null ? "600 14" : "500 12.5"}px ${family}`) + 18),
    textWidth: (text) => widthOf(text, `15px ${family}`) + 4,
    textOf: (node) => (collapsed.has(node) ? shortenMiddle(wordsBelow(node), most) : node.word),
    gap: GAP,
  });
  const row = Math.max(LOW_ROW, Math.min(ROW, ROW - 2 * (rows - 12)));
  for (const place of places) {
    place.y = place.row * row;
    place.closed = collapsed.has(place.node);
    place.leaf = place.node.word !== null;
  }
  const at = new Map(places.map((place) => [place.node, place]));
  return { nodes: places, at, width, row, height: (rows - 2) * row + BELOW + 12, mirrored };
}

// From a parent down to a child: across just below the parent, with a round corner, then straight down, past nothing.
function line(parent, place, row) {
  const [top, joint, bottom] = [parent.y + PILL / 2, parent.y + row / 2, place.y - PILL / 2];
  const corner = Math.min(CORNER, Math.abs(place.x - parent.x), bottom - joint);
  const side = place.x > parent.x ? corner : -corner;
  return `M${parent.x},${top}V${joint}H${place.x - side}Q${place.x},${joint} ${place.x},${joint + corner}V${bottom}`;
}

// What is above a node, from its parent up.
function above(node) {
  const found = [];
  for (let at = node.parent; at; at = at.parent) found.push(at);
  return found;
}

function wordsBelow(node) {
  return wordsOf(node).join(" ");
}

export class TreeView {
  // `posterior(node)` is a number or undefined, `classes(node)` more names for a node, `act(node, event)` what a click
  // or Enter does, `describe` the words that a screen reader gets for the whole. `marked` nodes, by default those with
  // classes, are not folded away. `legible` is the least scale when all phrases are opened; 0 shows the whole tree.
  constructor({ height = "tall", posterior = () => undefined, classes = () => [], marked = (node) => this.classes(node).length > 0, act, describe = "", tools = true, legible = 0 } = {}) {
    Object.assign(this, { posterior, classes, marked, act, legible, collapsed: new Set(), opened: 0, size: SIZES[height] });
    this.layer = svg("g");
    this.drawing = svg("svg", { class: "tree", role: "group", "aria-label": `Tree. ${describe}` }, this.layer);
    this.frame = element("div", { class: `tree-frame ${height}` }, this.drawing);
    this.buttons = this.tools(tools);
    this.frame.append(this.buttons);
    this.view = { scale: 1, x: 0, y: 0 };
    this.pan();
    this.drawing.addEventListener("keydown", (event) => this.key(event));
    // The height follows from the width.
    let width;
    new ResizeObserver(() => {
      const isSame = width === this.frame.clientWidth;
      width = this.frame.clientWidth;
      if (!isSame && width && this.root && this.untouched) this.byItself ? this.fold() : this.fit();
    }).observe(this.frame);
  }

  tools(all) {
    const button = (text, title, onclick) => element("button", { type: "button", class: "icon", title, "aria-label": title, text, onclick });
    return element(
      "div",
      { class: "tree-tools" },
      all ? [button("−", "Smaller", () => this.zoom(1 / 1.3)), button("+", "Larger", () => this.zoom(1.3)), button("⊡", "Fit", () => this.fit())] : [],
      button("⊞", "Open all", () => this.openAll()),
      button("⊟", "Fold to fit", () => this.fold()),
    );
  }

  openAll() {
    this.collapsed.clear();
    this.byItself = false;
    this.draw();
    this.fit();
    if (this.view.scale >= this.legible) return;
    // Too wide or too deep to be read as a whole: it can be dragged and scrolled.
    this.zoom(this.legible / this.view.scale, 0, 0);
    this.frame.style.height = `${Math.min(this.size.high, Math.round((this.plan.height + PILL) * this.legible + 3 * MARGIN))}px`;
    this.view.y = MARGIN + PILL / 2;
    this.reveal(this.current);
  }

  show(root) {
    this.root = root;
    this.current = root;
    this.fold();
  }

  // Fold what there is no room for. From the root down, phrases are opened as long as all can be read; the way to the
  // first of the nodes with classes is open before others.
  fold() {
    const { root } = this;
    const { least, high } = this.size;
    const width = (this.frame.clientWidth - 2 * MARGIN) / least;
    const height = (high - 3 * MARGIN) / least;
    const folded = new Set();
    this.text = this.frame.clientWidth < NARROW ? SHORT_TEXT : TEXT;
    const fits = () => {
      const plan = arrange(root, folded, this.text);
      return plan.width <= width && plan.height + PILL <= height;
    };
    if (!fits()) {
      // A phrase of one word is as wide when it is folded.
      const inner = nodesOf(root).filter((node) => node !== root && node.word === null && node.end - node.start > 1);
      for (const node of inner) folded.add(node);
      // Something is seen in any case: the first phrase with several children.
      for (let at = root; at && (at === root || folded.delete(at)); ) at = at.children.length === 1 ? at.children[0] : null;
      const marked = nodesOf(root).filter((node) => node !== root && this.marked(node));
      const ways = marked.map((node) => above(node));
      const [way] = ways;
      const closed = (way ?? []).filter((node) => folded.delete(node));
      if (!fits()) this.text = SHORT_TEXT;
      if (way && arrange(root, folded, this.text).width > MOST_SHRUNK * width) for (const node of closed) folded.add(node);
      // Long phrases first: those that stay folded are short. Parents come before their only children.
      const others = [...inner].sort((a, b) => b.end - b.start - (a.end - a.start));
      for (const node of new Set([...ways.flat(), ...others])) {
        if (!folded.has(node) || above(node).some((one) => folded.has(one))) continue;
        folded.delete(node);
        if (!fits()) folded.add(node);
      }
    }
    this.collapsed = folded;
    this.byItself = true;
    this.draw();
    this.fit();
  }

  draw() {
    const plan = arrange(this.root, this.collapsed, this.text);
    this.plan = plan;
    const closed = plan.nodes.filter((place) => place.closed).length;
    this.frame.classList.toggle("folded", closed > 0);
    this.drawing.parentNode.querySelector(".fold-note")?.remove();
    if (closed) this.frame.append(element("p", { class: "fold-note" }, `${closed} folded`, element("span", { text: this.act ? ": click a triangle, or double-click, to open it" : closed === 1 ? ": click it to open it" : ": click one to open it" })));
    if (!plan.at.has(this.current)) this.current = above(this.current).find((node) => this.collapsed.has(node)) ?? this.root;
    const edges = svg("g");
    const nodes = svg("g");
    this.groups = new Map();
    for (const place of plan.nodes) {
      for (const child of place.children) edges.append(svg("path", { class: "edge", d: line(place, child, plan.row) }));
      nodes.append(this.group(place, edges));
    }
    this.layer.replaceChildren(edges, nodes);
  }

  group(place, edges) {
    const { node } = place;
    const value = this.posterior(node);
    // A folded phrase stands for all that is in it.
    const marks = new Set(place.closed ? nodesOf(node).flatMap((one) => this.classes(one)) : this.classes(node));
    const names = ["node", place.leaf ? "tag" : "phrase", ...marks];
    if (value !== undefined) names.push("shaded", `p${Math.max(0, Math.min(10, Math.round(10 * value)))}`);
    const sure = value === undefined ? "" : `, probability ${percent(value)}`;
    const over = wordsBelow(node);
    const group = svg(
      "g",
      {
        class: names.join(" "),
        tabindex: node === this.current ? 0 : -1,
        role: "button",
        "aria-label": `${place.text === null ? `${node.label} over “${shorten(over, 80)}”` : `${node.label} ${place.text}`}${sure}${place.closed ? ", folded" : ""}`,
        "data-key": keyOf(node),
      },
      svg("rect", { class: "pill", x: place.x - place.label / 2, y: place.y - PILL / 2, width: place.label, height: PILL, rx: PILL / 2 }),
      svg("text", { class: "label", x: place.x, y: place.y + (place.leaf ? 4.5 : 5), text: node.label }),
    );
    if (place.text !== null) {
      const y = place.y + (place.leaf ? BELOW : 46);
      if (!place.leaf) {
        const half = Math.max(place.label, place.below, 30) / 2;
        group.append(svg("path", { class: "roof", d: `M${place.x},${place.y + PILL / 2}l${-half},18h${2 * half}z` }));
      }
      // The space keeps label and word apart where text is taken without its places.
      group.append(" ", svg("text", { class: "word", x: place.x, y, text: place.text, direction: isRightToLeft(place.text) ? "rtl" : undefined }));
    }
    group.addEventListener("click", (event) => {
      if (this.moved) return;
      if (place.closed && (!this.act || event.target.matches(".roof, .word"))) {
        this.opened = event.timeStamp;
        this.toggle(node);
      } else this.activate(node, event.clientX, event.clientY);
    });
    group.addEventListener("dblclick", (event) => event.timeStamp - this.opened > DOUBLE_CLICK && this.toggle(node));
    const meaning = explanations.get(node.label);
    const tell = (x, y) =>
      hint(`${node.label}${value === undefined ? "" : `  ${percent(value)}`}${meaning ? `\n${meaning}` : ""}\n${shorten(over, 90)}`, x, y);
    group.addEventListener("pointermove", (event) => event.buttons || tell(event.clientX, event.clientY));
    group.addEventListener("pointerleave", () => hint());
    group.addEventListener("focus", () => {
      this.current = node;
      if (!group.matches(":focus-visible")) return;
      // Below the drawing: nodes next to this one stay visible.
      const { left } = group.querySelector(".pill").getBoundingClientRect();
      tell(left, this.frame.getBoundingClientRect().bottom - 14);
    });
    group.addEventListener("blur", () => hint());
    this.groups.set(node, group);
    return group;
  }

  activate(node, x, y) {
    this.focus(node);
    hint();
    this.act?.(node, x, y);
  }

  focus(node) {
    this.groups.get(this.current)?.setAttribute("tabindex", -1);
    this.current = node;
    const group = this.groups.get(node);
    group?.setAttribute("tabindex", 0);
    group?.focus({ preventScroll: true });
  }

  toggle(node) {
    if (node.word !== null) return;
    if (!this.collapsed.has(node)) this.collapsed.add(node);
    // With its only child, and the only child of that, until there is something to see.
    else for (let at = node; at && this.collapsed.delete(at); ) at = at.children.length === 1 ? at.children[0] : null;
    this.byItself = false;
    const before = this.plan.at.get(node);
    this.draw();
    // What was clicked stays where it was.
    const after = this.plan.at.get(node);
    this.view.x += (before.x - after.x) * this.view.scale;
    this.place();
    this.focus(node);
  }

  key(event) {
    const node = this.current;
    const siblings = node.parent?.children ?? [node];
    const at = siblings.indexOf(node);
    const sideways = (this.plan.mirrored ? -1 : 1) * (event.key === "ArrowLeft" ? -1 : 1);
    const steps = {
      ArrowUp: node.parent,
      ArrowDown: this.collapsed.has(node) ? null : node.children[0],
      ArrowLeft: siblings[at + sideways] ?? this.beside(node, sideways),
      ArrowRight: siblings[at + sideways] ?? this.beside(node, sideways),
      Home: this.root,
    };
    if (event.key in steps) {
      event.preventDefault();
      if (steps[event.key]) {
        this.focus(steps[event.key]);
        this.reveal(steps[event.key]);
      }
    } else if (event.key === "Enter") {
      event.preventDefault();
      const box = this.groups.get(node).querySelector(".pill").getBoundingClientRect();
      if (!this.act && this.collapsed.has(node)) this.toggle(node);
      else this.activate(node, box.left, box.bottom);
    } else if (event.key === " ") {
      event.preventDefault();
      this.toggle(node);
    } else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
  }

  // The nearest node on the same row.
  beside(node, step) {
    const here = this.plan.at.get(node);
    const row = this.plan.nodes.filter((place) => place.row === here.row).sort((a, b) => a.x - b.x);
    const direction = this.plan.mirrored ? -step : step;
    return row[row.indexOf(here) + direction]?.node;
  }

  reveal(node) {
    const place = this.plan.at.get(node);
    if (!place) return;
    const { width, height } = this.frame.getBoundingClientRect();
    const x = this.view.x + place.x * this.view.scale;
    const y = this.view.y + place.y * this.view.scale;
    if (x < 40) this.view.x += 80 - x;
    if (x > width - 40) this.view.x -= x - width + 80;
    if (y < 20) this.view.y += 40 - y;
    if (y > height - 50) this.view.y -= y - height + 90;
    this.place();
  }

  place() {
    const { scale, x, y } = this.view;
    this.layer.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
  }

  // Show all of it, in a frame that is as high as the tree is when it has the width that there is, within reason.
  fit() {
    const width = this.frame.clientWidth;
    if (!width || !this.plan) return;
    const { most, low, high } = this.size;
    // The buttons have a row of their own where the tree would reach below them.
    const tools = width < NARROW && getComputedStyle(this.buttons).display !== "none" ? 40 : 0;
    const [wide, deep] = [this.plan.width, this.plan.height + PILL];
    const across = Math.min(most, (width - 2 * MARGIN) / wide);
    const height = Math.round(Math.max(low, Math.min(high, deep * across + 3 * MARGIN + tools)));
    this.frame.style.height = `${height}px`;
    const scale = Math.min(across, (height - tools - 2 * MARGIN) / deep);
    const spare = height - tools - 2 * MARGIN - deep * scale;
    this.view = { scale, x: (width - wide * scale) / 2, y: tools + MARGIN + (PILL / 2) * scale + Math.max(0, Math.min(spare / 2, 40)) };
    this.place();
    this.untouched = true;
  }

  zoom(factor, x, y) {
    const box = this.frame.getBoundingClientRect();
    const cx = x ?? box.width / 2;
    const cy = y ?? box.height / 2;
    const scale = Math.max(0.08, Math.min(4, this.view.scale * factor));
    const real = scale / this.view.scale;
    this.view = { scale, x: cx - (cx - this.view.x) * real, y: cy - (cy - this.view.y) * real };
    this.untouched = false;
    this.place();
  }

  pan() {
    const pointers = new Map();
    let spread = 0;
    const apart = () => {
      const [a, b] = [...pointers.values()];
      return Math.hypot(a.x - b.x, a.y - b.y);
    };
    this.drawing.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      this.moved = false;
      if (pointers.size === 2) spread = apart();
    });
    this.drawing.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
      if (!this.moved && Math.hypot(dx, dy) < 5) return;
      if (!this.moved) {
        this.moved = true;
        this.drawing.setPointerCapture(event.pointerId);
        hint();
      }
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (pointers.size === 2) {
        const now = apart();
        if (spread) this.zoom(now / spread);
        spread = now;
      } else {
        this.view.x += dx;
        this.view.y += dy;
        this.untouched = false;
        this.place();
      }
    });
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
      this.drawing.addEventListener(name, (event) => pointers.delete(event.pointerId));
    }
    this.drawing.addEventListener(
      "wheel",
      (event) => {
        const isZoom = event.ctrlKey || event.metaKey || event.altKey;
        const across = event.deltaX || (event.shiftKey ? event.deltaY : 0);
        if (!isZoom && Math.abs(across) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return; // the page scrolls
        event.preventDefault();
        if (!isZoom) {
          this.view.x -= across;
          this.untouched = false;
          this.place();
          return;
        }
        const box = this.frame.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
      },
      { passive: false },
    );
  }

  // The drawing as a file of its own: what style sheets say is written into it.
  toSVG() {
    const copy = this.drawing.cloneNode(true);
    const originals = this.drawing.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((node, number) => {
      const style = getComputedStyle(originals[number]);
      if (["path", "rect", "text"].includes(node.tagName)) {
        const names = ["fill", "stroke", "stroke-width", "stroke-dasharray"];
        if (node.tagName === "text") names.push("font-family", "font-size", "font-weight", "text-anchor");
        for (const name of names) {
          const value = style.getPropertyValue(name);
          if (value && value !== "none" || name === "fill") node.setAttribute(name, value.replaceAll('"', "'"));
        }
      }
      for (const name of ["class", "tabindex", "role", "aria-label", "data-key"]) node.removeAttribute(name);
    });
    const { width, height } = this.plan;
    const size = { width: Math.ceil(width + 2 * MARGIN), height: Math.ceil(height + PILL + MARGIN) };
    copy.querySelector("g").setAttribute("transform", `translate(${MARGIN} ${MARGIN})`);
    for (const name of ["class", "role", "aria-label"]) copy.removeAttribute(name);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", size.width);
    copy.setAttribute("height", size.height);
    copy.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
    const paper = getComputedStyle(this.frame).backgroundColor;
    copy.prepend(svg("rect", { width: size.width, height: size.height, fill: paper }));
    return { text: new XMLSerializer().serializeToString(copy), ...size };
  }

  async toPNG() {
    const { text, width, height } = this.toSVG();
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    await image.decode();
    const factor = Math.min(2, 16000 / width, 16000 / height);
    const canvas = element("canvas", { width: Math.round(width * factor), height: Math.round(height * factor) });
    const context = canvas.getContext("2d");
    context.scale(factor, factor);
    context.drawImage(image, 0, 0);
    URL.revokeObjectURL(image.src);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}
