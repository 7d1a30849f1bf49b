// Heat maps: clients by classes, flows from row to column, bars over rounds.

const MOST_NUMBERS = 700; // cells up to which numbers are written

/** Values [rows, columns]; the stronger the colour the larger, negative numbers in another one, none for zero. */
function drawMatrix(width, { rows, columns, values, across, down, format = plain, logarithmic = false, totals = null }) {
  if (!rows.length || !columns.length) return message(width, "Nothing was recorded.");
  const left = Math.max(labelWidth(rows), widthOf([down], 12)) + 12;
  const right = width - (totals ? 44 : 4);
  const cell = { width: Math.min((right - left) / columns.length, 96), height: clamp(520 / rows.length, 7, 24) };
  const x = (place) => left + (place + 0.5) * cell.width;
  const bottom = 22 + rows.length * cell.height;
  const strength = strengthOf(values, logarithmic);
  const stops = rows.map((row, r) => columns.map((column, c) => cellStop(`${row}, ${column}`, x(c), 22 + r * cell.height, cell, format(values[r][c]))));
  const nodes = [
    s("text", { class: "axis", x: left, y: 12 }, across),
    s("rect", { class: "track", x: left, y: 22, width: columns.length * cell.width, height: bottom - 22 }),
    values.map((line, r) => line.map((value, c) => cellOf(value, left + c * cell.width, 22 + r * cell.height, cell, strength))),
    rows.length * columns.length <= MOST_NUMBERS && cell.width >= 26 && cell.height >= 13 ? cellNumbers(values, x, cell, strength, format) : [],
    rowLabels(rows, left, cell, down),
    classLabels(columns, x, cell.width, bottom),
    totals ? totalLabels(totals, left + columns.length * cell.width, cell) : [],
  ];
  return { height: bottom + labelRoom(columns, cell.width), nodes, stops, head: [down, ...columns], rows: rows.map((row, r) => [row, ...values[r].map(format)]) };
}

function strengthOf(values, logarithmic) {
  const size = (value) => (logarithmic ? Math.log1p(Math.abs(value)) : Math.abs(value));
  const most = values.flat().reduce((largest, value) => Math.max(largest, size(value ?? 0)), 0) || 1;
  return (value) => (value ? 0.08 + 0.92 * (size(value) / most) : 0);
}

function cellStop(title, x, top, cell, value) {
  return { x, y: top + cell.height / 2, title, lines: [["", value]], box: { x: x - cell.width / 2, y: top, width: cell.width, height: cell.height } };
}

function cellOf(value, x, y, cell, strength) {
  const opacity = strength(value);
  if (!opacity) return null;
  return s("rect", { class: value < 0 ? "cell negative" : "cell", x: x.toFixed(2), y: y.toFixed(2), width: cell.width.toFixed(2), height: cell.height.toFixed(2), "fill-opacity": opacity.toFixed(3) });
}

function cellNumbers(values, x, cell, strength, format) {
  const shortest = (value) => (Number.isInteger(value) ? format(value) : Number(value.toPrecision(2)).toString());
  return values.map((line, r) =>
    line.map((value, c) => {
      if (!value || widthOf([shortest(value)], 11) + 4 > cell.width) return null;
      const shade = strength(value) > 0.55 ? "on-strong" : "on-weak";
      return s("text", { class: `number ${shade}`, x: x(c), y: 22 + (r + 0.5) * cell.height + 4, "text-anchor": "middle" }, shortest(value));
    }),
  );
}

function rowLabels(rows, left, cell, down) {
  const every = Math.max(1, Math.ceil(13 / cell.height));
  const names = rows.map((name, r) => (r % every ? null : s("text", { class: "axis", x: left - 8, y: 22 + (r + 0.5) * cell.height + 4, "text-anchor": "end" }, shorten(name, LONGEST))));
  return [s("text", { class: "axis", x: left - 8, y: 12, "text-anchor": "end" }, down), ...names];
}

function totalLabels(totals, x, cell) {
  const every = Math.max(1, Math.ceil(13 / cell.height));
  const head = s("text", { class: "axis", x: x + 8, y: 12 }, "all");
  return [head, ...totals.map((total, r) => (r % every ? null : s("text", { class: "axis", x: x + 8, y: 22 + (r + 0.5) * cell.height + 4 }, plain(total))))];
}

/** A chart of one of several things of the problem, which the reader picks. */
function mountPicked(place, { title, note, label, nameOf, all, draw, none }) {
  let chosen = 0;
  const here = () => all[state.problem];
  const one = () => here()[chosen] ?? here()[0];
  const picker = h("span");
  const chart = mountChart(place, {
    title,
    note: () => (here().length ? note(one()) : ""),
    controls: [picker],
    draw: (width) => (here().length ? draw(one(), width) : message(width, none)),
  });
  const offer = () => {
    chosen = 0;
    const names = here().map(nameOf);
    const choose = (number) => {
      chosen = number;
      chart.redraw();
    };
    picker.replaceChildren(...(names.length > 1 ? [chooser(label, names, 0, choose)] : []));
  };
  let problem = state.problem;
  onChange(() => {
    if (problem !== state.problem) offer();
    problem = state.problem;
  });
  offer();
}

function mountPartition(place) {
  mountPicked(place, {
    title: "Samples per client and class",
    note: partitionNote,
    label: "Seed",
    nameOf: ({ seed }) => String(seed),
    all: DATA.partitions,
    draw: drawPartition,
    none: "The server did not ask for class counts.",
  });
}

function mountConfusion(place) {
  mountPicked(place, {
    title: "Which class is taken for which",
    note: () => "Answers on the test set in the last round, in percent of the samples of each true class, over all seeds; on the right those samples. The most frequent class comes first.",
    label: "Method",
    nameOf: ({ method }) => DATA.methods[method],
    all: DATA.confusions,
    draw: drawConfusion,
    none: "Confusion counts were not kept, or there are very many classes.",
  });
}

function drawConfusion({ names, counts }, width) {
  const totals = counts.map((row) => row.reduce((sum, count) => sum + count, 0));
  const values = counts.map((row, r) => row.map((count) => (totals[r] ? Math.round((1000 * count) / totals[r]) / 10 : 0)));
  return drawMatrix(width, { rows: names, columns: names, values, across: "answer", down: "true class", totals });
}

function partitionNote({ clients, classes, of: [allClients, allClasses] }) {
  const left = clients.length < allClients ? ` ${clients.length} of ${allClients} clients are shown, at even steps of size.` : "";
  const out = classes.length < allClasses ? ` ${classes.length} of ${allClasses} classes are shown.` : "";
  return `Training samples of each client and class, on a logarithmic colour scale. The largest client comes first, the most frequent class is on the left.${left}${out}`;
}

function drawPartition({ clients, classes, counts, samples }, width) {
  return drawMatrix(width, { rows: clients.map(String), columns: classes, values: counts, across: "class", down: "client", logarithmic: true, totals: samples });
}
