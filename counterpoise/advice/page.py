"""What a race leaves behind: the experiment to run, the report, and all of it for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.advice.advise import Found
from counterpoise.advice.trials import Trial
from counterpoise.report.html import write_report
from counterpoise.report.html.markup import Html, element, join, table
from counterpoise.report.html.study import Section, study
from counterpoise.results.labels import Labels
from counterpoise.results.results import read_runs
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep.jobs import check_names
from counterpoise.sweep.specs import describe_setting, label_of
from counterpoise.system.atomic import write_atomically
from counterpoise.system.toml import write_toml

TOML, REPORT, DATA = "recommended.toml", "report.html", "recommendation.json"


class Advice(NamedTuple):
    """The recommendation and where it lies."""

    found: Found
    out: Path

    @property
    def paragraph(self) -> str:
        return self.found.paragraph

    @property
    def method(self) -> Any:
        """The recommended method, as `simulate` and a config take it."""
        return self.found.trial.method

    @property
    def settings(self) -> dict[str, Any]:
        """Values that differ from those of the experiment, by dotted key."""
        return dict(self.found.trial.setting)

    @property
    def toml(self) -> Path:
        return self.out / TOML

    @property
    def report(self) -> Path:
        return self.out / REPORT

    def __repr__(self) -> str:
        return f"{textwrap.fill(self.paragraph, 100)}\nto run it: {self.toml}\nreport:    {self.report}"

    def _repr_html_(self) -> str:
        return element("p", self.paragraph)


def write_advice(found: Found, out: Path) -> Advice:
    """Write the experiment to run, the report and the JSON."""
    advice = Advice(found, out)
    write_atomically(advice.toml, _toml(found).encode(errors="backslashreplace"))
    write_atomically(out / DATA, (json.dumps(as_data(found), indent=2) + "\n").encode())
    _write_report(found, advice.report)
    return advice


def as_data(found: Found) -> dict[str, Any]:
    """All that was found, for programs."""
    outlook = found.outlook
    return {
        "paragraph": found.paragraph,
        "recommendation": found.recommendation._asdict(),
        "method": found.trial.method,
        "settings": dict(found.trial.setting),
        "goal": outlook.goal.name,
        "data": outlook.data._asdict(),
        "validation": outlook.held._asdict() | {"words": outlook.held_words},
        "candidates": [
            {"method": label_of(one.method), "why": one.why, "tried": place < found.tried}
            for place, one in enumerate(outlook.candidates)
        ],
        "finalists": [
            {
                "method": one.label,
                "settings": dict(one.setting),
                "seeds": len(found.race.results(one, found.finals)),
            }
            for one in found.finalists
        ],
    }


def _toml(found: Found) -> str:
    """The recommended experiment with the reasons above it; checked, so that it runs as it is."""
    tables = found.course.recommended(found.trial)
    check_names(make_experiment(tables))
    words = textwrap.wrap(" ".join(found.paragraph.split()), 110)
    return "\n".join([*(f"# {line}" for line in words), "", write_toml(tables)])


def _write_report(found: Found, path: Path) -> None:
    """The report of the finals, which opens with the recommendation."""
    labels = {
        run: Labels("", label) for run, label in found.race.paths(found.finalists, found.finals).items()
    }
    runs = read_runs(run for run in labels if RunFolder(run).holds_run())
    key = found.outlook.goal.key if found.outlook.goal.place is None else "balanced_accuracy"
    known = study(runs, labels, score=key, baseline=found.finalists[0].label)
    write_report(
        known._replace(
            opening=[found.paragraph],
            scored_on="validation samples",
            sections=[Section("tried", "What was tried", _tried(found))],
        ),
        path,
    )


def _tried(found: Found) -> Html:
    """The data's figures, and the candidates with their reasons and how far they came."""
    lines = join(element("li", line) for line in (*found.outlook.data.words, found.outlook.held_words))
    rates = {one.label: one for one in found.finalists}
    rows = [
        [
            label_of(one.method),
            _words(one.why),
            _words(_came(rates.get(label_of(one.method)), place < found.tried)),
        ]
        for place, one in enumerate(found.outlook.candidates)
    ]
    head: Sequence[str] = [
        "Method",
        *(element("th", name, scope="col", class_="words") for name in ("Why", "Came to")),
    ]
    return join(
        [
            element("ul", lines, class_="notes"),
            table("Candidates, why each was proposed, and how far it came", head, rows),
        ]
    )


def _words(text: str) -> Html:
    return element("td", text, class_="words")


def _came(trial: Trial | None, tried: bool) -> str:
    if not tried:
        return "not tried: time was short"
    return (
        "left the race before the finals"
        if trial is None
        else f"the finals, at {describe_setting(trial.setting)}"
    )
