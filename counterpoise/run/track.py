"""Scores to a tracker during a run; one that fails gives one warning and does not stop the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from counterpoise.core.rounds import counted
from counterpoise.errors import ConfigError
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.store.folder import RunFolder, read_rows
from counterpoise.run.trackers import TRACKERS, Tracker

EXTRAS = {"tensorboard": "track", "mlflow": "mlflow", "wandb": "wandb"}  # package -> extra that brings it


def check_tracker(to: str) -> None:
    """Refuse a tracker whose package is not installed, before anything runs."""
    if to in EXTRAS and find_spec(to) is None:
        raise ConfigError(f"track.to = {to!r} needs {to}: pip install 'counterpoise[{EXTRAS[to]}]'")


@contextmanager
def tracked(experiment: Experiment, folder: RunFolder) -> Iterator[Callable[[Mapping[str, Any], int], None]]:
    """Sends the scores of all rounds so far and of each further round, until the tracker fails."""
    if experiment.track.to == "none":
        yield lambda row, rounds: None
        return
    tracking = Tracking(experiment.track.to)
    with tracking.guarded():
        tracking.tracker = TRACKERS[tracking.to](experiment, folder)
    for row in read_rows(folder.metrics):
        tracking.send(row)
    finished = False
    try:
        yield tracking.send
        finished = True
    finally:
        with tracking.guarded():
            if tracking.tracker is not None:
                tracking.tracker.close(finished)


class Tracking:
    """Sends rows to a tracker, and drops it at its first failure."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.tracker: Tracker | None = None

    def send(self, row: Mapping[str, Any], rounds: int = 0) -> None:
        with self.guarded():
            if self.tracker is not None and "accuracy" in row:
                self.tracker.write(counted(row["round"]), scores_of(row))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # no failure of a tracker may stop the run
            self.tracker = None
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            logging.getLogger("counterpoise").warning(
                "%s failed (%s); the run goes on without it, and `counterpoise resume` sends the scores later",
                self.to,
                reason,
            )


def scores_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row; those of a nested table as ``validation/accuracy``."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping) and name != "diagnostics":
            found |= {f"{name}/{inner}": number for inner, number in scores_of(value).items()}
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "round":
            found[name] = float(value)
    return found
