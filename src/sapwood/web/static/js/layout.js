// Layout of a tree: the same as sapwood/trees/drawing/layout.py, which pictures come from (a test compares them).
//
// Words stand in one row at the bottom, tags in the row above them, and a phrase one row above the highest of its
// children. Each subtree has a strip of its own, as wide as its widest label or as its children side by side, and a node
// stands in the middle of its children. A phrase that is closed is like a tag over the words that it shows.

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
    place.row = top.height - place.height;
    let left = place.left + place.inset;
    for (const child of place.children) {
      child.left = left;
      left += child.width;
    }
  }
  const texts = places.filter((place) => place.node.word !== null).map((place) => place.node.word);
  const mirrored = texts.filter(isRightToLeft).length > texts.length / 2;
  if (mirrored) for (const place of places) place.x = top.width - place.x;
  return { places, width: top.width, rows: top.height + 1, mirrored };
}
