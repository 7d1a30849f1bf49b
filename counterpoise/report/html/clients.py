"""Clients: the worst ones, and what the server learns from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterpoise.core.method import PARTS, build_method
from counterpoise.core.part import Part
from counterpoise.report.client_tables import MODELS, rows_of
from counterpoise.report.html.markup import (
    Html,
    breakable,
    bytes_,
    element,
    join,
    number_cell,
    percent,
    table,
)
from counterpoise.report.html.study import Study, mean_and_deviation, thin
from counterpoise.report.html.tables import problem_cells, problem_head
from counterpoise.results.cells import Cell
from counterpoise.results.joining import Clients, clients_of
from counterpoise.results.results import RunResult
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.learned import own_questions

MOST_NAMED = 5  # seeds whose worst client is named
MOST_CLIENTS = 100  # listed by name
MOST_PLACES = 100  # of one line of clients
LISTED = {"client_balanced_accuracy": "balanced accuracy", "client_accuracy": "accuracy"}
WIDTHS = {"float32": 4, "float64": 8}
HOOKS = {
    "survey": "asks every client once, before the first round",
    "tally": "counts on every client once, and learns the sum",
    "send": "sends the clients of a round something besides the model",
    "enroll": "keeps a memory on each client from round to round, which is not sent",
    "finish": "may add something to what a client sends back",
    "propose": "decides the tasks of each client",
    "choose": "chooses which replies are used",
    "weigh": "decides how much each reply counts",
    "treat": "changes each reply before they are averaged",
    "update": "learns from the replies, and may change the server's step",
    "present": "changes the model that is scored and saved",
    "own": "gives each client a model of its own, which is not sent",
}


UNASKED = (
    "Samples per client and class are not known: these clients brought their own data, and the server did not ask for "
    "their class counts. It asks with flower.client_counts = true."
)


def client_data(study: Study) -> dict[str, list[dict[str, Any]]]:
    """What is scored -> each method's scores on the clients, from the worst to the best of each run."""
    found = {
        f"{words}, {whose} model": _lines(study, which, score)
        for which, whose in MODELS.items()
        for score, words in LISTED.items()
    }
    return {name: lines for name, lines in found.items() if lines}


def _lines(study: Study, which: str, score: str) -> list[dict[str, Any]]:
    lists = {
        key: [run.scored[-1].get(which, {}).get(score, ()) for run in runs]
        for key, runs in study.groups.items()
    }
    lines = {key: _in_order(scores) for key, scores in lists.items()}
    return [{"at": study.place(*key), "curve": line} for key, line in lines.items() if line is not None]


def _in_order(scores: Sequence[Sequence[float | None]]) -> list[Any] | None:
    """Places, means and deviations over runs; None where no run lists its clients."""
    known = [[value for value in one if value is not None] for one in scores]
    ranked = [sorted(values) for values in known if values]
    if not ranked:
        return None
    fewest = min(map(len, ranked))  # seeds may differ in how many clients hold samples out
    places = thin(range(fewest), MOST_PLACES)
    columns = [[values[place] for place in places] for values in (thin(one, fewest) for one in ranked)]
    return [[place + 1 for place in places], *mean_and_deviation(columns)]


def joining(study: Study) -> Html:
    """Each client by its name: alone, with the shared model, and with its own; nothing if no run scored its clients."""
    return join(_joining(one) for one in clients_of(study.groups))


def _joining(one: Clients) -> Html:
    rows, gains = rows_of(one), element("p", " ".join(one.gains()))
    shown = rows if len(rows) <= MOST_CLIENTS else rows[:MOST_CLIENTS]
    left = (
        f"; the first {MOST_CLIENTS} of {len(rows)}, all are in clients.csv"
        if len(rows) > MOST_CLIENTS
        else ""
    )
    head = ["Client", "Samples", "Held out", *map(breakable, one.columns)]
    return join([gains if one.gains() else Html(), table(one.caption + left, head, shown, class_="sortable")])


def worst_clients(study: Study) -> Html | None:
    """The client with the lowest balanced accuracy in each finished run; None if no run scored its clients."""
    rows = [
        _worst_row(study, problem, method, which, [run for run in runs if which in run.scored[-1]])
        for (problem, method), runs in study.groups.items()
        for which in MODELS
        if any(which in run.scored[-1] for run in runs)
    ]
    if not rows:
        return None
    named = element("th", "Which client is the worst", scope="col", class_="words")
    return table(
        "Balanced accuracy in percent on what each client holds out, last round, mean ± sample deviation over seeds",
        ["Method", *problem_head(study), "Model", "Mean over clients", "Worst client", "Best client", named],
        rows,
        class_="sortable",
    )


def _worst_row(study: Study, problem: str, method: str, model: str, runs: Sequence[RunResult]) -> list[str]:
    last = [run.scored[-1][model] for run in runs]
    which = [_which(run, one["worst_client"]) for run, one in zip(runs, last, strict=True)]
    more = f"; and so on for {len(which)} seeds" if len(which) > MOST_NAMED else ""
    return [
        method,
        *problem_cells(study, problem),
        MODELS[model],
        _spread([one["mean_client_balanced_accuracy"] for one in last]),
        _spread([one["worst_client_balanced_accuracy"] for one in last]),
        _spread([one.get("best_client_balanced_accuracy") for one in last]),
        element("td", "; ".join(which[:MOST_NAMED]) + more, class_="words"),
    ]


def _which(run: RunResult, client: int | None) -> str:
    if client is None:
        return f"seed {run.seed}: no client holds out a sample"
    counts, name = run.client_counts, run.client_names[client]
    named = f"client {client}" if name == str(client) else name
    classes = "" if counts is None else f", {sum(count > 0 for count in counts[client])} classes"
    return f"seed {run.seed}: {named} ({run.samples[client]} samples{classes})"


def _spread(values: Sequence[float | None]) -> Html:
    cell = Cell(tuple(values))
    if cell.mean is None:
        return number_cell(None, percent)
    spread = f" ± {percent(cell.deviation)}" if cell.deviation is not None else ""
    return element(
        "td", percent(cell.mean), element("span", spread, class_="dev"), data_value=repr(cell.mean)
    )


def server_view(study: Study) -> Html:
    """Traffic between clients and server, as counted, and which parts of a method cause it."""
    runs = {method: group[0] for (_, method), group in reversed(study.groups.items())}
    traffic = table(
        "Bytes per client and round, mean over rounds: tensors only, without the overhead of a transport",
        [
            "Method",
            "To the client",
            "From the client",
            "Model alone",
            "From the client / model",
            "Weights",
        ],
        [_traffic_row(method, runs[method]) for method in study.methods],
        class_="sortable",
    )
    return join([_always(), traffic, _parts(runs)])


def _always() -> Html:
    return element(
        "p",
        "With every method the server knows how many samples each client has, and receives in each round from the "
        "clients of the cohort: their update of the model, its buffers, and their mean training loss. "
        "Samples are not sent, but an update can reveal something about them. What methods add:",
    )


def _traffic_row(method: str, run: RunResult) -> list[str]:
    down = _per_client(run.rows, "bytes_down", "asked")
    up = _per_client(run.rows, "bytes_up", "replied")
    alone = run.record["parameters"] * WIDTHS[run.config["engine"]["dtype"]]
    ratio = up / alone if alone and up else None
    weighting = build_method(run.config["method"]).weighting
    return [
        method,
        number_cell(down, bytes_),
        number_cell(up, bytes_),
        number_cell(alone or None, bytes_),
        number_cell(ratio, lambda value: f"{value:.2f}"),
        "by samples" if weighting == "samples" else "uniform",
    ]


def _per_client(rows: Sequence[dict[str, Any]], size: str, clients: str) -> float | None:
    asked = sum(row[clients] for row in rows)
    total = sum(row[size] for row in rows)
    return total / asked if asked and total else None


def _parts(runs: dict[str, RunResult]) -> Html:
    """Every part once, with the methods that use it."""
    parts: dict[str, tuple[Part, list[str]]] = {}
    for method, run in runs.items():
        asked = own_questions(make_experiment(run.config))
        for part in (*build_method(run.config["method"]).parts, *asked):
            parts.setdefault(part.name, (part, []))[1].append(method)
    if not parts:
        return element("p", "Nothing: these methods have no further parts.")
    return element("dl", join(_part(part, sorted(users)) for part, users in parts.values()), class_="parts")


def _does(part: Part, hook: str) -> str:
    """What a hook does that the server sees, with the part's own words on what it learns by it."""
    reveals = part.reveals
    if hook == "finish" and reveals.upload:
        return "" if reveals.upload == "nothing" else f"adds to what a client sends back {reveals.upload}"
    said = {"survey": reveals.survey, "tally": reveals.tally, "weigh": reveals.judged}.get(hook, "")
    return f"{HOOKS[hook]}: {said}" if said else HOOKS.get(hook, "")


def _part(part: Part, users: Sequence[str]) -> Html:
    does = [words for hook in part.hooks() if (words := _does(part, hook))]
    words = "; ".join(does) or "acts on the client and adds nothing to what is sent"
    rule = PARTS.entry(part.name).summary.replace("``", "") if part.name in PARTS else ""
    used = f"In {', '.join(users)}: {words}."
    return join(
        [
            element("dt", part.name),
            element("dd", used, element("br"), element("span", rule, class_="formula")),
        ]
    )
