// Draws all charts once the page is loaded.

const MOUNT = {
  ranking: mountRanking,
  curves: mountCurves,
  recall: mountRecall,
  groups: mountGroups,
  confusion: mountConfusion,
  partition: mountPartition,
  clients: mountClients,
  diagnostics: mountDiagnostics,
};

function offerProblems() {
  if (DATA.problems.length < 2) return;
  const bar = h("div", { class: "problem" }, chooser("Problem of the charts", DATA.problems, 0, (problem) => change({ problem })));
  document.querySelector("nav").after(bar);
}

function offerCopies() {
  if (!navigator.clipboard) return;
  document.querySelectorAll("pre").forEach((text) => {
    const said = h("span", { "aria-live": "polite" }, "Copy");
    const copy = async () => {
      await navigator.clipboard.writeText(text.textContent);
      said.textContent = "Copied";
      setTimeout(() => (said.textContent = "Copy"), 1500);
    };
    const frame = h("div", { class: "copied" });
    text.replaceWith(frame);
    frame.append(text, h("button", { type: "button", class: "copy", click: copy }, said));
  });
}

/** On paper nothing can be opened, and lines have the width of the page. */
function preparePrint() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open], .numbers)")];
    closed.forEach((one) => (one.open = true));
    printing = true;
    change();
  });
  addEventListener("afterprint", () => {
    closed.forEach((one) => (one.open = false));
    printing = false;
    change();
  });
}

document.documentElement.classList.add("scripted");
document.querySelectorAll("[data-method].key").forEach((key) => key.append(swatch(Number(key.dataset.method))));
document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll("[data-chart]").forEach((place) => {
  place.replaceChildren();
  MOUNT[place.dataset.chart](place);
});
offerProblems();
offerCopies();
preparePrint();
