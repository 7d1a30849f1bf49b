// Lines with bands over seeds: learning curves, the curves that parts record, and scores of clients in order.

const MARKS = 8; // markers on a line

/** Lines of `series` = [{method, name, curve: [rounds, means, deviations or null]}]; without a name the method's, whose look it has. `along`: what is counted instead of rounds. */
function drawCurves(series, format, width, { share = false, unit = format, empty = "All methods are hidden.", along = "round" } = {}) {
  if (!series.length) return message(width, empty);
  const [left, right, top] = [52, width - 14, 12];
  const bottom = clamp(width * 0.44, 220, 400);
  const rounds = series.flatMap(({ curve }) => curve[0]);
  const x = linear([Math.min(...rounds), Math.max(...rounds)], [left, right]);
  const [low, high] = heights(series, share);
  const y = linear([low, high], [bottom, top]);
  const columns = ticksBetween(Math.min(...rounds), Math.max(...rounds), clamp(width / 90, 3, 10)).filter(Number.isInteger);
  const nodes = [
    yAxis(ticksBetween(low, high, 5), y, left, right, format),
    xAxis(columns, x, bottom, String),
    s("text", { class: "axis", x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, along),
    series.map((one) => band(one, x, y)),
    series.map((one, place) => line(one, x, y, place)),
  ];
  const word = `${along[0].toUpperCase()}${along.slice(1)}`;
  const stops = stopsOf(series, x, (top + bottom) / 2 - 20, unit, word);
  return { height: bottom + 44, nodes, stops: [stops], byX: true, top, bottom, ...curveTable(series, unit, word) };
}

function heights(series, share) {
  const ends = series.flatMap(({ curve: [, means, spread] }) =>
    means.flatMap((mean, place) => (mean === null ? [] : [mean - (spread?.[place] ?? 0), mean + (spread?.[place] ?? 0)])),
  );
  let [low, high] = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
  const least = low < 0 ? -1 : 0; // a correlation may be negative
  const air = (high - low || Math.abs(high) || 1) * 0.05;
  [low, high] = [low - air, high + air];
  return share ? [Math.max(low, least), Math.min(high, 1)] : [low, high];
}

const nameOf = ({ method, name }) => name ?? DATA.methods[method];

/** Runs of neighbouring places without a gap. */
function unbroken(means) {
  const runs = [[]];
  means.forEach((mean, place) => (mean === null ? runs.push([]) : runs.at(-1).push(place)));
  return runs.filter((run) => run.length);
}

const joined = (points) => points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

function band({ method, curve: [rounds, means, spread] }, x, y) {
  if (!spread) return null;
  return unbroken(means).map((places) => {
    const upper = places.map((p) => [x(rounds[p]), y(means[p] + (spread[p] ?? 0))]);
    const lower = places.map((p) => [x(rounds[p]), y(means[p] - (spread[p] ?? 0))]).reverse();
    return s("path", { class: `band ${colourOf(method)}`, d: `M${joined([...upper, ...lower])}Z` });
  });
}

function line({ method, curve: [rounds, means] }, x, y, place) {
  const paths = unbroken(means).map((places) =>
    s("path", {
      class: `line ${colourOf(method)}`, "stroke-dasharray": dashOf(method), d: `M${joined(places.map((p) => [x(rounds[p]), y(means[p])]))}`,
    }),
  );
  const every = Math.max(1, Math.ceil(rounds.length / MARKS));
  const marked = range(rounds.length).filter((p) => (p + place) % every === 0 && means[p] !== null);
  return s("g", { "data-method": method }, paths, marked.map((p) => marker(method, x(rounds[p]), y(means[p]), 0.85)));
}

function stopsOf(series, x, y, format, word) {
  const rounds = [...new Set(series.flatMap(({ curve }) => curve[0]))].sort((a, b) => a - b);
  return rounds.map((round) => {
    const here = series.flatMap(({ method, name, curve: [at, means, spread] }) => {
      const place = at.indexOf(round);
      return place < 0 ? [] : [{ method, name, mean: means[place], spread: spread?.[place] ?? null }];
    });
    here.sort((a, b) => (b.mean ?? -Infinity) - (a.mean ?? -Infinity));
    return { x: x(round), y, title: `${word} ${round}`, lines: here.map((one) => [nameOf(one), withSpread(format, one.mean, one.spread), one.method]) };
  });
}

function curveTable(series, format, word) {
  const rounds = [...new Set(series.flatMap(({ curve }) => curve[0]))].sort((a, b) => a - b);
  const rows = rounds.map((round) => [
    String(round),
    ...series.map(({ curve: [at, means, spread] }) => {
      const place = at.indexOf(round);
      return place < 0 ? "" : withSpread(format, means[place], spread?.[place]);
    }),
  ]);
  return { head: [word, ...series.map(nameOf)], rows };
}

function mountCurves(place) {
  const { scores, series, points, thinned } = DATA.curves;
  let score = scores[0];
  const here = () => series.filter(({ at, curves }) => at[0] === state.problem && curves[score.key]);
  const shown = () =>
    here()
      .filter(({ at }) => isShown(at[1]))
      .map(({ at, curves }) => ({ method: at[1], curve: curves[score.key] }));
  const tick = (value) => (score.percent ? `${Math.round(1000 * value) / 10}` : plain(value));
  const seeds = series.some((one) => one.seeds.length > 1);
  const chart = mountChart(place, {
    title: "Scores round by round",
    note: () =>
      [
        `${score.name}${score.percent ? " in percent" : ""}, ${score.lower ? "lower" : "higher"} is better.`,
        seeds ? "Lines are means over seeds, bands one sample deviation to either side." : "",
        thinned ? `Each line is thinned to at most ${points} points.` : "",
      ].join(" "),
    controls: [
      chooser("Score", scores.map(({ name }) => name), 0, (chosen) => {
        score = scores[chosen];
        chart.redraw();
      }),
    ],
    legend: methodLegend(() => new Set(series.filter(({ at }) => at[0] === state.problem).map(({ at }) => at[1]))),
    draw: (width) => drawCurves(shown(), tick, width, { share: score.percent, unit: score.percent ? percent : plain }),
  });
}

/** Scores of a model on what each client holds out, the clients in order of it. */
function mountClients(place) {
  const kinds = Object.keys(DATA.clients);
  if (!kinds.length) return;
  let kind = kinds[0];
  const here = () => DATA.clients[kind].filter(({ at }) => at[0] === state.problem);
  const shown = () => here().map(({ at, curve }) => ({ method: at[1], curve })).filter(({ method }) => isShown(method));
  const choose = (chosen) => {
    kind = kinds[chosen];
    chart.redraw();
  };
  const chart = mountChart(place, {
    title: "Clients from the worst to the best",
    note: "In percent on what each client holds out, last round. The client at a place may be another one for each method and seed; lines are means over seeds, bands one sample deviation to either side.",
    controls: [chooser("Score", kinds, 0, choose)],
    legend: methodLegend(() => new Set(here().map(({ at }) => at[1]))),
    draw: (width) => drawCurves(shown(), (value) => `${Math.round(1000 * value) / 10}`, width, { share: true, unit: percent, along: "place", empty: here().length ? "All methods are hidden." : "No client was scored." }),
  });
}
