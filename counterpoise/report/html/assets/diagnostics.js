// Charts that parts and probes record, drawn by their kind.

const MOUNTED = { curve: mountCurve, lines: mountLines }; // others have frames

function mountDiagnostics(place) {
  const charts = DATA.diagnostics.map((one) => ({ one, ...(MOUNTED[one.kind] ?? mountFrames)(place, one) }));
  const nothing = h("p", { class: "quiet" });
  place.append(nothing);
  const update = () => {
    for (const { one, figure, redraw } of charts) {
      const hidden = one.problem !== state.problem || (one.kind !== "curve" && !isShown(one.method));
      const appears = figure.hidden && !hidden;
      figure.hidden = hidden;
      if (appears) redraw();
    }
    nothing.textContent = charts.some(({ one }) => one.problem === state.problem) ? "" : "None of these methods records charts.";
    nothing.hidden = !nothing.textContent;
  };
  onChange(update);
  update();
}

function mountCurve(place, { title, part, series }) {
  return mountChart(place, {
    title,
    lazy: true,
    note: `Recorded by ${part} whenever the model was scored; mean over seeds with one deviation to either side.`,
    legend: methodLegend(() => new Set(series.map(({ method }) => method))),
    draw: (width) => drawCurves(series.filter(({ method }) => isShown(method)), plain, width),
  });
}

/** The numbers of a probe for one method, a line each, which the reader can hide. */
function mountLines(place, { title, part, method, lines }) {
  const hidden = new Set();
  const buttons = lines.map(({ name }, line) => h("button", { type: "button", "aria-pressed": "true", click: () => toggle(line) }, swatch(line), name));
  const toggle = (line) => {
    if (!hidden.delete(line)) hidden.add(line);
    buttons[line].setAttribute("aria-pressed", String(!hidden.has(line)));
    chart.redraw();
  };
  const series = lines.map(({ name, curve }, line) => ({ method: line, name, curve }));
  const chart = mountChart(place, {
    title: `${title} · ${DATA.methods[method]}`,
    lazy: true,
    note: `Seen by ${part} whenever the model was scored; mean over seeds with one deviation to either side.`,
    legend: h("div", { class: "legend", role: "group", "aria-label": "Show or hide lines" }, buttons),
    draw: (width) => drawCurves(series.filter((one) => !hidden.has(one.method)), plain, width, { empty: lines.length ? "All lines are hidden." : "Nothing was recorded." }),
  });
  return chart;
}

function mountFrames(place, one) {
  const { kind, frames, columns } = one;
  const chosen = { frame: frames.length - 1, column: Math.min(1, columns.length - 1), over: frames.length > 1 };
  const choose = (key) => (value) => {
    chosen[key] = value;
    chart.redraw();
  };
  const rounds = frames.length > 1 && kind !== "bars" ? [slider("Round", frames.length, (place) => String(frames[place][0]), choose("frame"))] : [];
  const ways = frames.length > 1 && kind === "bars" ? [chooser("View", ["last round", "over rounds"], 1, choose("over"))] : [];
  const values = kind === "tree" && columns.length > 2 ? [chooser("Colour by", columns.slice(1), 0, (column) => choose("column")(column + 1))] : [];
  const chart = mountChart(place, {
    title: `${one.title} · ${DATA.methods[one.method]}`,
    lazy: true,
    note: () => frameNote(one),
    controls: [...rounds, ...ways, ...values],
    draw: (width) => (frames.length ? DRAW[kind](one, chosen, width) : message(width, "Nothing was recorded.")),
  });
  return chart;
}

function frameNote({ part, kind, seed, frames, of: [rounds, entries] }) {
  const words = [`Recorded by ${part}, seed ${seed}.`];
  if (kind === "flow") words.push("From row to column.");
  if (frames.length < rounds) words.push(`${frames.length} of ${rounds} recorded rounds are kept here.`);
  const shown = Math.max(...frames.map(([, value]) => value.length), 0);
  if (shown < entries) words.push(`The first ${shown} of ${entries} entries are kept here.`);
  return words.join(" ");
}

function entryNames({ axis, names = [] }, count) {
  if (axis === "layers") return range(count).map((place) => names[place] ?? String(place));
  if (axis !== "classes") return range(count).map((place) => String(place));
  return range(count).map((place) => CLASS_NAMES()[place] ?? String(place));
}

// Charts list classes by their number, the page elsewhere by frequency.
const CLASS_NAMES = () => DATA.classes[state.problem].by_number;
const ENTRY = { clients: "client", classes: "class", layers: "layer", "": "entry" };

const DRAW = {
  bars: (one, { over }, width) => (over ? barsOverRounds(one, width) : lastBars(one, width)),
  flow: (one, { frame }, width) => {
    const values = one.frames[frame][1];
    const names = entryNames(one, values.length);
    return drawMatrix(width, { rows: names, columns: names.slice(0, values[0]?.length), values, across: `to ${ENTRY[one.axis]}`, down: "from" });
  },
  tree: (one, { frame, column }, width) => drawTree(one.frames[frame][1], one.columns, column, width),
};

function barsOverRounds(one, width) {
  const count = Math.max(...one.frames.map(([, value]) => value.length));
  const values = range(count).map((entry) => one.frames.map(([, value]) => value[entry] ?? null));
  return drawMatrix(width, { rows: entryNames(one, count), columns: one.frames.map(([round]) => String(round)), values, across: "round", down: ENTRY[one.axis] });
}

function lastBars(one, width) {
  const values = one.frames.at(-1)[1];
  const names = entryNames(one, values.length);
  const [left, right, top, bottom] = [60, width - 10, 10, 210];
  const y = linear([Math.min(0, ...known(values)), Math.max(0, ...known(values))], [bottom, top]);
  const each = (right - left) / values.length;
  const x = (place) => left + (place + 0.5) * each;
  const bars = values.map((value, place) => {
    if (value === null) return null;
    return s("rect", { class: `bar ${colourOf(one.method)}`, x: x(place) - each * 0.36, y: Math.min(y(value), y(0)), width: each * 0.72, height: Math.max(Math.abs(y(value) - y(0)), 0.5) });
  });
  const ticks = ticksBetween(Math.min(0, ...known(values)), Math.max(0, ...known(values)), 4);
  const stops = values.map((value, place) => ({ x: x(place), y: y(Math.max(value ?? 0, 0)), title: `${ENTRY[one.axis]} ${names[place]}`, lines: [["", plain(value)]] }));
  return {
    height: bottom + labelRoom(names, each), nodes: [yAxis(ticks, y, left, right, plain), bars, classLabels(names, x, each, bottom)],
    stops: [stops], byX: true, top, bottom, head: [ENTRY[one.axis], "value"], rows: names.map((name, place) => [name, plain(values[place])]),
  };
}
