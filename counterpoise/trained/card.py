"""A model card in Markdown: data, imbalance, method, scores with deviations, what the server learned, limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from counterpoise.errors import CounterpoiseError, few_digits, first_few, printable
from counterpoise.metrics.catalogue import find, headline, scored_on
from counterpoise.metrics.scores import worst_class
from counterpoise.results.cells import Cell
from counterpoise.results.labels import show
from counterpoise.results.privacy import privacy_report
from counterpoise.results.results import RunResult, read_result
from counterpoise.run.learned import learned_in
from counterpoise.run.store.folder import CONFIG
from counterpoise.trained.answers import BY_PROBABILITY, CALLED, called_from, scores_at_threshold
from counterpoise.trained.load import LoadedRun

Z = 1.959964  # of a two-sided interval of 95 %
FEW = 30  # test samples of a class below which its recall is a guess
MOST_ROWS = 60  # classes up to which each has a line
SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>#|~"})  # of Markdown


def model_card(run: LoadedRun, files: dict[str, str]) -> str:
    """The card of a finished run; `files`: what each file of the export is."""
    title = f"{run['method']} on {run.result.record['data']['name']}"
    sections = {
        "Data": _data(run),
        "Method": _method(run),
        "Scores": [*_answers(run), *_scores(run)],
        "Classes": _classes(run),
        "What the server learned": _learned(run),
        "Limits": _limits(run),
        "Files": [f"- `{name}`: {words}" for name, words in files.items()],
    }
    body = "\n\n".join(f"## {name}\n\n" + "\n".join(lines) for name, lines in sections.items())
    return f"# Model card: {plain(title)}\n\n{body}\n"


def plain(text: object) -> str:
    """Text that Markdown shows as it is, whatever names hold."""
    return " ".join(printable(str(text)).split()).translate(SPECIAL)


def _data(run: LoadedRun) -> list[str]:
    data, counts = run.result.record["data"], run.result.class_counts
    lines = [f"- set: {plain(data['name'])}, {len(run.classes)} classes, {len(run.result.samples)} clients"]
    lines += [f"- training samples: {sum(run.result.samples):,}"]
    if counts:
        held = [count for count in counts if count]
        ratio = max(held) / min(held)
        rarest, most = run.classes[counts.index(min(counts))], run.classes[counts.index(max(counts))]
        lines.append(
            f"- imbalance: largest over smallest class {few_digits(ratio, 4)} ({plain(most)} {max(counts):,}, {plain(rarest)} {min(counts):,})"
        )
    if skew := run.result.record.get("skew"):
        lines.append(
            f"- skew: divergence of clients from all {skew['divergence']:.3f} (Jensen-Shannon, 0 to 1), {skew['missing_classes']:.1f} classes missing per client on average"
        )
    lines += [f"- file {plain(name)}: SHA-256 {digest}" for name, digest in data["files"].items()]
    return lines + [f"- {plain(note)}" for note in data["notes"]]


def _method(run: LoadedRun) -> list[str]:
    config, record = run.result.config, run.result.record
    local = ", ".join(f"{key} {show(value)}" for key, value in config["local"].items())
    return [
        f"- method: {plain(show(config['method']))}",
        f"- model: {plain(config['model']['name'])}, {record['parameters']:,} trained parameters",
        f"- {config['rounds']} rounds, seed {config['seed']}; on clients: {plain(local)}",
        f"- made by counterpoise {record['versions']['counterpoise']}; SHA-256 of the trained parameters: {run['params_sha256']}",
    ]


def _scores(run: LoadedRun) -> list[str]:
    """The scores of this model, and over all seeds of the same experiment that lie beside it."""
    others = seeds_beside(run.result)
    known = [key for key in headline() if run.summary.get(key) is not None]
    size = f" of {run.test_samples:,} samples" if run.test_samples else ""
    where = f"on {scored_on(run.summary)}{size}"
    where += "" if run.decision is None else f", for {BY_PROBABILITY} as the answer, without the threshold"
    if len(others) < 2:
        head = ["| score | this model |", "| --- | --- |"]
        rows = [f"| {find(key).title} | {_shown(key, run[key])} |" for key in known]
        return [
            f"Last round, {where}. One seed is known, so there is no deviation.",
            "",
            *head,
            *rows,
        ]
    seeds = ", ".join(str(one.seed) for one in others)
    head = [f"| score | this model | mean of {len(others)} seeds | deviation |", "| --- | --- | --- | --- |"]
    return [
        f"Last round, {where}. Seeds {seeds} of the same experiment are known; the deviation is that of a sample.",
        "",
        *head,
        *(_row(key, run[key], others) for key in known),
    ]


def _answers(run: LoadedRun) -> list[str]:
    """How answers follow from probabilities, where a threshold was chosen: the files give probabilities alone."""
    if run.decision is None:
        return []
    return [
        f"Answers go by a threshold, chosen on validation samples: a sample is {plain(called_from(run.decision, run.classes))}."
        f" At it, on the test set: {scores_at_threshold(run.summary)}. `model.onnx` and `model.py` give logits and probabilities;"
        " the threshold is in `inputs.json`, and the examples apply it.",
        "",
    ]


def seeds_beside(run: RunResult) -> list[RunResult]:
    """Finished runs of the same problem and method beside this one, itself included, one per seed.

    Nothing below them is looked at: the folder that holds a run may be a home, with all that is in it.
    """
    found = {run.seed: run}
    for config in sorted(run.path.resolve().parent.glob(f"*/{CONFIG}")):
        try:
            other = read_result(config.parent)
        except CounterpoiseError:  # not ours to report
            continue
        same = other.problem == run.problem and other.config["method"] == run.config["method"]
        if same and other.has_result:
            found.setdefault(other.seed, other)
    return [found[seed] for seed in sorted(found)]


def _row(key: str, own: float, others: Sequence[RunResult]) -> str:
    cell = Cell(tuple((one.summary or {}).get(key) for one in others))
    mean, deviation = (None if value is None else _shown(key, value) for value in (cell.mean, cell.deviation))
    return f"| {find(key).title} | {_shown(key, own)} | {mean or 'unknown'} | {deviation or 'unknown'} |"


def _shown(key: str, value: float) -> str:
    return f"{100 * value:.2f} %" if find(key).unit == "percent" else f"{value:.4g}"


def _classes(run: LoadedRun) -> list[str]:
    """Recall of each class, of what the model answers, with its interval: of a rare class a test set says little."""
    if "confusion" not in run.summary or len(run.classes) > MOST_ROWS:
        return [
            "Not listed: no confusion counts, or very many classes; `cp.load_run(DIR).frame('classes')` has them."
        ]
    counts: list[int] | list[None] = run.result.class_counts or [None] * len(run.classes)
    at_it = "" if run.decision is None else " at the threshold"
    head = [
        f"Recall{at_it} with Wilson's interval of 95 %, which counts test samples, not seeds.",
        "",
        "| class | training samples | test samples | recall | interval |",
        "| --- | --- | --- | --- | --- |",
    ]
    return head + [
        f"| {plain(name)} | {'unknown' if held is None else f'{held:,}'} | {sum(row):,} | {_recall(row[place], sum(row))} |"
        for place, (name, held, row) in enumerate(
            zip(run.classes, counts, run.confusion().counts.tolist(), strict=True)
        )
    ]


def _recall(hits: int, samples: int) -> str:
    if not samples:
        return "unknown | unknown"
    low, high = wilson(hits, samples)
    return f"{100 * hits / samples:.1f} % | {100 * low:.1f} to {100 * high:.1f} %"


def wilson(hits: int, samples: int) -> tuple[float, float]:
    """Wilson's score interval of a share: ``(p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)``."""
    share, weight = hits / samples, Z * Z / samples
    half = Z * math.sqrt(share * (1 - share) / samples + weight / (4 * samples))
    low, high = ((share + weight / 2 + side) / (1 + weight) for side in (-half, half))
    return max(low, 0.0), min(high, 1.0)  # rounding may lead a hair beyond


def _worst(run: LoadedRun) -> tuple[str, float] | None:
    """The class of lowest recall and that recall, of what the model answers; of very many classes there are no counts."""
    if CALLED in run.summary:
        found = worst_class(run[CALLED])
        return found and (run.classes[found.which], found.score)
    name = run.summary.get("worst_class")
    return None if name is None else (name, run["worst_class_recall"])


def _learned(run: LoadedRun) -> list[str]:
    lines: list[str] = []
    for section in privacy_report(run.result, learned_in(run.experiment)):
        lines += [f"{section.title}:", "", *(f"- {plain(line)}" for line in section.lines), ""]
    return lines[:-1]


def _limits(run: LoadedRun) -> list[str]:
    return [f"- {line}" for line in _limit_lines(run)]


def _limit_lines(run: LoadedRun) -> Iterator[str]:
    summary: dict[str, Any] = run.summary
    yield f"Scores are on {scored_on(summary)}, of the same source as the training data; other sources may differ."
    if worst := _worst(run):
        yield f"The class {plain(worst[0])} is recognised least: {_shown('worst_class_recall', worst[1])} of its test samples."
    sizes = [sum(row) for row in summary.get("confusion", [])]
    few = [plain(name) for name, size in zip(run.classes, sizes, strict=False) if size < FEW]
    if few:
        yield f"Fewer than {FEW} test samples, so that their recall is hardly known: {first_few(few, most=10)}."
    if summary.get("calibration_error") is not None:
        yield f"Probabilities are the model's softmax, not frequencies: their calibration error on {scored_on(summary)} was {summary['calibration_error']:.3f}."
    if run.preprocessing.form.columns is not None:
        yield "Words that training did not have count as other words or as none; numbers far from those of training are extrapolated; gaps take the median of training."
    yield "Nothing here was checked for fairness between groups of people, nor against inputs made to mislead."
