// The data, the reader's choices, and helpers for elements, scales and text.

const DATA = JSON.parse(document.getElementById("report-data").textContent);
const state = { problem: 0, hidden: new Set() };
const listeners = [];

function onChange(listener) {
  listeners.push(listener);
}

function change(values = {}) {
  Object.assign(state, values);
  listeners.forEach((listener) => listener());
}

function toggleMethod(method) {
  if (!state.hidden.delete(method)) state.hidden.add(method);
  change();
}

const isShown = (method) => !state.hidden.has(method);

function maker(namespace) {
  return (tag, attributes = {}, ...children) => {
    const made = document.createElementNS(namespace, tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(key, value);
      else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat(Infinity).filter((child) => child !== null));
    return made;
  };
}

const h = maker("http://www.w3.org/1999/xhtml");
const s = maker("http://www.w3.org/2000/svg");

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const known = (values) => values.filter((value) => value !== null && value !== undefined);
const range = (count) => Array.from({ length: count }, (_, place) => place);
const sum = (values) => values.reduce((total, value) => total + value, 0);

function percent(value) {
  return value === null ? "n/a" : `${(100 * value).toFixed(1)}\u00a0%`;
}

function plain(value) {
  if (value === null || value === undefined) return "n/a";
  if (Number.isInteger(value)) return value.toLocaleString("en-GB");
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

function withSpread(format, value, deviation) {
  if (value === null || deviation === null || deviation === undefined) return format(value);
  return `${format(value).replace(/\s%$/, "")} ± ${format(deviation)}`;
}

const pen = document.createElement("canvas").getContext("2d");

/** Width of the longest of these texts, in pixels of a chart. */
function widthOf(texts, size = 12.5) {
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return Math.max(0, ...texts.map((text) => pen.measureText(text).width));
}

function shorten(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

function linear([low, high], [from, to]) {
  const width = high - low || 1;
  return (value) => from + ((value - low) / width) * (to - from);
}

/** Round numbers that lie between two ends. */
function ticksBetween(low, high, wanted) {
  const rough = (high - low || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (rough / power < 1.5 ? 1 : rough / power < 3.2 ? 2 : rough / power < 7 ? 5 : 10);
  const first = Math.ceil(low / step - 1e-9);
  return range(Math.floor(high / step + 1e-9) - first + 1).map((place) => Number(((first + place) * step).toPrecision(12)));
}

// A method has a colour, a dash and a marker; combinations repeat only after 120 methods.
const COLOURS = 8;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "14 4"];
const MARKERS = [
  "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
  "M-3.5-3.5h7v7h-7z",
  "M0-4.6 4.4 3.4h-8.8z",
  "M0-4.9 4.9 0 0 4.9-4.9 0z",
  "M0 4.6 4.4-3.4h-8.8z",
  "M-1.4-4.2h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8z",
];
const colourOf = (method) => `m${method % COLOURS}`;
const dashOf = (method) => DASHES[method % DASHES.length];

function marker(method, x, y, scale = 1) {
  const shape = MARKERS[method % MARKERS.length];
  return s("path", { d: shape, class: `marker ${colourOf(method)}`, transform: `translate(${x} ${y}) scale(${scale})` });
}

function swatch(method) {
  const line = s("path", { d: "M1 7H31", class: `line ${colourOf(method)}`, "stroke-dasharray": dashOf(method) });
  return s("svg", { viewBox: "0 0 32 14", width: 32, height: 14, "aria-hidden": "true", class: "swatch" }, line, marker(method, 16, 7));
}
