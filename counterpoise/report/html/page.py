"""The report: one HTML file that needs no network, and can be read without its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from counterpoise.report.html import clients, overview, provenance
from counterpoise.report.html.classes import (
    class_data,
    class_table,
    confusion_data,
    group_data,
    partition_data,
)
from counterpoise.report.html.curves import curve_data
from counterpoise.report.html.diagnostics import diagnostic_data
from counterpoise.report.html.markup import Html, data_block, element, join
from counterpoise.report.html.probes import probe_data
from counterpoise.report.html.study import Section, Study
from counterpoise.report.html.tables import matrix, tables
from counterpoise.system.atomic import write_atomically
from counterpoise.version import __version__

Data: TypeAlias = dict[str, Any]  # what the script draws
# Names in the bar of contents
SHORT = {
    "tried": "Tried",
    "curves": "Curves",
    "diagnostics": "Methods",
    "server": "Server",
    "failures": "Failures",
    "repeat": "Repeat",
    "versions": "Versions",
}
SCRIPTS = ("base", "chart", "curves", "classes", "matrix", "tree", "diagnostics", "tables", "main")


def write_report(study: Study, path: Path) -> Path:
    """Write the page; the same runs give the same file. Its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # File names may hold bytes that are not valid text.
    write_atomically(path, render(study).encode(errors="backslashreplace"))
    return path


def render(study: Study) -> str:
    style, script = _asset("report.css"), _script()
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"counterpoise {__version__}"),
        element("title", f"{overview.title_of(study)} · Counterpoise"),
        element("style", Html(style)),
    )
    data = _data(study)
    sections = _sections(study, data)
    body = element(
        "body",
        _header(study),
        _contents(sections),
        _main(sections),
        _footer(),
        data_block("report-data", data),
        element("script", Html(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _policy(style: str, script: str) -> str:
    """Nothing is loaded; only the script and the style in the page are allowed."""
    return f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("counterpoise.report.html") / "assets" / name).read_text(encoding="utf-8")


def _script() -> str:
    return "\n".join(["'use strict';(() => {", *(_asset(f"{name}.js") for name in SCRIPTS), "})();"])


def _header(study: Study) -> Html:
    brand = element("p", _LOGO, "Counterpoise report", class_="brand")
    return element(
        "header",
        brand,
        element("h1", overview.title_of(study)),
        overview.advice(study),
        overview.lead(study),
        overview.facts(study),
    )


def _contents(sections: Sequence[Section]) -> Html:
    links = [
        element("li", element("a", SHORT.get(one.key, one.name), href=f"#{one.key}")) for one in sections
    ]
    return element("nav", element("ul", join(links)), aria_label="Contents")


def _main(sections: Sequence[Section]) -> Html:
    return element("main", join(map(_section, sections)), id="main")


def _section(one: Section) -> Html:
    title = f"{one.key}-title"
    return element("section", element("h2", one.name, id=title), one.body, id=one.key, aria_labelledby=title)


def _sections(study: Study, data: Data) -> list[Section]:
    """The sections of the page; without a finished run those of the comparison are left out."""
    return [*study.sections, *(_compared(study, data) if study.groups else []), *_always(study)]


def _compared(study: Study, data: Data) -> list[Section]:
    return [
        Section("verdicts", "Verdict", _verdict(study)),
        Section("table", "Results", tables(study)),
        Section("curves", "Learning curves", _chart("curves")),
        Section("classes", "Classes", _classes(study, data)),
        Section("clients", "Clients", _clients(study, data)),
        Section("diagnostics", "Inside the methods", _chart("diagnostics")),
        Section("server", "What the server learned", clients.server_view(study)),
    ]


def _always(study: Study) -> list[Section]:
    machines = join([provenance.versions(study), provenance.data_notes(study)])
    return [
        Section("failures", "What failed", provenance.failures(study)),
        Section("repeat", "Repeat each run", provenance.repeat(study)),
        Section("versions", "Versions and hardware", machines),
    ]


def _verdict(study: Study) -> Html:
    ranking = [_chart("ranking")] if study.comparison.ranking else []
    return join([matrix(study), overview.verdicts(study), *ranking])


def _classes(study: Study, data: Data) -> Html:
    confused = [_chart("confusion")] if any(data["confusions"]) else []
    return join([_chart("recall"), _chart("groups"), *confused, class_table(study)])


def _clients(study: Study, data: Data) -> Html:
    partition = _chart("partition") if any(data["partitions"]) else element("p", clients.UNASKED)
    worst = clients.worst_clients(study)
    return join([partition, *([_chart("clients"), clients.joining(study), worst] if worst else [])])


def _chart(name: str) -> Html:
    """A placeholder that the script fills."""
    without = element(
        "noscript", element("p", "This chart is drawn by a script, and scripts are off.", class_="quiet")
    )
    return element("div", without, data_chart=name)


def _data(study: Study) -> Data:
    return {
        "methods": study.methods,
        "problems": study.problems,
        "scored_on": study.scored_on,
        "curves": curve_data(study),
        "classes": class_data(study),
        "groups": group_data(study),
        "confusions": confusion_data(study),
        "partitions": partition_data(study),
        "clients": clients.client_data(study),
        "diagnostics": [*diagnostic_data(study), *probe_data(study)],
        "ranking": study.comparison.ranking and study.comparison.ranking._asdict(),
    }


def _footer() -> Html:
    return element(
        "footer",
        element(
            "p",
            f"Made by counterpoise {__version__}. This file is complete: it loads nothing from elsewhere.",
        ),
    )


_LOGO = Html(
    '<svg viewBox="0 0 32 20" width="32" height="20" aria-hidden="true" focusable="false">'
    '<path d="M3 8 29 4.6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>'
    '<path d="m12 7 4 11H8z" fill="currentColor" opacity=".55"/>'
    '<circle cx="4.6" cy="5" r="4" fill="currentColor"/><circle cx="28" cy="2.6" r="1.9" fill="currentColor"/></svg>'
)
