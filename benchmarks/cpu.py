"""Seconds of federated rounds on a CPU: a careful plain loop, our engines, and other frameworks where they are installed.

    python benchmarks/cpu.py [--workloads W1,W2] [--entries fedavg,moon,fedavg+dp '{"fedsat": {"workers": 7}}']
        [--baseline raw] [--repeat 3] [--rounds N] [--peers FOLDER]

W1: 100 clients of 204 x 784, MLP 784-200-100-10, 10 clients a round, 5 epochs, batch 50, SGD 0.1, 50 rounds.
W2: 20 clients of 500 x 3x32x32, three 3x3 convolutions 64-64-128, 4 clients a round, 1 epoch, batch 50, SGD 0.01, 3 rounds.
Data is drawn; nothing is evaluated. Every entry runs in its own process, interleaved; seconds are those of the rounds,
on the clock and of all processors; ratios are against the baseline in the same repetition, peak memory is the proportional
set size of all its processes.

FOLDER has scripts that run other frameworks on the same work, `peer_NAME.py`, and virtual environments `venv_NAME`, or
elsewhere with PEERS_VENVS as prefix; each prints a line `RESULT {"seconds": ..., "startup": ...}`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
OURS = ("raw", "raw 2 processes", "fedavg", "scaffold", "fedcm")
PEERS = {"flower": "flwr", "pfl": "pfl", "fedlab": "fedlab", "fluke": "fluke", "fedjax": "fedjax"}


class Measured(NamedTuple):
    seconds: float
    startup: float
    processor: float  # seconds of all processes, which other work on the machine changes little; 0: not known


def command(
    entry: str, workload: str, rounds: int | None, peers: Path | None
) -> tuple[list[str], dict[str, str]]:
    """The words that run an entry, and what is added to the environment."""
    one = {
        "OMP_NUM_THREADS": "1",
        "PEERS_THREADS": "1",
        "BENCH_BEGAN": str(time.time()),
        "PEERS_T0": str(time.time()),
    }
    if entry in PEERS and peers is not None:
        words = [str(interpreter(entry, peers)), str(peers / f"peer_{entry}.py"), workload]
        free = {} if entry in ("flower", "fedjax") else one  # these two decide about threads themselves
        return words, {**free, "PYTHONPATH": str(peers)} | ({"PEERS_ROUNDS": str(rounds)} if rounds else {})
    return [
        sys.executable,
        str(HERE / "workloads.py"),
        workload,
        entry,
        *([str(rounds)] if rounds else []),
    ], one


def interpreter(entry: str, peers: Path) -> Path:
    prefix = os.environ.get("PEERS_VENVS", str(peers / "venv_"))
    return Path(f"{prefix}{PEERS[entry]}") / "bin" / "python"


def run_once(entry: str, workload: str, rounds: int | None, peers: Path | None) -> Measured | None:
    """One process, left alone; None where it failed."""
    words, more = command(entry, workload, rounds, peers)
    done = subprocess.run(words, env=os.environ | more, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        return None
    found = json.loads(lines[-1].removeprefix("RESULT "))
    return Measured(found["seconds"], found["startup"], found.get("processor", 0.0))


def peak_memory(entry: str, workload: str, peers: Path | None) -> float:
    """MiB over a round, in a run of its own: to look costs time."""
    words, more = command(entry, workload, 1, peers)
    process = subprocess.Popen(
        words, env=os.environ | more, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(proportional_size(pid) for pid in tree_of(process.pid)))
        time.sleep(0.1)
    return peak


def tree_of(pid: int) -> Iterator[int]:
    """A process and all that it started."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                yield from tree_of(int(child))
        except OSError:
            continue  # it has ended


def proportional_size(pid: int) -> float:
    """MiB; memory that processes share counts once."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(row.split()[1]) for row in rows if row.startswith("Pss:")) / 1024


def measure(
    workload: str, entries: Sequence[str], repeat: int, rounds: int | None, peers: Path | None
) -> None:
    """Prints a line for each entry; the first is the baseline."""
    baseline = entries[0]
    peaks = {entry: peak_memory(entry, workload, peers) for entry in entries}
    found: dict[str, list[Measured | None]] = {entry: [] for entry in entries}
    for _ in range(repeat):
        for entry in entries:
            found[entry].append(run_once(entry, workload, rounds, peers))
            print(".", end="", file=sys.stderr, flush=True)
    print(
        f"\n{workload}: medians of {repeat} on {os.cpu_count()} cores{f', {rounds} rounds' if rounds else ''}"
    )
    for entry, several in found.items():
        pairs = [(mine, base) for mine, base in zip(several, found[baseline], strict=True) if mine and base]
        if not pairs:
            print(f"  {entry:<16} failed")
            continue
        ratio = statistics.median(mine.seconds / base.seconds for mine, base in pairs)
        work = statistics.median(mine.processor / (base.processor or 1.0) for mine, base in pairs)
        seconds, startup, processor = (
            statistics.median(column) for column in zip(*(mine for mine, _ in pairs), strict=True)
        )
        print(
            f"  {entry:<16} {seconds:8.2f} s   {ratio:.2f} of {baseline}   processors {processor:8.2f} s   {work:.2f}   start-up {startup:5.1f} s   peak {peaks[entry]:5.0f} MiB",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--workloads", default="W1,W2")
    options.add_argument(
        "--entries", nargs="+", default=OURS, help="names with commas between them, or methods in JSON"
    )
    options.add_argument("--baseline", default="raw")
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--rounds", type=int)
    options.add_argument("--peers", type=Path)
    chosen = options.parse_args()
    installed = [peer for peer in PEERS if chosen.peers and interpreter(peer, chosen.peers).exists()]
    missing = [peer for peer in PEERS if peer not in installed]
    if missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
    asked = [e for given in chosen.entries for e in ([given] if given[0] in "[{" else given.split(","))]
    entries = list(dict.fromkeys([chosen.baseline, *asked, *installed]))
    for name in chosen.workloads.split(","):
        measure(name, entries, chosen.repeat, chosen.rounds, chosen.peers)


if __name__ == "__main__":
    main()
