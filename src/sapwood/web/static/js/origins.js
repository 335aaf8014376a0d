// Origins of the states of a symbol: the splits of split-merge, the singular values of spectral learning, the
// anchors of pivot learning. Each is a part of the page, or nothing where a grammar has none.

import { element, find, hint, meter, percent, shorten, svg } from "./common.js";

function part(title, content) {
  return element("div", { class: "part" }, element("h3", { class: "subtle", text: title }), content);
}

// What is wider than there is room for moves sideways, by keys, too.
function wide(title, drawing) {
  return element("div", { class: "wide-part", tabindex: 0, role: "region", "aria-label": title }, drawing);
}

// How much room a drawing has, about: beside the list of symbols, or below it.
function room() {
  const whole = find("#content").clientWidth;
  return Math.max(300, whole > 700 ? whole - Math.min(304, 0.3 * whole) - 64 : whole - 32);
}

// The tree of splits: levels from the coarsest to the states themselves.
export function splits({ states, levels, method, nameOf, show }) {
  const known = levels.filter((level) => level.every((group) => group >= 0));
  const number = states.length;
  if (!known.length || number < 2) return null;
  const of = new Map(states.map((state) => [state.state, state]));
  const all = [...Array(number).keys()];
  const rows = [Array(number).fill(0), ...known, all].filter((row, at, list) => !at || String(row) !== String(list[at - 1]));
  const step = Math.max(62, Math.min(118, room() / number));
  const [high, top] = [62, 26];
  const place = (row, group) => {
    const members = all.filter((state) => rows[row][state] === group);
    const share = members.reduce((sum, state) => sum + of.get(state).share, 0);
    return { x: members.reduce((sum, state) => sum + (state + 0.5) * step, 0) / members.length, members, share };
  };
  const size = { width: number * step, height: (rows.length - 1) * high + top + 62 };
  const title = method === "split-merge" ? "Tree of splits, with the most distinctive word of each state" : "Groups of states, coarsest on top";
  const drawing = svg("svg", { ...size, class: "plot splits", role: "group", "aria-label": title });
  const nodes = [];
  rows.forEach((row, depth) => {
    for (const group of new Set(row)) {
      const here = place(depth, group);
      const y = depth * high + top;
      const radius = 4 + 15 * Math.sqrt(here.share);
      if (depth) {
        const above = place(depth - 1, rows[depth - 1][here.members[0]]);
        const [from, to, middle] = [y - high, y, y - high / 2];
        const thick = 1 + 7 * Math.sqrt(here.share);
        drawing.append(svg("path", { class: "branch", "stroke-width": thick.toFixed(1), d: `M${above.x},${from}C${above.x},${middle} ${here.x},${middle} ${here.x},${to}` }));
      }
      const leaf = depth === rows.length - 1;
      const texts = here.members.map((state) => `${nameOf(state) || `state ${state}`}: ${of.get(state).words.slice(0, 5).map((word) => word.name).join(", ")}`);
      const says = [percent(here.share), ...texts.slice(0, 6)].join("\n");
      const word = leaf ? shorten(nameOf(group) || of.get(group).words[0]?.name || of.get(group).rules[0]?.name || "", Math.floor(step / 7.2)) : "";
      const node = svg("g", leaf ? { class: "leaf", tabindex: 0, role: "button", "aria-label": `${word} ${group}. Show ${texts[0]}` } : {}, svg("circle", { class: "dot", cx: here.x, cy: y, r: radius }));
      node.addEventListener("pointermove", (event) => hint(says, event.clientX, event.clientY));
      node.addEventListener("pointerleave", () => hint());
      if (leaf) {
        node.append(
          svg("text", { class: "word", x: here.x, y: y + 34, "text-anchor": "middle", text: word }),
          " ",
          svg("text", { class: "number", x: here.x, y: y + 50, "text-anchor": "middle", text: `${group}` }),
        );
        node.addEventListener("click", () => show(group));
        node.addEventListener("keydown", (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          show(group);
        });
      }
      nodes.push(node);
    }
  });
  drawing.append(...nodes);
  return part(title, wide(title, drawing));
}

// Singular values, on a logarithmic scale; those kept are coloured.
export function spectrum({ values, states }) {
  const shown = values.filter((value) => value > 0);
  if (!shown.length) return null;
  const [width, height, left] = [Math.min(760, room()), 220, 50];
  const low = Math.min(-1, Math.log10(shown.at(-1) / shown[0]));
  const x = (number) => left + ((number + 0.5) * (width - left - 8)) / shown.length;
  const y = (value) => 12 + ((height - 52) * Math.log10(value / shown[0])) / low;
  const title = "Singular values, relative to the largest";
  const drawing = svg("svg", { width, height, class: "plot", role: "img", "aria-label": `${title}: ${shown.map((value) => (value / shown[0]).toPrecision(2)).join(", ")}` });
  for (let power = 0; power >= low; power--) {
    const at = y(shown[0] * 10 ** power);
    drawing.append(svg("path", { class: "grid", d: `M${left},${at}H${width - 8}` }), svg("text", { x: left - 8, y: at + 4, "text-anchor": "end", text: String(Number((10 ** power).toPrecision(1))) }));
  }
  drawing.append(svg("path", { class: "curve", d: shown.map((value, number) => `${number ? "L" : "M"}${x(number)},${y(value)}`).join("") }));
  shown.forEach((value, number) => {
    const dot = svg("circle", { class: number < states ? "dot" : "dot off", cx: x(number), cy: y(value), r: 4 });
    dot.addEventListener("pointermove", (event) => hint(`${number + 1}: ${(value / shown[0]).toPrecision(3)}`, event.clientX, event.clientY));
    dot.addEventListener("pointerleave", () => hint());
    drawing.append(dot);
    if (shown.length <= 12 || (shown.length <= 60 && (number === 0 || (number + 1) % 4 === 0))) drawing.append(svg("text", { x: x(number), y: height - 24, "text-anchor": "middle", text: number + 1 }));
  });
  drawing.append(svg("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle", text: `coloured: the ${states} kept as states` }));
  return part(title, wide(title, drawing));
}

// The anchors: features that only one state has, so that they stand for it.
export function anchors({ pairs, states, nameOf, show }) {
  if (!pairs.length) return null;
  const shares = new Map(states.map((state) => [state.state, state.share]));
  const order = [...pairs.keys()].sort((a, b) => shares.get(b) - shares.get(a));
  const row = (state) =>
    element(
      "li",
      {},
      element("button", { type: "button", class: "plain", text: nameOf(state) || `state ${state}`, onclick: () => show(state) }),
      element("div", { class: "of" }, meter(shares.get(state)), element("span", { class: "note", text: percent(shares.get(state)) })),
      feature("inside", pairs[state].inside),
      feature("outside", pairs[state].outside),
    );
  return part("Anchors: features of each state, inside and outside a phrase", element("ul", { class: "anchors" }, order.map(row)));
}

export function feature(side, text) {
  if (text === null) return element("span", { class: "feature", "data-side": side }, element("span", { class: "kind", text: side }), element("span", { class: "faint", text: "none" }));
  const at = text.indexOf(": ");
  const [kind, value] = at < 0 ? [side, text] : [text.slice(0, at), text.slice(at + 2)];
  return element("span", { class: "feature", "data-side": side, title: side }, element("span", { class: "kind", text: kind }), element("bdi", { text: value.replaceAll(" -> ", " → ").replaceAll(" < ", " ‹ ") }));
}
