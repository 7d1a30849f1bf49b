"""Seconds and bytes per round over a network on this machine: ours, Flower's own way, and an earlier checkout of ours.

python benchmarks/flower.py [--clients 1 3] [--rounds 6] [--repeats 3] [--before CHECKOUT] [--out bench-flower]

All take turns, so that they share what the machine does meanwhile; the figure is the median round but the first. Ours runs
with TLS and node keys. Flower's own is the app in benchmarks/quickstart on superlink and supernodes, without TLS.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from counterpoise.flower.children import program, start, stop
from counterpoise.system.toml import write_toml

APP = Path(__file__).parent / "quickstart"
BIN = Path(sys.executable).parent
Seconds = list[float]


def setting(clients: int, rounds: int) -> str:
    """In keys that every version knows."""
    tables = {
        "rounds": rounds,
        "method": "fedavg",
        "data": {"name": "digits", "imbalance": 20.0},
        "partition": {"name": "dirichlet", "clients": clients, "alpha": 0.5},
        "engine": {"name": "loop", "device": "cpu", "processes": 1},
    }
    return write_toml(tables)


def ours(words: list[str], checkout: Path | None) -> Callable[[int, int, Path], Seconds]:
    """A command of ours, of this version or of another checkout."""

    def measure(clients: int, rounds: int, out: Path) -> Seconds:
        out.mkdir(parents=True)
        (out / "experiment.toml").write_text(setting(clients, rounds))
        env = os.environ | ({} if checkout is None else {"PYTHONPATH": str(checkout)})
        command = [*program(), *words, str(out / "experiment.toml"), "--out", str(out / "run")]
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        rows = (out / "run" / "timing.jsonl").read_text().splitlines()
        return [float(json.loads(row)["seconds"]) for row in rows][1:]

    return measure


def flowers_own(clients: int, rounds: int, out: Path) -> Seconds:
    """Superlink, supernodes and `flwr run`, as in Flower's guide."""
    out.mkdir(parents=True)
    home, times, ports = out / "home", out / "times", [_free_port() for _ in range(1 + clients)]
    home.mkdir()
    address = f"127.0.0.1:{ports[0]}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{address}"\ninsecure = true\n'
    )
    env = {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }
    link = [
        "--insecure",
        "--host",
        "127.0.0.1",
        "--port",
        str(ports[0]),
        "--disable-runtime-dependency-installation",
    ]
    children = [start("superlink", [str(BIN / "flower-superlink"), *link], out / "superlink.log", env)]
    try:
        _await_port(ports[0])
        for number, port in enumerate(ports[1:]):
            words = ["--insecure", "--superlink", address, "--port", str(port)]
            words += ["--node-config", f"partition-id={number} num-partitions={clients}"]
            children.append(
                start("node", [str(BIN / "flower-supernode"), *words], out / f"{number}.log", env)
            )
        config = f'rounds={rounds} clients={clients} times="{times}"'
        command = [str(BIN / "flwr"), "run", str(APP), "here", "--run-config", config]
        subprocess.run(command, env=os.environ | env, check=True, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120 + 60 * rounds
        while not times.exists() or len(times.read_text().splitlines()) < rounds + 1:
            if time.monotonic() > deadline:
                raise SystemExit(f"Flower's own app did not end; its logs: {out}")
            time.sleep(0.2)
    finally:
        stop(children)
    marks = [float(line) for line in times.read_text().splitlines()]
    return [after - before for before, after in itertools.pairwise(marks[1:])]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--before", type=Path, help="an earlier checkout, whose `flower up` takes its turn too"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-flower"))
    given = parser.parse_args()
    ways: dict[str, Callable[[int, int, Path], Seconds]] = {
        "one process": ours(["run"], None),
        "counterpoise flower up": ours(["flower", "up"], None),
        "Flower's own app": flowers_own,
    }
    if given.before is not None:
        ways["counterpoise flower up, before"] = ours(["flower", "up"], given.before.absolute())
    print("| clients | " + " | ".join(f"{way}, s" for way in ways) + " |")
    print("| --- " * (len(ways) + 1) + "|", flush=True)
    for clients in given.clients:
        found: dict[str, Seconds] = {way: [] for way in ways}
        for repeat in range(given.repeats):
            for way, measure in ways.items():
                place = given.out / f"{time.time_ns()}-{clients}-{repeat}"
                found[way] += measure(clients, given.rounds, place)
        cells = [f"{statistics.median(seconds):.3g}" for seconds in found.values()]
        print(f"| {clients} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
