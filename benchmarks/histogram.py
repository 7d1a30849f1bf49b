"""Bytes and seconds of a label histogram over clients, in the clear, under masks and encrypted, beside FedWCM's Table 6.

    python benchmarks/histogram.py [--clients 10,100] [--classes 10,100,1000] [--repeat 3]

All parties run in this process, message for message. `a client`: the median client, so not the key holder of `bfv`: its bytes
and its own milliseconds. `all`: everything that passes the server, and seconds of all parties one after the
other, the least of the repetitions. The paper (appendix C) gives 88.5 kB a ciphertext, 0.0017 s a client and 13.05 MB for
100 clients with 10 classes.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Mapping

import numpy as np

from counterpoise.privacy.modes import client_side, server_side
from counterpoise.privacy.protocol import SumClient, SumCost, add_up
from counterpoise.privacy.settings import PrivacySettings

MODES = ("plain", "masks", "bfv")
PAPER = {10: 88_556, 20: 88_554, 50: 88_631, 100: 88_548}  # bytes of a ciphertext by classes, Table 6


class Clients:
    """Clients whose bytes and seconds are counted one by one."""

    def __init__(self, settings: PrivacySettings, counts: Mapping[str, np.ndarray]) -> None:
        self.sides: dict[str, SumClient] = {
            name: client_side(settings, name=name, run="0" * 64, values=lambda what, own=own: own)
            for name, own in counts.items()
        }
        self.up, self.down, self.seconds = (dict.fromkeys(counts, 0.0) for _ in range(3))

    def exchange(self, asks: Mapping[str, bytes]) -> dict[str, bytes]:
        answers = {}
        for name, ask in asks.items():
            began = time.perf_counter()
            answers[name] = self.sides[name].answer(ask)
            self.seconds[name] += time.perf_counter() - began
            self.down[name] += len(ask)
            self.up[name] += len(answers[name])
        return answers

    def usual(self, of: Mapping[str, float]) -> float:
        """The median client, which holds no key for others."""
        return float(np.median(list(of.values())))


def measure(mode: str, clients: int, classes: int) -> tuple[Clients, SumCost]:
    settings = PrivacySettings.read({"histogram": mode})
    rng = np.random.default_rng(0)
    counts = {str(k): rng.integers(0, 500, classes) for k in range(clients)}
    parties = Clients(settings, counts)
    found = add_up(server_side(settings), list(counts), classes, parties.exchange, "0" * 64, "class counts")
    assert np.array_equal(found.values, sum(counts.values()))
    return parties, found.cost


def row(mode: str, clients: int, classes: int, repeat: int) -> str:
    parties, traffic = min(
        (measure(mode, clients, classes) for _ in range(repeat)), key=lambda one: one[1].seconds
    )
    up, down, spent = (parties.usual(of) for of in (parties.up, parties.down, parties.seconds))
    total = (traffic.bytes_up + traffic.bytes_down) / 1e6
    cells = [f"{clients}", f"{classes}", mode, f"{up:,.0f}", f"{down:,.0f}", f"{1000 * spent:.2f}"]
    cells += [f"{traffic.messages:,}", f"{total:.3f}", f"{traffic.seconds:.3f}"]
    return f"| {' | '.join(cells)} |"


def encryption(repeat: int) -> str:
    """What of a client's time in `bfv` is encryption, as the paper measures it; the rest is reading the public key."""
    import tenseal

    from counterpoise.privacy.bfv import DEGREE, MODULUS

    context = tenseal.context(tenseal.SCHEME_TYPE.BFV, poly_modulus_degree=DEGREE, plain_modulus=MODULUS)
    written, spent = context.serialize(save_secret_key=False), []
    for _ in range(10 * repeat):
        began = time.perf_counter()
        public = tenseal.context_from(written)
        read = time.perf_counter()
        tenseal.bfv_vector(public, [1] * 24)
        spent.append((read - began, time.perf_counter() - read))
    key, encrypted = (1000 * float(np.median(column)) for column in zip(*spent, strict=True))
    return f"bfv: {encrypted:.2f} ms to encrypt a vector (the paper: 1.7 ms), {key:.2f} ms to read the public key"


def paper_row(classes: int) -> str:
    total = "13.05" if classes == 10 else ""
    spent = "1.7" if classes == 10 else ""
    return f"| 100 | {classes} | FedWCM, Table 6 | {PAPER[classes]:,} | | {spent} | | {total} | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="10,100")
    parser.add_argument("--classes", default="10,100,1000")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    logging.getLogger("counterpoise").setLevel(logging.ERROR)
    print(
        "| clients | classes | mode | a client sends, bytes | gets, bytes | its ms | messages | all, MB | all, s |"
    )
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for clients in map(int, given.clients.split(",")):
        for classes in map(int, given.classes.split(",")):
            for mode in MODES:
                print(row(mode, clients, classes, given.repeat), flush=True)
            if clients == 100 and classes in PAPER:
                print(paper_row(classes))
    print(f"\n{encryption(given.repeat)}")


if __name__ == "__main__":
    main()
