"""How to repeat each run, its versions and hardware, and what failed."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

from counterpoise.errors import noun, plural
from counterpoise.report.html.markup import Html, element, join, table
from counterpoise.report.html.study import Study
from counterpoise.results.labels import Labels
from counterpoise.results.results import RunResult
from counterpoise.run.store.folder import RunFolder
from counterpoise.system.toml import write_toml


def failures(study: Study) -> Html:
    """Runs that failed or are unfinished, and replies and rounds that were lost."""
    why = dict(study.comparison.failures)
    broken = [
        [
            str(run.path),
            run.method,
            str(run.seed),
            f"{len(run.rows)} of {run.config['rounds']}",
            why[run.path],
        ]
        for run in study.results
        if run.path in why
    ]
    broken += [[str(path), "–", "–", "–", str(error)] for path, error in study.left_out.items()]
    lost = [_lost(run) for run in study.results if any(row["rejected"] or row["skipped"] for row in run.rows)]
    pieces = [
        element("p", "Every run finished.") if not broken else _broken(broken),
        element("p", "No reply was rejected and no round skipped.") if not lost else _losses(lost),
        _shortened(study.results),
    ]
    return join(pieces)


def _broken(rows: Sequence[Sequence[str]]) -> Html:
    return table(
        "Runs that are not in the tables and charts above",
        ["Folder", "Method", "Seed", "Rounds done", "Why"],
        [[*row[:4], element("td", row[4], class_="words")] for row in rows],
        class_="listed",
    )


def _lost(run: RunResult) -> list[str]:
    rejected = [reply for row in run.rows for reply in row["rejected"]]
    reasons = dict.fromkeys(str(reply["reason"]).partition(":")[0] for reply in rejected)
    skipped = sum(bool(row["skipped"]) for row in run.rows)
    return [str(run.path), str(len(rejected)), ", ".join(reasons) or "–", str(skipped)]


def _losses(rows: Sequence[Sequence[str]]) -> Html:
    head = ["Folder", "Rejected replies", "Why", "Skipped rounds"]
    return table("Replies that could not be used, and rounds without any reply", head, rows)


def _shortened(runs: Sequence[RunResult]) -> Html:
    """Clients whose updates were shortened: they may be large or hostile."""
    clipped = [(run, entry) for run in runs for row in run.rows for entry in row.get("clipped", ())]
    if not clipped:
        return element("p", "No update was shortened.")
    counts = Counter((str(run.path), int(entry["client"])) for run, entry in clipped)
    longest: dict[tuple[str, int], float] = {}
    for run, entry in clipped:
        key = str(run.path), int(entry["client"])
        longest[key] = max(longest.get(key, 0.0), entry["norm"] / entry["bound"])
    rows = [
        [path, str(client), str(n), f"{longest[path, client]:.3g}"] for (path, client), n in counts.items()
    ]
    head = ["Folder", "Client", "Rounds", "Longest, in bounds"]
    return table("Updates longer than cohort.max_influence allows, which were shortened to it", head, rows)


def repeat(study: Study) -> Html:
    """Commands and configs of all runs, finished or not, by method."""
    advice = (
        "Each command runs the exact config again, into a new folder; on the same kind of machine with the same versions "
        "it gives the same bits. The configs are also printed here, in case their files are lost."
    )
    groups: dict[Labels, list[RunResult]] = {}
    for run in study.results:
        groups.setdefault(study.labels[run.path], []).append(run)
    return join([element("p", advice), *(_group(labels, runs) for labels, runs in groups.items())])


def command_of(run: RunResult) -> str:
    config, again = RunFolder(run.path).config, f"{run.path}-again"
    flower = run.config["engine"]["name"] == "flower"
    words = ["counterpoise", *(["flower", "up"] if flower else ["run"]), str(config), "--out", again]
    return shlex.join(words)


def _group(labels: Labels, runs: Sequence[RunResult]) -> Html:
    seeds = ", ".join(str(run.seed) for run in runs)
    words = f" {labels.problem + ', ' if labels.problem else ''}{noun(len(runs), 'seed')} {seeds}"
    return element(
        "details",
        element("summary", element("span", labels.method, class_="name"), words),
        join(_run(run) for run in runs),
        class_="run",
    )


def _run(run: RunResult) -> Html:
    failed = run.failure is not None or run.given_up is not None
    state = "" if run.has_result else ", failed" if failed else ", unfinished"
    config = element("pre", element("code", write_toml(run.config).strip()), tabindex=0)
    return join(
        [
            element("pre", element("code", command_of(run)), class_="command", tabindex=0),
            element("details", element("summary", f"Config of seed {run.seed}{state}"), config),
        ]
    )


def versions(study: Study) -> Html:
    """Versions and hardware: one table if all runs agree, else one table per kind."""
    kinds: dict[str, list[RunResult]] = {}
    for run in study.results:
        if run.record:
            kinds.setdefault(json.dumps([_made_with(run), _on(run)]), []).append(run)
    known = [_kind(runs, len(kinds) > 1) for runs in kinds.values()]
    return join(known) if known else element("p", "No run has recorded its versions.")


def _kind(runs: Sequence[RunResult], several: bool) -> Html:
    caption = f"Versions and hardware of {'these' if several else 'all'} {plural(len(runs), 'run')}"
    rows = [[name, value] for name, value in {**_made_with(runs[0]), **_on(runs[0])}.items()]
    which = ", ".join(str(run.path) for run in runs)
    listed = table(caption, ["What", "Which"], rows, class_="listed")
    return join([listed, element("p", which) if several else Html()])


def _made_with(run: RunResult) -> dict[str, str]:
    return {str(name): str(version) for name, version in run.record["versions"].items()}


def _on(run: RunResult) -> dict[str, str]:
    machine: dict[str, Any] = {**run.record["machine"], "engine": _engine(run)}
    return {str(key): str(value) for key, value in machine.items() if value is not None}


def _engine(run: RunResult) -> str:
    engine = run.record["engine"]
    return f"{engine['name']} on {engine['device']}"


def data_notes(study: Study) -> Html:
    """Notes on the data sets, and hashes of their files."""
    seen: dict[str, list[str]] = {}
    for run in study.results:
        if run.record:
            data = run.record["data"]
            seen.setdefault(str(data["name"]), []).extend(
                [*data["notes"], *map(_file, data["files"].items())]
            )
    rows = [[name, "; ".join(dict.fromkeys(notes)) or "–"] for name, notes in seen.items()]
    words = [[name, element("td", notes, class_="words")] for name, notes in rows]
    return (
        table("What is known about the data", ["Data", "Notes"], words, class_="listed") if rows else Html()
    )


def _file(item: tuple[str, Any]) -> str:
    return f"{item[0]}: {item[1]}"
