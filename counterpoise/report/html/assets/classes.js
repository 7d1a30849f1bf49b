// Recall and frequency of each class, recall of head, medium and tail, and average ranks.

const GROUPS = ["head", "medium", "tail"];

function mountRecall(place) {
  const here = () => DATA.classes[state.problem];
  mountChart(place, {
    title: "Recall of each class, from the most to the least frequent",
    note: () => `Points: recall on ${DATA.scored_on} in the last round, mean over seeds. ${here().counts ? "Bars below: training samples of the class." : "How many samples a class has is not known."}`,
    legend: methodLegend(() => new Set(here().recalls.map(({ method }) => method))),
    draw: (width) => drawRecall(here(), width),
  });
}

function drawRecall(classes, width) {
  const { names } = classes;
  const counts = classes.counts ?? [];
  const recalls = classes.recalls.filter(({ method }) => isShown(method));
  const [left, right, top, bottom] = [52, width - 14, 12, 232];
  const [barTop, barBottom] = [bottom + 30, bottom + 92];
  const each = (right - left) / names.length;
  const x = (place) => left + (place + 0.5) * each;
  const y = linear([0, 1], [bottom, top]);
  const tall = linear([0, Math.max(...counts, 1)], [0, barBottom - barTop]);
  const nodes = [
    yAxis([0, 0.25, 0.5, 0.75, 1], y, left, right, (tick) => `${100 * tick}`),
    counts.map((count, place) => frequencyBar(classes.groups[place], x(place), barBottom, each, tall(count))),
    each > 24 ? counts.map((count, place) => s("text", { class: "axis", x: x(place), y: barBottom - tall(count) - 5, "text-anchor": "middle" }, plain(count))) : [],
    classLabels(names, x, each, barBottom),
    groupLabels(classes.groups, x, each, top - 1, bottom),
    recalls.map((one) => recallLine(one, x, y)),
  ];
  const stops = names.map((name, place) => ({
    x: x(place), y: 120, title: `Class ${name}: ${[...(counts.length ? [`${plain(counts[place])} samples`] : []), GROUPS[classes.groups[place]] ?? ""].filter(Boolean).join(", ")}`,
    lines: recalls.map(({ method, recall: [means, spread] }) => [DATA.methods[method], withSpread(percent, means[place], spread?.[place]), method]),
  }));
  return { height: barBottom + labelRoom(names, each), nodes, stops: [stops], byX: true, top, bottom: barBottom, ...recallTable(classes, recalls) };
}

function frequencyBar(group, x, bottom, each, tall) {
  const wide = Math.max(each * 0.7, 0.8);
  return s("rect", { class: `frequency g${group ?? 0}`, x: x - wide / 2, y: bottom - tall, width: wide, height: Math.max(tall, 0.5) });
}

function recallLine({ method, recall: [means] }, x, y) {
  const path = unbroken(means).map((places) =>
    s("path", { class: `line thin ${colourOf(method)}`, "stroke-dasharray": dashOf(method), d: `M${joined(places.map((p) => [x(p), y(means[p])]))}` }),
  );
  const scale = means.length > 40 ? 0.6 : 1;
  return s("g", { "data-method": method }, path, means.map((mean, place) => (mean === null ? null : marker(method, x(place), y(mean), scale))));
}

const LONGEST = 14; // characters of a label
const labelWidth = (names) => widthOf(names.map((name) => shorten(name, LONGEST)), 12);
const lies = (names, each) => labelWidth(names) + 6 < each;

function labelRoom(names, each) {
  return lies(names, each) ? 26 : 20 + 0.8 * labelWidth(names);
}

function classLabels(names, x, each, bottom) {
  const lying = lies(names, each);
  const every = Math.max(1, Math.ceil(15 / each));
  return names.map((name, place) => {
    if (!lying && place % every) return null;
    const at = lying ? { x: x(place), y: bottom + 18, "text-anchor": "middle" } : { transform: `translate(${x(place) + 3} ${bottom + 10}) rotate(-52)`, "text-anchor": "end" };
    return s("text", { class: "axis", ...at }, shorten(name, LONGEST));
  });
}

/** Lines between head, medium and tail, each named, where a group is one stretch. */
function groupLabels(groups, x, each, top, bottom) {
  return GROUPS.map((name, group) => {
    const first = groups.indexOf(group);
    const last = groups.lastIndexOf(group);
    if (first < 0 || groups.slice(first, last + 1).some((other) => other !== group)) return null;
    const wall = first > 0 ? s("path", { class: "wall", d: `M${x(first) - each / 2} ${top}V${bottom + 92}` }) : null;
    return s("g", {}, wall, s("text", { class: "axis strong", x: x((first + last) / 2), y: bottom + 20, "text-anchor": "middle" }, name));
  });
}

function recallTable({ names, counts, groups }, recalls) {
  const head = ["Class", "Samples", "Group", ...recalls.map(({ method }) => DATA.methods[method])];
  const rows = names.map((name, c) => [name, counts ? plain(counts[c]) : "–", GROUPS[groups[c]] ?? "–", ...recalls.map(({ recall: [means, spread] }) => withSpread(percent, means[c], spread?.[c]))]);
  return { head, rows };
}

function mountGroups(place) {
  const here = () => DATA.groups.filter(({ at }) => at[0] === state.problem);
  mountChart(place, {
    title: "Recall of head, medium and tail classes",
    note: "In percent, as in the table above. Thin lines: one sample deviation to either side.",
    legend: methodLegend(() => new Set(here().map(({ at }) => at[1]))),
    draw: (width) => drawGroups(here().filter(({ at }) => isShown(at[1])), width),
  });
}

function drawGroups(methods, width) {
  if (!methods.length) return message(width, "All methods are hidden.");
  const wide = width > 600;
  const names = methods.map(({ at }) => DATA.methods[at[1]]);
  const label = wide ? widthOf(names.map((name) => shorten(name, 31))) + 12 : 0;
  const each = wide ? 28 : 40;
  const [gap, panel] = wide ? [24, (width - label - 48) / 3] : [0, width];
  const tall = methods.length * each + 34;
  const origin = (group) => (wide ? [label + group * (panel + gap), 0] : [0, group * tall]);
  const stops = methods.map(() => []);
  const nodes = GROUPS.map((group, place) => {
    const [x0, y0] = origin(place);
    const x = linear([0, 1], [x0, x0 + panel - 42]);
    const title = s("text", { class: "strong", x: x0, y: y0 + 16 }, `${group[0].toUpperCase()}${group.slice(1)}`);
    return [title, methods.map((one, row) => groupBar(one, place, x, y0 + 28 + row * each, { wide, stop: stops[row], edge: x0 + panel }))];
  });
  const side = wide ? names.map((name, row) => s("text", { x: label - 10, y: 28 + row * each + 16, "text-anchor": "end" }, shorten(name, 31))) : [];
  const head = ["Method", ...GROUPS];
  const rows = methods.map(({ bars }, row) => [names[row], ...bars.map(([mean, spread]) => withSpread(percent, mean, spread))]);
  return { height: wide ? tall : 3 * tall, nodes: [...side, ...nodes], stops, head, rows };
}

function groupBar({ at: [, method], bars }, group, x, y, { wide, stop, edge }) {
  const [mean, spread] = bars[group];
  const top = wide ? y + 3 : y + 18;
  const name = wide ? null : s("text", { x: x(0), y: y + 12 }, DATA.methods[method]);
  stop.push({ x: x(mean ?? 0), y: top + 8, title: DATA.methods[method], lines: [[`${GROUPS[group]} recall`, withSpread(percent, mean, spread), method]], box: { x: x(0), y: top, width: x(1) - x(0), height: 16 } });
  const track = s("rect", { class: "track", x: x(0), y: top, width: x(1) - x(0), height: 16, rx: 2 });
  if (mean === null) return s("g", {}, name, track, s("text", { class: "value", x: x(0) + 6, y: top + 12 }, "no such class"));
  const bar = s("rect", { class: `bar ${colourOf(method)}`, x: x(0), y: top, width: Math.max(x(mean) - x(0), 1), height: 16, rx: 2 });
  const ends = [clamp(mean - (spread ?? 0), 0, 1), clamp(mean + (spread ?? 0), 0, 1)].map(x);
  const whisker = spread ? s("path", { class: "whisker", d: `M${ends[0]} ${top + 8}H${ends[1]}m0-4v8M${ends[0]} ${top + 4}v8` }) : null;
  const value = s("text", { class: "value", x: edge, y: top + 12, "text-anchor": "end" }, (100 * mean).toFixed(1));
  return s("g", { "data-method": method }, name, track, bar, whisker, value);
}

/** Average ranks with half of Nemenyi's critical difference to either side. */
function mountRanking(place) {
  const ranking = DATA.ranking;
  if (!ranking) return;
  const p = ranking.p < 0.001 ? "below 0.001" : `= ${ranking.p.toPrecision(2)}`;
  const differ = ranking.p < 0.05 ? "Methods whose lines overlap do not differ significantly (Nemenyi, 5 %)." : "Friedman's test finds no difference, so no two methods differ significantly.";
  mountChart(place, {
    title: "Average ranks",
    note: `1 is the best; ${ranking.blocks} blocks (${ranking.unit}), Friedman p ${p}. ${differ}`,
    draw: (width) => drawRanking(ranking, width),
  });
}

function drawRanking({ methods, average_ranks: ranks, critical_difference: distance }, width) {
  const longest = widthOf(methods) + 18;
  const above = width < longest + 320;
  const [left, right] = [above ? 8 : longest, width - 8];
  const each = above ? 40 : 28;
  const x = linear([Math.min(...ranks, 1.2) - distance / 2, Math.max(...ranks) + distance / 2], [left, right]);
  const bottom = methods.length * each + 6;
  const whole = range(methods.length).map((place) => place + 1);
  const grid = whole.map((rank) => s("g", { class: "axis" }, s("path", { class: "grid", d: `M${x(rank)} 0V${bottom}` }), s("text", { x: x(rank), y: bottom + 16, "text-anchor": "middle" }, String(rank))));
  const stops = [];
  const rows = methods.map((name, row) => {
    const y = row * each + (above ? 26 : 16);
    const method = DATA.methods.indexOf(name);
    const ends = [ranks[row] - distance / 2, ranks[row] + distance / 2].map(x);
    stops.push([{ x: x(ranks[row]), y, title: name, lines: [["average rank", ranks[row].toFixed(2)]] }]);
    const label = s("text", above ? { x: 2, y: y - 10 } : { x: left - 16, y: y + 4, "text-anchor": "end" }, name);
    return s("g", {}, label, s("path", { class: `line ${colourOf(method)}`, d: `M${ends[0]} ${y}H${ends[1]}` }), marker(method, x(ranks[row]), y, 1.2));
  });
  return { height: bottom + 24, nodes: [grid, rows], stops, head: ["Method", "Average rank"], rows: methods.map((name, row) => [name, ranks[row].toFixed(2)]) };
}
