"""A finished run in five lines, as text and for Jupyter."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from counterpoise.errors import few_digits, one_line, plural, printable
from counterpoise.metrics.catalogue import GROUPS, find, scored_on, worth_showing

SCORES = ("accuracy", "balanced_accuracy", "macro_f1")
NO_THRESHOLD = "no threshold would do on the validation samples"


class Facts(NamedTuple):
    """What a summary does not say of its run."""

    data: str
    classes: Sequence[str]
    clients: int
    model: str
    use: str  # what to do next


def five_lines(summary: Mapping[str, Any], facts: Facts) -> list[str]:
    """What ran on what, how it went, how good it is, on which classes, and how to use it.

    Scores at a threshold are not in these lines: they are of another model than the scores here.
    """
    rounds, worst = summary["rounds"], summary.get("worst_class")
    bytes_sent = summary["bytes"] / 1e6
    lowest = [f"lowest recall {_percent(summary['worst_class_recall'])}, class {worst}"] if worst else []
    shown = worth_showing(GROUPS, lambda key: summary.get(key) is not None)
    groups = [", ".join(_score(summary, key) for key in shown)] if shown else []
    return [
        printable(line)
        for line in (
            f"{summary['method']} on {facts.data}: {len(facts.classes)} classes, {facts.clients} clients, {facts.model}, seed {summary['seed']}",
            f"{plural(rounds, 'round')} in {few_digits(summary['seconds'])} s, {few_digits(bytes_sent)} MB sent, {summary['skipped_rounds']} rounds skipped ({summary['engine']} on {summary['device']})",
            f"{scored_on(summary).removeprefix('the ')}: "
            + "; ".join([", ".join(_score(summary, key) for key in SCORES), *_class_found(summary)]),
            "recall: " + ("; ".join([*groups, *lowest]) or "unknown"),
            facts.use,
        )
    ]


def class_lines(summary: Mapping[str, Any]) -> list[str]:
    """How well the class that matters is found, and at the threshold, where one was chosen for it."""
    return [*_class_found(summary), *_at_threshold(summary)]


def _class_found(summary: Mapping[str, Any]) -> list[str]:
    """The positive class by the more probable answer; else the rarest, where no tail tells of it."""
    if (positive := summary.get("positive_class")) is not None:
        without = [NO_THRESHOLD] if "threshold" in summary and summary["threshold"] is None else []
        return [_found(summary, f"class {one_line(positive)}", "positive"), *without]
    rarest = summary.get("rarest_class") if summary.get("tail") is None else None
    return (
        [] if rarest is None else [_found(summary, f"class {one_line(rarest)}, the rarest", "rarest_class")]
    )


def _at_threshold(summary: Mapping[str, Any]) -> list[str]:
    if (chance := summary.get("threshold")) is None:
        return []
    return [_found(summary, f"at the threshold, a probability of {chance:.4g}", "threshold")]


def _found(summary: Mapping[str, Any], what: str, prefix: str) -> str:
    recall, precision = (_percent(summary.get(f"{prefix}_{score}")) for score in ("recall", "precision"))
    return f"{what}: recall {recall}, precision {precision}"


def outcome_html(lines: Sequence[str]) -> str:
    """The lines as Jupyter shows them; whatever names hold is escaped."""
    first, *rest = (html.escape(line) for line in lines)
    return f"<div><strong>{first}</strong><br>{'<br>'.join(rest)}</div>"


def _score(summary: Mapping[str, Any], key: str) -> str:
    return f"{find(key).short} {_percent(summary.get(key))}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"
