"""Resume a run: find an intact checkpoint, and logs that agree with it."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from counterpoise.core.tree import tmap
from counterpoise.errors import DataError
from counterpoise.run.store.checkpoint import Checkpoint
from counterpoise.run.store.describe import record_again
from counterpoise.run.store.facts import check_facts
from counterpoise.run.store.folder import ChangedLogError, parse_rows
from counterpoise.run.store.stored import Run
from counterpoise.server.state import ServerState


def restore(run: Run) -> tuple[ServerState, float]:
    """The state and seconds of the newest intact checkpoint that the logs agree with; without one the run starts again."""
    found = _newest(run)
    _go_back(run, found)
    if found is None:
        state = run.simulation.open()
        record_again(run)
        return state, 0.0
    place = partial(tmap, lambda leaf: leaf.to(run.simulation.work.device))
    memory = run.simulation.engine.memory
    memory.clear()
    for client, kept in found.memory.items():
        memory[client] = place(kept)
    state = ServerState.from_tree(place(found.server), found.round)
    return state, float(found.facts["seconds"])


def _go_back(run: Run, found: Checkpoint | None) -> None:
    """Remove what is newer than a checkpoint, or everything."""
    for message in run.store.damaged:
        consequence = f"going on from round {found.round}" if found else "starting again"
        logging.getLogger("counterpoise").warning("%s; %s", message, consequence)
    done = found.round if found else 0
    if done < run.experiment.rounds:
        run.folder.summary.unlink(missing_ok=True)  # the run is unfinished again
    run.folder.cut_logs(found.facts["logs"] if found else None)
    run.store.drop_after(done)


def _newest(run: Run) -> Checkpoint | None:
    """The newest intact checkpoint that the logs agree with.

    Missing rows are written again, from the start if need be. But a log that disagrees with every checkpoint is refused:
    starting again would lose rounds that restoring a copy of the log would save.
    """
    changed, before = None, None
    while (found := run.store.load(before)) is not None:
        check_facts(run.folder.path, found.facts, run.facts)
        try:
            run.folder.check_logs(found.facts["logs"])
            return found
        except DataError as error:
            changed, before = error if isinstance(error, ChangedLogError) else changed, found.round
            run.store.damaged.append(str(error))
    if changed is not None:
        raise DataError(f"{changed}, and it agrees with no older one; put it back, or start a new run")
    return None


def rows_before(run: Run, state: ServerState) -> list[dict[str, Any]]:
    """The rows of the rounds already done."""
    folder = run.folder
    return parse_rows(folder.read_log(folder.metrics), folder.metrics) if state.round else []
