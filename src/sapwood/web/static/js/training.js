// Training: the curves of a log, as they grow.

import { api, count, element, find, frame, hint, show, svg } from "./common.js";

const view = { log: 0, x: "step" };
let info;
let timer;
let drawn;

async function start() {
  try {
    info = await frame();
    if (!info.logs.length) {
      find("#content").replaceChildren(element("p", { class: "empty", text: "There is no training log. Start both the server and sapwood train with --log FILE." }));
      return;
    }
    refresh();
  } catch (error) {
    show(error);
  }
}

async function refresh() {
  clearTimeout(timer);
  try {
    const found = await api(`training?log=${view.log}&x=${view.x}`);
    show();
    const text = JSON.stringify([found, view]);
    if (text !== drawn) draw(found);
    drawn = text;
    if (found.state !== "finished") timer = setTimeout(refresh, 2000);
  } catch (error) {
    show(error);
    timer = setTimeout(refresh, 5000);
  }
}

function draw(found) {
  const change = (name) => (event) => {
    view[name] = name === "log" ? Number(event.target.value) : event.target.value;
    refresh();
  };
  const badge = { waiting: "badge warn", running: "badge plain", finished: "badge" }[found.state];
  const last = found.last ?? {};
  const figures = [
    ["method", found.start?.method],
    ["trees", found.start?.trees === undefined ? undefined : count(found.start.trees)],
    ["step", found.last ? count(last.step) : undefined],
    ["states", last.states === undefined || last.states === null ? undefined : count(last.states)],
    ["best F1", best(found.curves)],
    ["now", found.now ?? undefined],
    ["time", found.seconds === null ? undefined : duration(found.seconds)],
  ].filter(([, value]) => value !== undefined);
  const curves = found.curves;
  find("#content").classList.add("training");
  find("#content").replaceChildren(
    element(
      "section",
      { class: "sheet" },
      element(
        "div",
        { class: "bar spread" },
        element(
          "div",
          { class: "bar" },
          info.logs.length > 1
            ? element("select", { "aria-label": "Log", onchange: change("log") }, info.logs.map((name, number) => element("option", { value: number, text: name, selected: number === view.log })))
            : element("h2", { text: found.log }),
          element("span", { class: badge, id: "state", text: { waiting: "not there yet", running: "running", finished: "finished" }[found.state] }),
        ),
        element("label", { class: "field" }, "by ", element("select", { onchange: change("x") }, ["step", "seconds"].map((name) => element("option", { value: name, text: name === "step" ? "iterations" : "seconds", selected: name === view.x })))),
      ),
      element("div", { class: "figures left" }, figures.map(([title, value]) => element("div", {}, element("strong", { text: value }), element("span", { class: "note", text: title })))),
    ),
    ...plotsOf(found).map(([title, lines]) => plot(title, lines)),
    found.state !== "waiting" && !curves.length && !found.series.length ? element("p", { class: "sheet empty", text: "The log has nothing to draw yet." }) : "",
  );
}

// The plots: titles, and the lines of each with their names, points and what is counted along them.
function plotsOf({ curves, series }) {
  const plots = new Map();
  const add = (title, name, unit, { x, y }) => {
    const points = x.map((value, number) => [value, y[number]]).filter(([, value]) => value !== null);
    if (points.length) plots.set(title, [...(plots.get(title) ?? []), { name, unit, points }]);
  };
  const unit = view.x === "step" ? "iteration" : "seconds";
  for (const curve of curves) add("Log-likelihood", curve.name, unit, curve.log_likelihood);
  for (const curve of curves) add("F1 on the development set", curve.name, unit, curve.f1);
  for (const one of series) add(one.title, one.name, one.unit, one);
  return [...plots];
}

function best(curves) {
  const all = curves.flatMap((curve) => curve.f1.y);
  return all.length ? Math.max(...all).toFixed(2) : undefined;
}

function duration(seconds) {
  return seconds < 120 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(1)} min`;
}

// Round numbers between two others, about five of them.
function round(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(Number((at * step).toPrecision(10)));
  return found;
}

function plot(title, lines) {
  const all = lines.flatMap((line) => line.points);
  const wide = find("#content").clientWidth;
  const width = Math.max(300, (wide > 1000 ? wide / 2 - 8 : wide) - 40);
  const [height, left, bottom] = [Math.max(200, Math.min(300, width / 2.2)), 84, 46];
  const spread = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return high > low ? [low, high] : [low - 1, high + 1];
  };
  const [x0, x1] = spread(all.map(([x]) => x));
  const [y0, y1] = spread(all.map(([, y]) => y));
  const at = ([x, y]) => [left + ((x - x0) / (x1 - x0)) * (width - left - 14), 12 + ((y1 - y) / (y1 - y0)) * (height - bottom - 20)];
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": title });
  for (const y of round(y0, y1)) {
    const [, py] = at([x0, y]);
    drawing.append(svg("path", { class: "grid", d: `M${left},${py}H${width - 14}` }), svg("text", { x: left - 8, y: py + 4, "text-anchor": "end", text: y.toLocaleString("en-GB") }));
  }
  for (const x of round(x0, x1)) {
    const [px] = at([x, y0]);
    drawing.append(svg("text", { x: px, y: height - 26, "text-anchor": px > width - 40 ? "end" : "middle", text: x.toLocaleString("en-GB") }));
  }
  drawing.append(svg("text", { class: "unit", x: (left + width) / 2, y: height - 5, "text-anchor": "middle", text: lines[0].unit }));
  lines.forEach(({ name, unit, points: line }, number) => {
    drawing.append(svg("path", { class: `curve c${number % 6}`, d: line.map((point, place) => `${place ? "L" : "M"}${at(point).map((v) => v.toFixed(1))}`).join("") }));
    const few = line.length <= 60 ? line : [line.at(-1)];
    for (const point of few) {
      const [cx, cy] = at(point);
      const dot = svg("circle", { class: `dot c${number % 6}`, cx, cy, r: 3.2 });
      dot.addEventListener("pointermove", (event) => hint(`${name}\n${unit} ${point[0]}: ${Number(point[1].toPrecision(7))}`, event.clientX, event.clientY));
      dot.addEventListener("pointerleave", () => hint());
      drawing.append(dot);
    }
  });
  const legend = lines.length > 1 ? element("div", { class: "legend" }, lines.map(({ name }, number) => element("span", { class: `c${number % 6}`, text: name }))) : null;
  return element("section", { class: "sheet plot-sheet", "aria-label": title }, element("div", { class: "bar spread" }, element("h2", { text: title }), legend), drawing);
}

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  drawn = undefined;
  refresh();
});
start();
