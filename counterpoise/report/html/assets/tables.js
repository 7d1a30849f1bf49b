// Tables that are sorted by a click on a column's title.

function makeSortable(table) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => {
    const button = h("button", { type: "button", click: () => sortBy(table, titles, column) }, ...title.childNodes);
    title.replaceChildren(button);
    title.setAttribute("aria-sort", "none");
  });
}

function sortBy(table, titles, column) {
  const rows = [...table.tBodies[0].rows];
  const values = new Map(rows.map((row) => [row, valueOf(row.cells[column])]));
  const numeric = [...values.values()].every((value) => value === null || typeof value === "number");
  const before = titles[column].getAttribute("aria-sort");
  const downward = before === "none" ? numeric : before === "ascending";
  titles.forEach((title, place) => title.setAttribute("aria-sort", place === column ? (downward ? "descending" : "ascending") : "none"));
  rows.sort((a, b) => compare(values.get(a), values.get(b), downward));
  table.tBodies[0].append(...rows);
}

function valueOf(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  if (text === "" || text === "–") return null;
  return Number.isNaN(Number(text)) ? text : Number(text);
}

/** What has no value stands last, whichever way. */
function compare(a, b, downward) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  return downward ? -order : order;
}
