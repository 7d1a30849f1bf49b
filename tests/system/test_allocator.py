"""Freed memory stays with the process, so the next step gets it without a page fault."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource
import numpy as np
from counterpoise.system.allocator import keep_memory
{keep}
np.ones(8_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    np.ones(8_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: str) -> int:
    """Page faults of five arrays of 64 MB, one after another, when one has been there before."""
    program = FAULTS.format(keep=keep)
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


def test_kept_memory_is_used_again() -> None:
    assert faults("keep_memory()") < 0.1 * faults("")
