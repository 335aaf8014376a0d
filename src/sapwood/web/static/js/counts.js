// Counts of a search's matches by keys: a bar chart whose bars lead to their trees, and a table to save.

import { api, count, element, meter, percent, place, save, show } from "./common.js";

const KEYS = ["label", "basic", "word", "words", "lemma", "tag", "tags", "head", "head-tag", "parent", "children", "rule", "sisters", "length", "tree-length", "depth"];
const ROWS = 200;
// Rows that are shown at first, so that the trees stay in sight.
const FEW = 12;

// A form that counts the matches of `request`; `choose(key, value)` is called with the bar that is clicked.
export function countForm(request, key, choose) {
  const output = element("div", { id: "counts", "aria-live": "polite" });
  const input = element("input", { type: "text", id: "key", class: "mono", list: "keys", "aria-label": "Count by", placeholder: "label", value: key, spellcheck: "false" });
  const form = element(
    "form",
    {
      class: "bar",
      id: "counting",
      async onsubmit(event) {
        event.preventDefault();
        show();
        try {
          const wanted = input.value.trim() || "label";
          draw(output, wanted, await api("counts", { ...request, keys: [wanted], count: ROWS }), choose);
        } catch (error) {
          output.replaceChildren();
          show(error);
        }
      },
    },
    element("label", { class: "note", for: "key", text: "Count by" }),
    input,
    element("datalist", { id: "keys" }, KEYS.map((value) => element("option", { value }))),
    element("button", { text: "Count" }),
  );
  return [form, output];
}

function draw(output, key, found, choose) {
  const most = Math.max(1, ...found.rows.map((row) => row.count));
  const rows = found.rows.map((row) =>
    element(
      "tr",
      {},
      element("td", {}, element("button", { type: "button", class: "plain mono", dir: "auto", text: row.values[0], onclick: () => choose(key, row.values[0]) })),
      element("td", { class: "bars" }, meter(row.count / most, percent(row.share))),
      element("td", { class: "number", text: count(row.count) }),
      element("td", { class: "number", text: percent(row.share) }),
      element("td", { class: "number", text: row.per_thousand.toPrecision(3) }),
    ),
  );
  for (const row of rows.slice(FEW)) row.hidden = true;
  const more = element("button", { type: "button", text: `All ${count(rows.length)} rows`, hidden: rows.length <= FEW, onclick() {
    for (const row of rows) row.hidden = false;
    more.hidden = true;
  } });
  const csv = () => [["value", "count", "share", "per_thousand"], ...found.rows.map((row) => [...row.values, row.count, row.share, row.per_thousand])];
  place(
    output,
    element("p", { class: "note", text: `${count(found.matches)} matches, ${count(found.values)} values${found.values > found.rows.length ? `; the most frequent ${count(found.rows.length)}` : ""}` }),
    element(
      "table",
      { class: "plain" },
      element("thead", {}, element("tr", {}, ["value", "", "count", "share", "per 1,000 words"].map((text, place) => element("th", { class: place > 1 ? "number" : "", scope: "col", text: text || "bar" })))),
      element("tbody", {}, rows),
    ),
    element("div", { class: "bar" }, more, element("button", { type: "button", text: "Save as CSV", onclick: () => save("counts.csv", new Blob([csv().map((row) => `${row.map(quoted).join(",")}\n`).join("")], { type: "text/csv" })) })),
  );
}

function quoted(cell) {
  const text = String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
