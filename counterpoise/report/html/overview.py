"""The top of the page: what was compared, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from counterpoise.errors import noun, plural
from counterpoise.metrics.catalogue import capital, find
from counterpoise.report.html.markup import Html, element, join, number, percent, table
from counterpoise.report.html.study import Study
from counterpoise.report.html.tables import MOMENT_WORDS, SIGNS
from counterpoise.report.render.layout import rows_by_problem
from counterpoise.report.render.verdict_table import limits_of, verdict_caption, verdict_head, verdict_rows
from counterpoise.results.cells import Cell, Row, best_methods, lower_is_better
from counterpoise.results.recommendation import opening
from counterpoise.results.results import RunResult
from counterpoise.results.words import on_problem


def title_of(study: Study) -> str:
    data = " and ".join(_data_names(study.results)) or "unknown data"
    methods = study.methods or list(dict.fromkeys(result.method for result in study.results))
    return f"{methods[0] if len(methods) == 1 else plural(len(methods), 'method')} on {data}"


def advice(study: Study) -> Html:
    """Which method to use, before anything else."""
    paragraphs = study.opening or opening(study.comparison.recommendations)
    return join(element("p", paragraph, class_="leader advice") for paragraph in paragraphs)


def lead(study: Study) -> Html:
    """One sentence on what was compared, one on how it was scored."""
    if not study.groups:
        return element("p", "No run has finished, so there is nothing to compare yet.", class_="lead")
    runs = [run for group in study.groups.values() for run in group]
    compared = f"{_what(study, runs)}: {_split(runs)}, {_length(runs)}"
    moment = MOMENT_WORDS[study.comparison.at]
    scored = f"Scores are on {study.scored_on}, {moment}, mean ± sample deviation over seeds."
    against = f" The baseline is {study.comparison.baseline}." if len(study.methods) > 1 else ""
    return element("p", f"{compared}. {scored}{against}", class_="lead")


def _what(study: Study, runs: Sequence[RunResult]) -> str:
    seeds = sorted({run.seed for run in runs})
    shown = ", ".join(map(str, seeds)) if len(seeds) <= 6 else f"{seeds[0]} to {seeds[-1]}"
    who = study.methods[0] if len(study.methods) == 1 else "The methods"
    where = f" on {plural(len(study.problems), 'problem')}" if len(study.problems) > 1 else ""
    return f"{who} ran{where} with {noun(len(seeds), 'seed')} {shown}"


def _split(runs: Sequence[RunResult]) -> str:
    names = sorted({str(run.config["partition"]["name"]) for run in runs})
    asked = {_asked(run) for run in runs}
    each = f", {asked.pop()} clients per round" if len(asked) == 1 else ""
    clients = sorted({len(run.samples) for run in runs})
    return f"data split over {' or '.join(map(str, clients))} clients by {' or '.join(names)}{each}"


def _asked(run: RunResult) -> int:
    return int(run.config["cohort"]["size"] or len(run.samples))


def _length(runs: Sequence[RunResult]) -> str:
    rounds = sorted({int(run.config["rounds"]) for run in runs})
    models = sorted({str(run.config["model"]["name"]) for run in runs})
    return f"{' or '.join(map(str, rounds))} rounds, model {' or '.join(models)}"


def facts(study: Study) -> Html:
    """The key figures."""
    done = sum(result.has_result for result in study.results)
    known = [result for result in study.results if result.record]
    pairs = [
        ("Finished runs", f"{done} of {len(study.results)}"),
        ("Methods", str(len(study.methods))),
        ("Seeds", str(len({result.seed for result in study.results}))),
        ("Clients", _range(len(run.samples) for run in known)),
        ("Classes", _range(len(run.record["data"]["classes"]) for run in known)),
        ("Imbalance", _range(_imbalance(run.class_counts) for run in known if run.class_counts)),
        ("Parameters", _range(run.record["parameters"] for run in known)),
    ]
    cells = [element("div", element("dt", name), element("dd", value)) for name, value in pairs]
    return element("dl", join(cells), class_="facts")


def _imbalance(counts: Sequence[int]) -> float:
    present = [count for count in counts if count] or [1]
    return round(float(max(present) / min(present)), 1)


def _range(values: Iterable[float]) -> str:
    known = sorted(set(values))
    return " to ".join(dict.fromkeys(map(number, (known[0], known[-1])))) if known else "–"


def verdicts(study: Study) -> Html:
    """One row per method; with several problems, those over all problems come first."""
    found = study.comparison.verdicts
    notes = [*limits_of(found), *study.comparison.notes]
    listed = element("ul", join(element("li", note) for note in notes), class_="notes")
    return join([_leader(study), _verdict_table(study) if found else Html(), listed if notes else Html()])


def _leader(study: Study) -> Html:
    by_problem = rows_by_problem(study.comparison)
    lines = [line for rows in by_problem.values() for line in _leaders(rows, study.comparison.score)]
    return element("p", " ".join(lines), class_="leader") if 0 < len(lines) <= 3 else Html()


def _leaders(rows: Sequence[Row], score: str) -> Iterator[str]:
    """The methods with the best mean on a problem; nothing where none stands out."""
    best = best_methods(rows, score, score)
    if best:
        word = "Lowest" if lower_is_better(score) else "Highest"
        named = [f"{row.method}, {_plain(row.cells[score])}" for row in rows if row.method in best]
        yield f"{word} mean {find(score).title.lower()}{on_problem(rows[0].problem)}: {' and '.join(named)}."


def _plain(cell: Cell) -> str:
    assert cell.mean is not None
    spread = f"\u00a0±\u00a0{percent(cell.deviation)}" if cell.deviation is not None else ""
    return f"{percent(cell.mean)}{spread}\u00a0%"


def _verdict_table(study: Study) -> Html:
    head, rows = verdict_head(study.comparison), verdict_rows(study.comparison)
    verdict = head.index("verdict")
    titles = [
        element("th", capital(name), scope="col", class_="words" if 0 < place <= verdict else None)
        for place, name in enumerate(head)
    ]
    return table(
        verdict_caption(study.comparison),
        titles,
        [[*_words(row[:verdict]), _sign(row[verdict]), *row[verdict + 1 :]] for row in rows],
    )


def _words(cells: Sequence[str]) -> list[str]:
    method, *places = cells
    return [method, *(element("td", place, class_="words narrow") for place in places)]


def _sign(verdict: str) -> Html:
    sign = element("span", SIGNS.get(verdict, SIGNS["no evidence"]), class_="sign", aria_hidden="true")
    return element("td", sign, f" {verdict}", class_=f"{verdict.replace(' ', '-')} verdict")


def _data_names(results: Sequence[RunResult]) -> list[str]:
    return list(dict.fromkeys(str(run.record["data"]["name"]) for run in results if run.record))
