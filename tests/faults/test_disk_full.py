"""A disk that is full or fails while a checkpoint is written loses nothing that was held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import Finished, assert_refused, result, write_tiny

HERE = Path(__file__).parent
ALONE = ("unshare", "--map-root-user", "--mount")  # in a space of file systems of its own
WORDS = {"full": "No space left on device", "dead": "Input/output error", "hiccup": "Input/output error"}


def can_mount(folder: Path) -> bool:
    try:
        return not subprocess.run(
            [*ALONE, "mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    except OSError:
        return False


def disturbed_runs(fault: str, moments: int, folder: Path) -> list[dict[str, Any]]:
    """A whole run, and those with the fault at so many moments."""
    if fault == "full" and not can_mount(folder):
        pytest.skip("this system lets no user mount a file system: there is no disk to fill")
    experiment = write_tiny(folder, "method=scaffold", "rounds=4")
    known = [HERE.parent, HERE.parent / "run", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    command = [sys.executable, HERE / "disk_at_call.py", experiment, folder / "disk", fault, str(moments)]
    said = subprocess.run(
        [*(ALONE if fault == "full" else ()), *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, known))},
        stdout=subprocess.PIPE, text=True, timeout=600, check=True,
    ).stdout  # fmt: skip
    return [json.loads(line) for line in said.splitlines()]


def check_disk(fault: str, moments: int, folder: Path) -> list[str]:
    """Where the fault came, with all that must hold after it."""
    whole, *runs = disturbed_runs(fault, moments, folder)
    for one in runs:
        ended, found, after = Finished(**one["ended"]), one["found"], one["after"]
        assert_refused(ended, 4, WORDS[fault], "continue with `counterpoise resume")
        assert found["damaged"] == [], one
        # The newest checkpoint is of the last round that was logged, or of the one before.
        assert found["checkpoint"] >= max(found["rows"] - 1, 1), one
        assert found["left"] == [] or fault == "dead", one
        assert (after["code"], after["left"]) == (0, []), one
        assert result(after["summary"]) == result(whole["summary"]), one
    assert len(runs) == moments
    return [one["moment"] for one in runs]


@pytest.mark.parametrize("fault", ["full", "dead"])
def test_a_failing_disk_leaves_the_last_checkpoint_and_the_run_goes_on(fault: str, tmp_path: Path) -> None:
    check_disk(fault, 3, tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize("fault", WORDS)
def test_a_disk_that_fails_at_ten_moments_leaves_the_last_checkpoint_and_the_run_goes_on(
    fault: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("moments", check_disk(fault, 10, tmp_path))
