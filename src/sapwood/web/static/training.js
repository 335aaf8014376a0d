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
      find("#content").replaceChildren(element("p", { class: "empty", text: "There is no training log. Start the server with --log FILE, and sapwood train with the same." }));
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
    ["time", found.seconds === null ? undefined : duration(found.seconds)],
  ].filter(([, value]) => value !== undefined);
  const curves = found.curves;
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
    curves.length ? plot("Log-likelihood", curves, (curve) => curve.log_likelihood) : "",
    curves.some((curve) => curve.f1.y.length) ? plot("F1 on the development set", curves, (curve) => curve.f1) : "",
  );
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

function plot(title, curves, of) {
  const points = curves.map((curve) => of(curve).x.map((x, number) => [x, of(curve).y[number]]).filter(([, y]) => y !== null));
  const all = points.flat();
  if (!all.length) return "";
  const width = Math.max(320, Math.min(900, innerWidth - 60));
  const [height, left, bottom] = [Math.max(200, width / 3), 66, 34];
  const spread = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return high > low ? [low, high] : [low - 1, high + 1];
  };
  const [x0, x1] = spread(all.map(([x]) => x));
  const [y0, y1] = spread(all.map(([, y]) => y));
  const at = ([x, y]) => [left + ((x - x0) / (x1 - x0)) * (width - left - 14), 12 + ((y1 - y) / (y1 - y0)) * (height - bottom - 20)];
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": title });
  for (const y of round(y0, y1)) {
    const [, py] = at([x0, y]);
    drawing.append(svg("path", { class: "grid", d: `M${left},${py}H${width - 14}` }), svg("text", { x: left - 8, y: py + 4, "text-anchor": "end", text: y.toLocaleString("en-GB") }));
  }
  for (const x of round(x0, x1)) {
    const [px] = at([x, y0]);
    drawing.append(svg("text", { x: px, y: height - 12, "text-anchor": px > width - 40 ? "end" : "middle", text: x.toLocaleString("en-GB") }));
  }
  points.forEach((line, number) => {
    drawing.append(svg("path", { class: `curve c${number % 6}`, d: line.map((point, place) => `${place ? "L" : "M"}${at(point).map((v) => v.toFixed(1))}`).join("") }));
    const few = line.length <= 60 ? line : [line.at(-1)];
    for (const point of few) {
      const [cx, cy] = at(point);
      const dot = svg("circle", { class: `dot c${number % 6}`, cx, cy, r: 3.2 });
      dot.addEventListener("pointermove", (event) => hint(`${curves[number].name}\n${view.x} ${point[0]}: ${point[1]}`, event.clientX, event.clientY));
      dot.addEventListener("pointerleave", () => hint());
      drawing.append(dot);
    }
  });
  return element("section", { class: "sheet", "aria-label": title }, element("h2", { text: title }), drawing);
}

start();
