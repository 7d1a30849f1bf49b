"""Runs with noise on class counts that kill themselves at calls that touch their folder, then runs that go on; one JSON line each.

Arguments: how the run is made, folder for the runs, then names of files, at whose rename into place and after it runs are
killed, or `all` for every call, or `start` for those until the sum is kept for good. The first line is of a run that nobody kills.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from kill_at_call import Countdown, in_a_child
from runs import TINY

from counterpoise.privacy import protocol
from counterpoise.run import runner
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.store.checkpoint import CheckpointStore
from counterpoise.run.store.folder import RunFolder

EPSILON = 0.01  # so wide that two sums never have the same noise by chance
CLIENTS = 4
PRIVATE: dict[str, Any] = {
    "method": ["fedavg", "logit_adjustment"],
    "rounds": 2,
    "privacy": {"histogram": "masks", "epsilon": EPSILON},
}
Execute = Callable[[Path], Any]  # starts or resumes the run in a folder


def alone(base: Path) -> Execute:
    config = make_experiment({**TINY, **PRIVATE})

    def execute(out: Path) -> None:
        runner.resume(out) if RunFolder(out).holds_run() else runner.start(config, out)

    return execute


def over_flower(base: Path) -> Execute:
    """With shares of the experiment's data; clients answer in the same process, from state of their own."""
    from local_net import numbered

    config = make_experiment({**TINY, **PRIVATE, "flower": {"wait": 0.3}})
    return lambda out: numbered(out.parent / "clients", CLIENTS).run(_config(config, out), out)


def own_data(base: Path) -> Execute:
    from local_net import Net
    from own_files import KINDS, server_config

    files: dict[str, Path | None] = {}
    labels = ["low", "low", "mid", "high"] * 250  # so many that noise does not leave all counts at 0
    for seed, name in enumerate("abcd", 1):
        (base / name).mkdir()
        files[name] = KINDS["arrays"].write(base / name, labels[seed:], seed)
    settings = {
        "evaluate": {},
        "local": {"batch_size": 500},
        "flower": {"clients": list(files), "wait": 0.3},
        **PRIVATE,
    }
    config = server_config(base, KINDS["arrays"], list(files), **settings)
    return lambda out: Net(out.parent / "clients", files).run(_config(config, out), out)


def _config(config: Experiment, out: Path) -> Experiment | None:
    return None if RunFolder(out).holds_run() else config


class Drawn(NamedTuple):
    """Noise and noisy counts, each added up over the clients, of every sum that all of them answered."""

    noise: list[list[int]]
    sent: list[list[int]]


def drawn(path: Path) -> Drawn:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return Drawn(*(_sums([row[name] for row in rows if name in row]) for name in Drawn._fields))


def _sums(rows: list[list[int]]) -> list[list[int]]:
    answers = [rows[k : k + CLIENTS] for k in range(0, len(rows), CLIENTS)]
    return [[sum(column) for column in zip(*one, strict=True)] for one in answers if len(one) == CLIENTS]


def observe(path: Path) -> None:
    """Note the noise that clients draw, and what they send, before it is masked."""

    def noted(name: str, real: Callable[..., Any], vector: Callable[..., Any]) -> None:
        def call(*given: Any) -> Any:
            found = real(*given)
            with path.open("a") as stream:
                stream.write(json.dumps({name: vector(found, *given).tolist()}) + "\n")
            return found

        mock.patch.object(protocol, real.__name__, call).start()

    noted("noise", protocol.noise, lambda found, *given: found)
    noted("sent", protocol.with_checks, lambda found, given: given)


def counts_in(out: Path) -> list[int] | None:
    """The counts by which the run in a folder goes on, looked at in a copy."""
    if not (out / "checkpoints").is_dir():
        return None
    copy = Path(shutil.copytree(out / "checkpoints", out.with_name("copy")))
    found = CheckpointStore(copy).load()
    shutil.rmtree(copy)
    return None if found is None else found.server["slots"]["logit_adjustment"]["counts"].tolist()


def killed(execute: Execute, out: Path, draws: Path, last: int) -> Any:
    observe(draws)
    countdown = Countdown(out, last)
    execute(out)
    return countdown.seen


def gone_on(execute: Execute, out: Path, draws: Path) -> dict[str, Any]:
    observe(draws)
    execute(out)
    return dict(json.loads(RunFolder(out).record.read_text())["tallied"])


def trial(execute: Execute, base: Path, number: int) -> dict[str, Any]:
    """A run that is killed at this call, and what it comes to when it goes on."""
    out, draws = base / str(number) / "run", base / str(number) / "draws"
    out.parent.mkdir()
    finished, seen = in_a_child(lambda: killed(execute, out, draws, number))
    before, kept, began = len(drawn(draws).noise), counts_in(out), RunFolder(out).holds_run()
    _, tallied = in_a_child(lambda: gone_on(execute, out, draws))
    facts = {"finished": finished, "before": before, "kept": kept, "began": began, "tallied": tallied}
    return {"number": number, "seen": seen, **drawn(draws)._asdict(), "used": counts_in(out), **facts}


def points(seen: Sequence[str], names: Sequence[str]) -> list[int]:
    """Calls by number: just before and just after a file of one of these names is first in place, or all."""
    if names == ["all"]:
        return list(range(1, len(seen) + 1))
    if names == ["start"]:
        return list(range(1, points(seen, ["round-00000000.json"])[-1] + 1))
    first = [next(k for k, call in enumerate(seen, 1) if is_rename(call, name)) for name in names]
    return [number for place in first for number in (place, place + 1)]


def is_rename(call: str, name: str) -> bool:
    return call.startswith("os.rename") and call.endswith(name)


def main() -> None:
    kind, base, *names = sys.argv[1:]
    torch.set_num_threads(1)
    execute = {"alone": alone, "shares": over_flower, "own": own_data}[kind](Path(base))
    execute(Path(base) / "imports" / "run")  # so that not every child imports what this needs
    whole = trial(execute, Path(base), 0)
    print(json.dumps(whole), flush=True)
    for number in points(whole["seen"], names):
        print(json.dumps(trial(execute, Path(base), number)), flush=True)


if __name__ == "__main__":
    main()
