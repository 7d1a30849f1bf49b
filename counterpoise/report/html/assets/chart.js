// What all charts share: a frame with title, controls and legend, values under mouse and arrow keys, numbers as a table.

let serial = 0;
let printing = false;
const PRINTED_WIDTH = 660;

/**
 * `draw(width)` gives {height, nodes, stops, byX, head, rows}. Stops are rows of places that a reader can go to:
 * {x, y, title, lines: [[name, value, method or null]]}. Head and rows are the same numbers as a table.
 */
function mountChart(place, { title, note = "", controls = [], legend = null, lazy = false, draw }) {
  const id = `chart-${(serial += 1)}`;
  const plot = h("div", { class: "plot" });
  const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const live = h("div", { class: "unseen", "aria-live": "polite" });
  const numbers = h("details", { class: "numbers quiet" }, h("summary", {}, "Numbers of this chart"), h("div"));
  const remark = h("p", { class: "note" });
  const caption = h("figcaption", {}, h("h3", { id }, title), remark);
  const tools = controls.length ? [h("div", { class: "controls" }, controls)] : [];
  const figure = h("figure", { class: "chart", "aria-labelledby": id }, caption, tools, legend, plot, live, numbers);
  const view = { plot, tip, live, drawn: null, width: 0, at: null, near: !lazy };

  function redraw() {
    if (figure.hidden || !(view.near || printing)) return;
    view.width = printing ? PRINTED_WIDTH : Math.max(plot.clientWidth, 240);
    view.drawn = draw(view.width);
    remark.textContent = typeof note === "function" ? note() : note;
    remark.hidden = !remark.textContent;
    view.root = canvas(view, title);
    plot.replaceChildren(view.root, tip);
    tip.hidden = true;
    if (numbers.open) fillNumbers();
  }

  function fillNumbers() {
    numbers.lastChild.replaceChildren(numberTable(title, view.drawn));
  }

  numbers.addEventListener("toggle", () => numbers.open && view.drawn && fillNumbers());
  place.append(figure);
  onChange(redraw);
  watchWidth(plot, view, redraw);
  if (lazy) waitUntilNear(figure, view, redraw);
  redraw();
  return { figure, redraw };
}

/** A page of hundreds of charts opens at once where each is drawn only when the reader comes near. */
function waitUntilNear(figure, view, redraw) {
  const watcher = new IntersectionObserver(
    ([seen]) => {
      if (!seen.isIntersecting) return;
      watcher.disconnect();
      view.near = true;
      redraw();
    },
    { rootMargin: "800px" },
  );
  watcher.observe(figure);
}

function watchWidth(plot, view, redraw) {
  new ResizeObserver(() => {
    if (view.drawn && !printing && plot.clientWidth && Math.abs(plot.clientWidth - view.width) > 1) redraw();
  }).observe(plot);
}

function canvas(view, title) {
  const { drawn, width } = view;
  const moves = drawn.stops.some((row) => row.length);
  view.cursor = s("g", { class: "cursor", "aria-hidden": "true" });
  const root = s(
    "svg",
    {
      viewBox: `0 0 ${width} ${drawn.height}`,
      role: moves ? "application" : "img",
      "aria-roledescription": moves ? "chart" : null,
      "aria-label": `${title}.${moves ? " Arrow keys move from value to value." : ""}`,
      tabindex: moves ? 0 : null,
    },
    drawn.nodes,
    view.cursor,
  );
  if (moves) listen(root, view);
  return root;
}

function listen(root, view) {
  const last = () => ({ row: 0, column: view.drawn.stops[0].length - 1 });
  root.addEventListener("pointermove", (event) => show(view, nearest(view, event)));
  root.addEventListener("pointerdown", (event) => show(view, nearest(view, event)));
  root.addEventListener("pointerleave", () => hide(view));
  root.addEventListener("blur", () => hide(view));
  root.addEventListener("focus", () => root.matches(":focus-visible") && show(view, view.at || last(), true));
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hide(view);
    const moved = step(view, view.at || last(), event.key);
    if (!moved) return undefined;
    event.preventDefault();
    return show(view, moved, true);
  });
}

const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

function step(view, at, key) {
  const { stops } = view.drawn;
  const end = stops[at.row].length - 1;
  if (key === "Home" || key === "End") return { row: at.row, column: key === "Home" ? 0 : end };
  const move = STEPS[key];
  if (!move) return null;
  const row = clamp(at.row + move[0], 0, stops.length - 1);
  return { row, column: clamp(at.column + move[1], 0, stops[row].length - 1) };
}

function nearest(view, event) {
  const { stops, byX } = view.drawn;
  const box = view.root.getBoundingClientRect();
  const scale = view.width / box.width;
  const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  let best = { row: 0, column: 0, far: Infinity };
  stops.forEach((places, row) =>
    places.forEach((place, column) => {
      const far = (place.x - x) ** 2 + (byX ? 0 : (place.y - y) ** 2);
      if (far < best.far) best = { row, column, far };
    }),
  );
  return best;
}

function show(view, at, spoken = false) {
  const stop = view.drawn.stops[at.row]?.[at.column];
  if (!stop) return;
  view.at = { row: at.row, column: at.column };
  view.cursor.replaceChildren(pointer(view, stop));
  const lines = stop.lines.map(([name, value, method = null]) =>
    h("tr", {}, h("th", {}, method === null ? null : swatch(method), name), h("td", {}, value)),
  );
  view.tip.replaceChildren(h("p", {}, stop.title), h("table", { role: "presentation" }, lines));
  view.tip.hidden = false;
  placeTip(view, stop);
  if (spoken) view.live.textContent = [stop.title, ...stop.lines.map(([name, value]) => `${name} ${value}`)].join("; ");
}

function pointer(view, stop) {
  if (stop.box) return s("rect", { class: "ring", ...stop.box });
  if (view.drawn.byX) return s("path", { class: "rule", d: `M${stop.x} ${view.drawn.top}V${view.drawn.bottom}` });
  return s("circle", { class: "ring", cx: stop.x, cy: stop.y, r: 8 });
}

function placeTip({ plot, tip, width }, stop) {
  const scale = plot.clientWidth / width;
  const x = stop.x * scale;
  const right = x < plot.clientWidth / 2;
  const left = right ? x + 14 : x - 14 - tip.offsetWidth;
  tip.style.left = `${clamp(left, 0, Math.max(plot.clientWidth - tip.offsetWidth, 0))}px`;
  tip.style.top = `${Math.max(stop.y * scale - tip.offsetHeight / 2, 0)}px`;
}

function hide(view) {
  view.tip.hidden = true;
  view.at = null;
  view.cursor.replaceChildren();
}

function numberTable(caption, { head, rows }) {
  const titles = head.map((name) => h("th", { scope: "col" }, name));
  const body = rows.map(([first, ...rest]) => h("tr", {}, h("th", { scope: "row" }, first), rest.map((cell) => h("td", {}, cell))));
  const table = h("table", {}, h("caption", {}, h("span", {}, caption)), h("thead", {}, h("tr", {}, titles)), h("tbody", {}, body));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table);
}

/** Buttons that show and hide methods, the same in every chart; `present()` tells which methods the chart knows. */
function methodLegend(present) {
  const buttons = DATA.methods.map((name, method) => h("button", { type: "button", click: () => toggleMethod(method) }, swatch(method), name));
  const update = () => {
    const here = present();
    buttons.forEach((button, method) => {
      button.hidden = !here.has(method);
      button.setAttribute("aria-pressed", String(isShown(method)));
    });
  };
  onChange(update);
  update();
  return h("div", { class: "legend", role: "group", "aria-label": "Show or hide methods" }, buttons);
}

function chooser(label, options, chosen, choose) {
  const list = options.map((name, value) => h("option", { value, selected: value === chosen }, name));
  const select = h("select", { change: () => choose(Number(select.value)) }, list);
  return h("label", { class: "chooser" }, label, " ", select);
}

function slider(label, count, name, choose) {
  const shown = h("output", {}, name(count - 1));
  const input = h("input", {
    type: "range", min: 0, max: count - 1, value: count - 1, "aria-valuetext": name(count - 1),
    input: () => {
      shown.textContent = name(Number(input.value));
      input.setAttribute("aria-valuetext", shown.textContent);
      choose(Number(input.value));
    },
  });
  return h("label", { class: "chooser" }, label, " ", input, " ", shown);
}

function message(width, text) {
  const words = s("text", { x: width / 2, y: 44, class: "empty", "text-anchor": "middle" }, text);
  return { height: 80, nodes: [words], stops: [[]], head: ["Note"], rows: [[text]] };
}

/** Left labels and lines across, for a vertical scale. */
function yAxis(ticks, y, left, right, format) {
  return ticks.map((tick) =>
    s("g", { class: "axis" }, s("path", { class: "grid", d: `M${left} ${y(tick)}H${right}` }), s("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, format(tick))),
  );
}

function xAxis(ticks, x, bottom, format) {
  return ticks.map((tick) => s("text", { class: "axis", x: x(tick), y: bottom + 18, "text-anchor": "middle" }, format(tick)));
}
