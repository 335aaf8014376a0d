// Layout of a tree: the same as sapwood/trees/drawing/layout.py, which pictures come from (a test compares them).
//
// Words stand in one row at the bottom, tags in the row above them, and a phrase one row above the highest of its
// children. Each subtree has a strip of its own, as wide as its widest label or as its children side by side, and a node
// stands in the middle of its children. A phrase that is closed is like a tag over the words that it shows. Trees with
// gaps, whose lines must cross, are laid out as by sapwood/trees/drawing/crossing.py.

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;
export const isRightToLeft = (text) => RIGHT_TO_LEFT.test(text);

// `labelWidth(node)` and `textWidth(text)` measure; `textOf(node)` is what stands below a node, null for an open phrase;
// `gap` is the least distance of texts. Places come parents first; rows are counted from the top, the words are in the
// last one.
export function layOut(root, { labelWidth, textWidth, textOf, gap }) {
  const places = [];
  const stack = [[root, null]];
  while (stack.length) {
    const [node, above] = stack.pop();
    const text = textOf(node);
    const place = { node, text, children: [], label: labelWidth(node), below: text === null ? 0 : textWidth(text) };
    above?.children.push(place);
    places.push(place);
    if (text === null) for (let i = node.children.length - 1; i >= 0; i--) stack.push([node.children[i], place]);
  }
  if (root.crosses) {
    layOutCrossing(places, gap);
    return finished(places, places[0].total, Math.max(...places.map((place) => place.height)));
  }
  // Parents come before their children: strips are made from the back.
  for (let i = places.length - 1; i >= 0; i--) {
    const place = places[i];
    const { children } = place;
    if (!children.length) {
      place.width = Math.max(place.label, place.below) + gap;
      Object.assign(place, { centre: place.width / 2, inset: 0, height: 1 });
      continue;
    }
    const inner = children.reduce((sum, child) => sum + child.width, 0);
    const middle = (children[0].centre + inner - children.at(-1).width + children.at(-1).centre) / 2;
    const half = (place.label + gap) / 2;
    // A label wider than what is below it pushes that in from the side.
    place.inset = Math.max(0, half - middle);
    place.centre = middle + place.inset;
    place.width = Math.max(inner + place.inset, place.centre + half);
    place.height = 1 + Math.max(...children.map((child) => child.height));
  }
  const top = places[0];
  top.left = 0;
  for (const place of places) {
    place.x = place.left + place.centre;
    let left = place.left + place.inset;
    for (const child of place.children) {
      child.left = left;
      left += child.width;
    }
  }
  return finished(places, top.width, top.height);
}

function finished(places, width, height) {
  for (const place of places) place.row = height - place.height;
  const texts = places.filter((place) => place.node.word !== null).map((place) => place.node.word);
  const mirrored = texts.filter(isRightToLeft).length > texts.length / 2;
  if (mirrored) for (const place of places) place.x = width - place.x;
  return { places, width, rows: height + 1, mirrored };
}

// Places of the nodes of a tree with gaps: `x` and `height` in rows above the words, and the width of all at the first.
function layOutCrossing(places, gap) {
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const columns = places.filter((place) => !place.children.length).sort((a, b) => a.node.start - b.node.start);
  columns.forEach((place, i) => (place.columns = [i]));
  for (const place of [...places].reverse()) {
    if (place.children.length) place.columns = place.children.flatMap((child) => child.columns).sort((a, b) => a - b);
    place.block = largestRun(place.columns);
  }
  // A phrase stands over its largest block, which is as wide as its label.
  const widths = columns.map((place) => Math.max(place.label, place.below) + gap);
  for (const place of places) {
    const [start, end] = place.block;
    const missing = place.label + gap - sum(widths.slice(start, end));
    if (missing > 0) for (let i = start; i < end; i++) widths[i] += missing / (end - start);
  }
  const lefts = [0];
  for (const width of widths) lefts.push(lefts.at(-1) + width);
  for (const place of [...places].reverse()) {
    const [left, right] = place.block.map((column) => lefts[column]);
    const inside = place.children.map((child) => child.x).filter((x) => left <= x && x <= right);
    const half = (place.label + gap) / 2;
    const middle = inside.length ? (inside[0] + inside.at(-1)) / 2 : (left + right) / 2;
    place.x = Math.min(Math.max(middle, left + half), right - half);
    place.height = 1;
  }
  // Phrases over fewer words come first, and go into the lowest row in which nothing is in the way of their line.
  const taken = new Map();
  const size = (place) => place.columns.at(-1) - place.columns[0];
  const phrases = [...places].reverse().filter((place) => place.children.length);
  for (const place of phrases.sort((a, b) => size(a) - size(b))) {
    const half = (place.label + gap) / 2;
    const ends = place.children.map((child) => child.x);
    const [first, last] = [Math.min(...ends, place.x - half), Math.max(...ends, place.x + half)];
    let row = 1 + Math.max(...place.children.map((child) => child.height));
    while ((taken.get(row) ?? []).some(([start, end]) => first < end && start < last)) row += 1;
    place.height = row;
    taken.set(row, [...(taken.get(row) ?? []), [first, last]]);
  }
  places[0].total = lefts.at(-1);
}

// The largest run of consecutive numbers, from its first to one past its last.
function largestRun(numbers) {
  let best = [numbers[0], numbers[0] + 1];
  let [start, end] = best;
  for (const number of numbers.slice(1)) {
    if (number !== end) start = number;
    end = number + 1;
    if (end - start > best[1] - best[0]) best = [start, end];
  }
  return best;
}
