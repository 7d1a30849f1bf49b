// Trees that parts record: rows of numbers, the first of which is the row of the parent.

function drawTree(nodes, columns, coloured, width) {
  if (!nodes.length) return message(width, "Nothing was recorded.");
  const { places, depth, leaves } = layOut(nodes);
  const radius = clamp(width / leaves / 2.6, 2.5, 11);
  const each = clamp(360 / (depth + 1), 26, 84);
  const x = linear([0, Math.max(leaves - 1, 1)], [radius + 6, width - radius - 6]);
  const at = places.map((place) => place && [leaves === 1 ? width / 2 : x(place.across), radius + 8 + place.depth * each]);
  const strength = strengthOf([nodes.map((node) => node[coloured])], false);
  const edges = nodes.map(([parent], row) => (at[row] && at[parent] ? s("path", { class: "edge", d: branch(at[parent], at[row]) }) : null));
  const named = leaves <= 24 && width / leaves > 30;
  const dots = nodes.map((node, row) => at[row] && treeNode(node[coloured], at[row], radius, strength, named));
  const order = range(nodes.length).filter((row) => at[row]).sort((a, b) => places[a].depth - places[b].depth || places[a].across - places[b].across);
  const stops = order.map((row) => ({ x: at[row][0], y: at[row][1], title: `Node ${row}`, lines: columns.slice(1).map((name, c) => [name, plain(nodes[row][c + 1])]) }));
  const rows = nodes.map((node, row) => [String(row), ...node.map(plain)]);
  return { height: 2 * radius + 30 + depth * each, nodes: [edges, dots], stops: byDepth(stops), head: ["Node", ...columns], rows };
}

/** Leaves side by side, every other node above the middle of its children; rows that no root leads to have no place. */
function layOut(nodes) {
  const children = nodes.map(() => []);
  const isRoot = ([parent]) => parent === null || parent < 0 || parent >= nodes.length;
  nodes.forEach((node, row) => isRoot(node) || children[node[0]].push(row));
  const places = nodes.map(() => null);
  let leaves = 0;
  let deepest = 0;
  const visit = (row, depth) => {
    deepest = Math.max(deepest, depth);
    const below = children[row].map((child) => visit(child, depth + 1));
    const across = below.length ? (below[0] + below.at(-1)) / 2 : leaves++;
    places[row] = { across, depth };
    return across;
  };
  nodes.forEach((node, row) => isRoot(node) && visit(row, 0));
  return { places, depth: deepest, leaves: Math.max(leaves, 1) };
}

const branch = ([x0, y0], [x1, y1]) => `M${x0} ${y0}C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`;

function treeNode(value, [x, y], radius, strength, named) {
  const disc = s("circle", { class: "node", cx: x, cy: y, r: radius });
  const fill = s("circle", { class: value < 0 ? "cell negative" : "cell", cx: x, cy: y, r: radius, "fill-opacity": strength(value).toFixed(3) });
  const label = named ? s("text", { class: "axis", x, y: y + radius + 13, "text-anchor": "middle" }, value === null ? "" : Number(value.toPrecision(3)).toString()) : null;
  return s("g", {}, disc, fill, s("circle", { class: "rim", cx: x, cy: y, r: radius }), label);
}

function byDepth(stops) {
  const rows = new Map();
  stops.forEach((stop) => rows.set(stop.y, [...(rows.get(stop.y) ?? []), stop]));
  return [...rows.values()];
}
