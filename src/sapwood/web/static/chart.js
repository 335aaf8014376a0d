// The chart as a heat map: a cell for each span, shaded by how probable it is that some phrase stands there.

import { element, hint, level, percent, shorten, svg } from "./common.js";

export function heatMap(words, marginals, tree, act) {
  const cells = new Map();
  const tags = new Set();
  for (const node of tree) if (node.word !== null) tags.add(`${node.start} ${node.label}`);
  for (const [start, end, label, probability] of marginals) {
    const key = `${start} ${end}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push([label, probability]);
  }
  const inTree = new Set(tree.map((node) => `${node.start} ${node.end}`));
  const n = words.length;
  const size = n <= 12 ? 40 : n <= 30 ? 28 : n <= 60 ? 18 : 11;
  const label = 128;
  const drawing = svg("svg", {
    width: label + n * size + 8,
    height: n * size + 14,
    role: "img",
    "aria-label": "Chart: how probable each span is. The tree has the same numbers on its phrases.",
  });
  for (let row = 0; row < n; row++) {
    drawing.append(svg("text", { x: label - 8, y: row * size + size / 2 + 4, "text-anchor": "end", text: size < 14 && row % 2 ? "" : shorten(words[row], 16) }));
    for (let column = row; column < n; column++) {
      const [start, end] = [row, column + 1];
      const found = (cells.get(`${start} ${end}`) ?? []).sort((a, b) => b[1] - a[1]);
      const best = found[0];
      const cell = svg("rect", {
        class: `cell ${best ? level(best[1]) : "none"}${inTree.has(`${start} ${end}`) ? " in-tree" : ""}`,
        x: label + column * size,
        y: row * size,
        width: size - 1,
        height: size - 1,
        rx: Math.min(4, size / 5),
        "data-span": `${start} ${end}`,
      });
      const text = found.length ? found.slice(0, 4).map(([name, p]) => `${name}  ${percent(p)}`) : ["no phrase above 1 %"];
      cell.addEventListener("pointermove", (event) => hint([shorten(words.slice(start, end).join(" "), 70), ...text].join("\n"), event.clientX, event.clientY));
      cell.addEventListener("pointerleave", () => hint());
      cell.addEventListener("click", (event) => {
        hint();
        act(start, end, found, event.clientX, event.clientY);
      });
      drawing.append(cell);
      if (best && size >= 28 && best[1] >= 0.1) {
        drawing.append(svg("text", { class: "in-cell", x: label + column * size + size / 2, y: row * size + size / 2 + 3, text: shorten(best[0], size >= 40 ? 5 : 4) }));
      }
    }
  }
  return element("div", { class: "heat", tabindex: 0, role: "region", "aria-label": "Chart" }, drawing);
}
