// The chart as a heat map: a cell for each span, shaded by how probable it is that some phrase stands there.

import { element, find, hint, level, percent, shorten, svg } from "./common.js";

export function heatMap(words, marginals, tree, act) {
  const cells = new Map();
  for (const [start, end, label, probability] of marginals) {
    const key = `${start} ${end}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push([label, probability]);
  }
  const inTree = new Set(tree.map((node) => `${node.start} ${node.end}`));
  const n = words.length;
  const longest = Math.max(...words.map((word) => shorten(word, 16).length));
  // Words stand to the left of the rows, and slanting above the columns.
  const [left, top] = [Math.min(128, 22 + 7.5 * longest), Math.min(96, 26 + 5.2 * longest)];
  // As large as there is room for, and large enough to be read or at least hit.
  const room = (find("#content, #result")?.clientWidth || 900) - left - 110;
  const size = Math.max(n <= 12 ? 34 : n <= 34 ? 24 : 12, Math.min(44, Math.floor(room / n)));
  const drawing = svg("svg", {
    width: left + n * size + Math.min(80, 4 * longest),
    height: top + n * size + 4,
    role: "grid",
    "aria-label": "Chart: probability of each span",
  });
  const named = (number) => (size < 14 && number % 2 ? "" : shorten(words[number], 16));
  const every = new Map();
  for (let row = 0; row < n; row++) {
    const line = svg("g", { role: "row" });
    drawing.append(svg("text", { x: left - 8, y: top + row * size + size / 2 + 4, "text-anchor": "end", text: named(row) }));
    const corner = `${left + row * size + size / 2 + 3} ${top - 8}`;
    drawing.append(svg("text", { transform: `translate(${corner}) rotate(-40)`, text: named(row) }), line);
    for (let column = row; column < n; column++) {
      const [start, end] = [row, column + 1];
      const found = (cells.get(`${start} ${end}`) ?? []).sort((a, b) => b[1] - a[1]);
      const best = found[0];
      const [x, y] = [left + column * size, top + row * size];
      const says = [shorten(words.slice(start, end).join(" "), 70), ...(found.length ? found.slice(0, 4).map(([name, p]) => `${name}  ${percent(p)}`) : ["no phrase above 1 %"])];
      const cell = svg("rect", {
        class: `cell ${best ? level(best[1]) : "none"}${inTree.has(`${start} ${end}`) ? " in-tree" : ""}`,
        x, y, width: size - 1.5, height: size - 1.5, rx: Math.min(5, size / 5),
        "data-span": `${start} ${end}`,
        role: "gridcell",
        tabindex: row === 0 && column === n - 1 ? 0 : -1,
        "aria-label": says.join(", "),
      });
      const tell = (px, py) => hint(says.join("\n"), px, py);
      const choose = (px, py) => {
        hint();
        act(start, end, found, px, py, cell);
      };
      cell.addEventListener("pointermove", (event) => tell(event.clientX, event.clientY));
      cell.addEventListener("pointerleave", () => hint());
      cell.addEventListener("click", (event) => choose(event.clientX, event.clientY));
      cell.addEventListener("blur", () => hint());
      cell.addEventListener("focus", () => {
        const box = cell.getBoundingClientRect();
        if (cell.matches(":focus-visible")) tell(box.right, box.bottom - 10);
      });
      cell.addEventListener("keydown", (event) => {
        const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
        if (event.key in steps) {
          event.preventDefault();
          const [down, right] = steps[event.key];
          const other = every.get(`${row + down} ${column + right}`);
          if (!other) return;
          cell.setAttribute("tabindex", -1);
          other.setAttribute("tabindex", 0);
          other.focus();
        } else if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          const box = cell.getBoundingClientRect();
          choose(box.left, box.bottom);
        }
      });
      every.set(`${row} ${column}`, cell);
      line.append(cell);
      if (!best || best[1] < 0.1 || size < 28) continue;
      const middle = { "aria-hidden": "true", class: "in-cell", x: x + size / 2 - 0.75 };
      line.append(svg("text", { ...middle, y: y + size / 2 + (size >= 44 ? -1 : 3), text: shorten(best[0], size >= 36 ? 5 : 4) }));
      if (size >= 44) line.append(svg("text", { ...middle, class: "in-cell part", y: y + size / 2 + 11, text: best[1] >= 0.995 ? "1" : best[1].toFixed(2).slice(1) }));
    }
  }
  return element("div", { class: "heat" }, drawing);
}
