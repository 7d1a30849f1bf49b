"""A small result file of experiments/results, from the folders of sweeps: one line per finished run, and above them how they were made.

python experiments/collect.py runs/measured-adult --command "counterpoise compare ..." --out experiments/results/fedcgnm-adult.csv
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from counterpoise.errors import ConfigError
from counterpoise.results.results import RunResult, read_results

ROOT = Path(__file__).resolve().parent.parent
SCORES = (
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "weighted_f1",
    "head",
    "medium",
    "tail",
    "worst_class_recall",
    "best_accuracy",  # of all rounds that were evaluated: what some papers report
    "mean_client_accuracy",  # of the one model, on what each client holds out
    "client_accuracy_deviation",
    "worst_client_accuracy",
    "best_client_accuracy",
)


def result_file(runs: Sequence[RunResult], command: str, commit: str, rounds: int | None = None) -> str:
    """The whole file as text: lines with #, then a table; scores that no run has are left out."""
    finished = [run for run in runs if run.has_result] if rounds is None else _first(runs, rounds)
    if not finished:
        wanted = "finished run" if rounds is None else f"run that was scored after {rounds} rounds"
        raise ConfigError(f"there is no {wanted} in these folders")
    lines = sorted((_line(run) for run in finished), key=lambda line: (line["run"], line["seed"]))
    shown = [name for name in lines[0] if any(line[name] is not None for line in lines)]
    out = io.StringIO()
    table = csv.DictWriter(out, shown, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(lines)
    facts = (
        command,
        "; ".join(_machines(finished)),
        f"commit {commit}",
        f"{_seeds(finished)}; {_scored(finished, rounds)}",
    )
    return "".join(f"# {fact}\n" for fact in facts) + out.getvalue()


def _first(runs: Iterable[RunResult], rounds: int) -> list[RunResult]:
    """Each run as it was after so many rounds, of those that were evaluated then."""
    cut = (run._replace(rows=run.rows[:rounds]) for run in runs if len(run.rows) >= rounds)
    return [run._replace(summary=run.rows[-1]) for run in cut if run.scored[-1:] == run.rows[-1:]]


def _line(run: RunResult) -> dict[str, Any]:
    summary = run.summary or {}
    best = max(row["accuracy"] for row in run.scored)
    scores = {**summary, **summary.get("clients", {}), "best_accuracy": best}
    shown = {name: None if (one := scores.get(name)) is None else round(one, 4) for name in SCORES}
    return {
        "run": re.sub(r"-seed\d+$", "", run.path.name),
        "seed": run.seed,
        "rounds": len(run.rows),
        **shown,
    }


def _machines(runs: Iterable[RunResult]) -> list[str]:
    """Each kind of machine with its torch and its arithmetic, as the runs recorded them."""
    return sorted({_machine(run.record) for run in runs})


def _machine(record: dict[str, Any]) -> str:
    machine, engine = record["machine"], record["engine"]
    on_gpu = engine["device"] != "cpu"
    where = machine["gpu"] if on_gpu else f"{machine['cores']} cores of an {machine['cpu']}"
    arithmetic = "bfloat16" if engine["precision"] == "bf16" else engine["dtype"]
    words = [where, f"torch {record['versions']['torch'].split('+')[0]}", arithmetic]
    return ", ".join(words + ["compiled"] * bool(engine["compile"]))


def _seeds(runs: Iterable[RunResult]) -> str:
    """All seeds in one range, or one by one."""
    seeds = sorted({run.seed for run in runs})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    in_a_row = seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]} to {seeds[-1]}" if in_a_row else f"seeds {', '.join(map(str, seeds))}"


def _scored(runs: Iterable[RunResult], rounds: int | None) -> str:
    looks = sorted({len(run.scored) for run in runs})
    when = "the last round" if rounds is None else f"the first {rounds} rounds"
    return f"scores after {when}; the best of {' or '.join(map(str, looks))} evaluations"


def current_commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, help="folders of sweeps or of runs")
    parser.add_argument(
        "--command", required=True, help="the command that made the runs, for the file's first line"
    )
    parser.add_argument(
        "--commit", default=current_commit(), help="commit that made them; by default the current one"
    )
    parser.add_argument(
        "--rounds", type=int, help="take each run as it was after so many rounds, whether it went on or not"
    )
    parser.add_argument("--out", required=True, type=Path, help="the file to write")
    given = parser.parse_args()
    given.out.write_text(result_file(read_results(given.folders), given.command, given.commit, given.rounds))
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
