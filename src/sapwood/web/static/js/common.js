// Shared by all pages: the frame, API calls, and DOM helpers.

const SVG = "http://www.w3.org/2000/svg";

// Return an element: properties, attributes (those with a dash, role, for), handlers (on...), children.
export function element(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

export function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

function fill(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "text") node.textContent = value;
    else if (key === "value" || key === "checked" || key === "selected" || key === "disabled") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

// Replace what stands in an element; null and undefined are nothing.
export function place(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

export const find = (selector) => document.querySelector(selector);

// The API. Errors have messages for people.

const KEY = "sapwood-token";

export class Problem extends Error {}

export async function api(path, body, { signal } = {}) {
  for (;;) {
    const headers = {};
    const token = sessionStorage.getItem(KEY);
    if (token) headers.Authorization = `Bearer ${token}`;
    const settings = { headers, signal };
    if (body !== undefined) {
      settings.method = "POST";
      headers["Content-Type"] = "application/json";
      settings.body = JSON.stringify(body);
    }
    let response;
    try {
      response = await fetch(`/api/${path}`, settings);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem("The server does not respond. Check that it is running, then try again.");
    }
    if (response.status === 401) {
      await askForToken();
      continue;
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Problem(answer.error || `The server returned status ${response.status}.`);
    return answer;
  }
}

function askForToken() {
  return new Promise((resolve) => {
    const input = element("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
    const form = element(
      "form",
      {
        class: "menu",
        role: "dialog",
        "aria-label": "Token",
        onsubmit(event) {
          event.preventDefault();
          sessionStorage.setItem(KEY, input.value.trim());
          form.remove();
          resolve();
        },
      },
      element("h3", { text: "This server requires a token" }),
      input,
      element("button", { class: "main", text: "Use it" }),
    );
    form.style.left = "max(0.75rem, calc(50vw - 10.5rem))";
    form.style.top = "20vh";
    document.body.append(form);
    input.focus();
  });
}

export function show(error) {
  const place = find("#message");
  place.hidden = !error;
  place.className = "error";
  place.textContent = error ? String(error.message || error) : "";
  if (error && !(error instanceof Problem) && error.name !== "AbortError") throw error;
}

export function warn(text) {
  const place = find("#message");
  place.hidden = false;
  place.className = "warning";
  place.textContent = text;
}

let toast;
export function say(text) {
  toast?.remove();
  toast = element("div", { class: "toast", role: "status", text });
  document.body.append(toast);
  const mine = toast;
  setTimeout(() => mine.remove(), 2600);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    const area = element("textarea", { value: text, class: "unseen" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    say(done ? `${what} copied` : "The browser does not allow copying");
  }
}

export function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Numbers and words for people.

export const percent = (value) => {
  const number = 100 * value;
  return `${number >= 99.95 || number === 0 ? Math.round(number) : number.toFixed(number < 0.1 ? 3 : 1)} %`;
};
export const times = (value) => `× ${value >= 10 ? count(value) : value.toFixed(1)}`;
export const count = (value) => Math.round(value).toLocaleString("en-GB");
export const level = (value) => `p${Math.max(0, Math.min(10, Math.round(10 * value)))}`;
export const shorten = (text, most = 60) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export function meter(part, title = "") {
  const bar = element("span");
  bar.style.width = `${Math.max(1, 100 * part)}%`;
  return element("div", { class: "meter", title, "aria-hidden": "true" }, bar);
}

// Shortened in the middle, so that the first and the last words are there.
export function shortenMiddle(text, most) {
  const half = (most - 1) / 2;
  return text.length > most ? `${text.slice(0, Math.ceil(half)).trimEnd()}…${text.slice(text.length - Math.floor(half)).trimStart()}` : text;
}

// Explanations of labels, for tooltips: those of the model or treebank that is shown. The first that has a label wins.
export const explanations = new Map();
export function explainBy(...sources) {
  explanations.clear();
  for (const source of sources.reverse()) for (const [label, text] of Object.entries(source?.explanations ?? {})) explanations.set(label, text);
}

// A tooltip that follows pointer or focus.

let tip;
export function hint(text, x, y) {
  tip?.remove();
  tip = undefined;
  if (!text) return;
  tip = element("div", { class: "tooltip", "aria-hidden": "true" }, ...text.split("\n").map((line) => element("div", { text: line })));
  document.body.append(tip);
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${y + 20 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
}

// A pop-up next to an element, closed by Escape, by a click elsewhere, or by its content.

let closeOpen;
export function openMenu(title, x, y, content, { from } = {}) {
  closeOpen?.();
  const back = from ?? document.activeElement;
  const menu = element("div", { class: "menu", role: "dialog", "aria-label": title }, element("h3", { text: title }), ...content);
  const close = () => {
    menu.remove();
    document.removeEventListener("pointerdown", outside, true);
    document.removeEventListener("keydown", escape, true);
    closeOpen = undefined;
    if (back?.isConnected) back.focus({ preventScroll: true });
  };
  const outside = (event) => menu.contains(event.target) || close();
  const escape = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
  };
  document.body.append(menu);
  const box = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(x, innerWidth - box.width - 12))}px`;
  menu.style.top = `${Math.max(8, Math.min(y + 10, innerHeight - box.height - 12))}px`;
  document.addEventListener("pointerdown", outside, true);
  document.addEventListener("keydown", escape, true);
  closeOpen = close;
  menu.querySelector("button, select, input")?.focus();
  return close;
}

// The frame.

const PAGES = [
  ["/parse", "Parse", () => true],
  ["/states", "Hidden states", () => true],
  ["/treebank", "Treebank", (info) => info.treebank],
  ["/words", "Words", (info) => info.models.some((model) => model.kind === "language model")],
  ["/training", "Training", (info) => info.logs.length],
];

function chosenTheme() {
  return localStorage.getItem("sapwood-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

// The bar at the top: the brand, links, and the choice between light and dark. Returns the place of the links.
export function topBar() {
  document.documentElement.dataset.theme = chosenTheme();
  const nav = element("nav", { class: "pages", "aria-label": "Pages" });
  const toggle = element("button", { class: "icon", type: "button", title: "Light or dark", "aria-label": "Switch between light and dark" });
  const paint = () => (toggle.textContent = document.documentElement.dataset.theme === "dark" ? "☀" : "☾");
  toggle.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("sapwood-theme", next);
    document.documentElement.dataset.theme = next;
    paint();
  });
  paint();
  find("header.top").append(
    element("a", { class: "brand", href: "/" }, element("img", { src: "/static/icon.svg", alt: "" }), "sapwood"),
    nav,
    toggle,
  );
  return nav;
}

export async function frame() {
  const here = location.pathname === "/" ? "/parse" : location.pathname;
  const nav = topBar();
  const info = await api("info");
  explainBy(...info.models, info.treebank);
  nav.append(
    ...PAGES.filter(([, , has]) => has(info)).map(([path, text]) =>
      element("a", { href: path, text, "aria-current": path === here ? "page" : undefined }),
    ),
  );
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  return info;
}
