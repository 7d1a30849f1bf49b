"""Workers that drop out, and workers that lie: FedSat's counts over Flower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import torch
from federations import HELD_OUT, Altered, ask_clients, distance, simulate, unequal_federation
from flwr.app import Message
from local_grid import FIRST_NODE, over_flower

from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Measurement, Pair
from counterpoise.core.tree import Tree, tmap
from counterpoise.engines.workplace import Engine
from counterpoise.flower.records import pack_tree, unpack_tree
from counterpoise.server.state import ServerState

SPEC: MethodSpec = ["fedavg", {"prioritised_weighting": {"workers": 6}}]  # everybody judges every model
COHORT, WORKER = (1, 3), 4  # the worker trains no model itself


@dataclass
class Deaf(Altered):
    """An engine of which one client counts nothing."""

    def measure(self, pairs: Sequence[Pair], models: Tree, buffers: Tree, measurement: Measurement) -> Tree:
        found = self.engine.measure(pairs, models, buffers, measurement)
        heard = torch.tensor([pair.client != WORKER for pair in pairs])
        return tmap(lambda leaf: leaf * heard.view(-1, *[1] * (leaf.dim() - 1)), found)


def _without_worker() -> ServerState:
    """The round in one process, with nothing from the worker."""
    alone = simulate(SPEC)
    deaf = replace(alone, engine=cast(Engine, Deaf(alone.engine, lambda replies: replies)))
    return ask_clients(deaf, deaf.open(), COHORT)[0]


def _round(tmp_path: Path, lie: Callable[[Tree], Tree] | None) -> ServerState:
    """The round over Flower; the worker's counts are changed on their way."""
    sim, grid = over_flower(SPEC, tmp_path)
    start = sim.open()

    def alter(replies: list[Message]) -> list[Message]:
        for reply in replies:
            if lie and "sums" in reply.content and reply.metadata.src_node_id == FIRST_NODE - WORKER:
                reply.content["sums"] = pack_tree(lie(unpack_tree(reply.content["sums"])))
        return replies

    grid.alter = alter
    return ask_clients(sim, start, COHORT)[0]


def test_a_worker_that_drops_out_takes_only_its_own_counts_along(tmp_path: Path) -> None:
    sim, grid = over_flower(SPEC, tmp_path)
    start = sim.open()
    whole, _ = ask_clients(sim, start, COHORT)
    del grid.seats[FIRST_NODE - WORKER]
    found, outcome = ask_clients(sim, start, COHORT)
    assert distance(found.to_tree(), _without_worker().to_tree()) == 0
    assert distance(found.slots, whole.slots) > 0
    assert outcome.replied == len(COHORT)


def _confused(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tree], Tree]:
    """Counts [K, C, C] changed, the rest as it was."""
    return lambda sums: sums | {"confusion": change(sums["confusion"].clone())}


def _first(counts: torch.Tensor, value: int) -> torch.Tensor:
    counts[0, 0, 0] += value
    return counts


def _below_zero(counts: torch.Tensor) -> torch.Tensor:
    """As many samples as before, of the same classes."""
    counts[:, 0, 0] += 9
    counts[:, 0, 1] -= 9
    return counts


def _overflowing(counts: torch.Tensor) -> torch.Tensor:
    """Four times 2**62 is 0 in 64 bits."""
    counts[:, 0] += 2**62
    return counts


LIES: dict[str, Callable[[Tree], Tree]] = {
    "a sample more": _confused(lambda counts: _first(counts, 1)),
    "a million more": _confused(lambda counts: _first(counts, 10**6)),
    "nothing": lambda sums: tmap(torch.zeros_like, sums),
    "below zero": _confused(_below_zero),
    "overflow": _confused(_overflowing),
    "fractions": _confused(lambda counts: counts / 2),
    "other true classes for each model": _confused(
        lambda counts: torch.cat([counts[:1], counts[1:].roll(1, 1)])
    ),
    "not a number": lambda sums: sums | {"cross_entropies": sums["cross_entropies"] * torch.nan},
    "negative loss": lambda sums: sums | {"cross_entropies": sums["cross_entropies"] * torch.tensor([1, -1])},
    "more losses": lambda sums: sums | {"cross_entropies": sums["cross_entropies"] + 1},
    "fuller bins": lambda sums: sums | {"calibration": 2 * sums["calibration"]},
}


REFUSED_AS = {"fractions": "dtype", "not a number": "finite"}


@pytest.mark.parametrize("lie", LIES)
def test_counts_that_cannot_be_true_equal_no_answer(
    lie: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert distance(_round(tmp_path, LIES[lie]).to_tree(), _without_worker().to_tree()) == 0
    assert "client 4: what it measured is not used" in caplog.text
    assert f"({REFUSED_AS.get(lie, 'counts')})" in caplog.text  # which said that records were missing


def test_honest_counts_and_possible_inventions_are_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the worker sees its samples: that all answers are right, or wrong, cannot be refuted."""
    honest, alone = _round(tmp_path / "honest", None), simulate(SPEC)
    assert distance(honest.to_tree(), ask_clients(alone, alone.open(), COHORT)[0].to_tree()) == 0
    invented = _round(tmp_path / "invented", _confused(lambda counts: counts.roll(1, 2)))
    assert distance(honest.slots, invented.slots) > 0
    assert distance(invented.slots, _without_worker().slots) > 0
    assert "not used" not in caplog.text


@pytest.mark.parametrize("held_out", [HELD_OUT, 0])
def test_as_many_samples_count_as_a_worker_said_it_has(held_out: int, tmp_path: Path) -> None:
    federation = unequal_federation()
    federation = federation if held_out else replace(federation, held_out=())
    alone, (remote, _) = (
        simulate(SPEC, federation=federation),
        over_flower(SPEC, tmp_path, federation=federation),
    )
    found, expected = (ask_clients(sim, sim.open(), COHORT)[0] for sim in (remote, alone))
    assert distance(found.to_tree(), expected.to_tree()) == 0
