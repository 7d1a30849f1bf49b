"""What a part may see in a step: the batch, the outputs, how far the round is; and a rate of the client's own."""

from __future__ import annotations

import pytest
import torch
from federations import LOOP, distance, run_rounds, simulate, small_model, unequal_federation

from counterpoise.client.differentiate import Differentiate, direct_gradient, functional_gradient
from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import loss_of
from counterpoise.core.local import Local
from counterpoise.core.method import Method, build_method, compose
from counterpoise.core.part import Batch, ClientData, Gradient, Part, Stats, Step, Visit
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree, add, tmap
from counterpoise.engines.choose import EngineSettings
from counterpoise.models.init import initialise

ENGINES = {
    "loop": LOOP,
    "stacked": EngineSettings("stacked", "cpu", chunk=2),
    "processes": EngineSettings("loop", "cpu", processes=2),
}
LOCAL = Local(lr=0.1, batch_size=12, epochs=2)


def watching() -> Part:
    """Adds up, over a client's steps, all that a step shows."""

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"sum": 0 * stats.lr}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        right = (step.outputs.logits.argmax(-1) == step.batch.y) * step.batch.mask
        seen = right.sum() + 100 * step.batch.passed + 1e4 * step.stats.epochs + 1e6 * step.stats.batch_size
        return grads, {"sum": slot["sum"] + seen}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"sum": slot["sum"], "steps": stats.steps}, memory

    def update(delta: Params, slot: Tree, exchange: object) -> tuple[Params, Tree]:
        return delta, {"seen": exchange.upload["sum"], "steps": exchange.upload["steps"]}  # type: ignore[attr-defined]

    return Part("watching", start=start, adjust=adjust, finish=finish, update=update)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("model", ["mlp", "convolutions"])
def test_every_engine_shows_the_same(name: str, model: str) -> None:
    shape = (5,) if model == "mlp" else (1, 8, 8)
    made = small_model(shape=shape) if model == "mlp" else small_model("lenet5", shape)

    def seen(engine: EngineSettings) -> Tree:
        sim = simulate(
            compose(build_method("fedavg"), watching()),
            federation=unequal_federation(shape), model=made, local=LOCAL, cohort=None, engine=engine,
        )  # fmt: skip
        try:
            return run_rounds(sim, rounds=1).slots["watching"]
        finally:
            sim.close()

    here, there = seen(LOOP), seen(ENGINES[name])
    assert torch.equal(here["seen"].round(), there["seen"].round())
    steps = here["steps"]
    # Of S steps the shares that have passed are 0, 1 / S, ..., (S - 1) / S: they add up to (S - 1) / 2.
    rest = here["seen"] - 50 * (steps - 1) - 2e4 * steps - 12e6 * steps
    samples = torch.tensor([20, 50, 13, 30, 7, 1]) * 2
    assert bool(((rest > -1e-6) & (rest <= samples + 1e-6)).all())


def test_a_part_may_scale_the_rate_of_its_client() -> None:
    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        return data._replace(rate=0.5), visit.memory

    halved = simulate(
        compose(build_method("fedavg"), Part("half", prepare=prepare)), local=Local(lr=0.2, batch_size=12)
    )
    plain = simulate("fedavg", local=Local(lr=0.1, batch_size=12))
    assert distance(run_rounds(halved).params, run_rounds(plain).params) < 1e-15


@pytest.mark.parametrize("differentiate", [functional_gradient, direct_gradient])
@pytest.mark.parametrize("name", ["chain", "batch norm"])
def test_outputs_under_other_parameters_are_those_of_that_model_and_leave_no_trace(
    name: str, differentiate: Differentiate
) -> None:
    module = small_model() if name == "chain" else small_model("mlp", hidden=[6], norm="batch")
    initialise(module.double(), generator(0, "init"))
    model = FunctionalModel(module)
    x = torch.randn(7, 5, generator=generator(0, "x"), dtype=torch.float64)
    batch = Batch(x, torch.arange(7) % 4, torch.ones(7, dtype=torch.float64))
    params, buffers = model.params(), model.buffers()
    other = tmap(lambda p: p + 0.1, params)
    plain = differentiate(model, params, buffers, x, loss_of(Method(), batch, {}))
    wanted, _ = model.apply(other, buffers, x, train=True)
    found = plain.outputs.at(other)
    assert (
        distance({"l": found.logits, "f": found.features}, {"l": wanted.logits, "f": wanted.features}) < 1e-12
    )
    assert not found.logits.requires_grad
    again = differentiate(model, params, buffers, x, loss_of(Method(), batch, {}))
    assert distance(plain.buffers, again.buffers) == 0
    assert distance(add(plain.grads, again.grads, -1.0), tmap(torch.zeros_like, plain.grads)) == 0


def test_a_gradient_source_cannot_see_the_outputs_that_it_makes() -> None:
    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        with pytest.raises(RuntimeError, match="a gradient source makes the outputs"):
            _ = step.outputs
        return step.gradient_at(step.params), slot

    sim = simulate(compose(build_method("fedavg"), Part("curious", gradient=gradient)))
    assert distance(run_rounds(sim).params, run_rounds(simulate("fedavg")).params) < 1e-12
