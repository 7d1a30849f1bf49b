"""The feature-balanced loss: hand-worked numbers, its schedules, its gradient, and what it equals at its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import ask_clients, distance, run_rounds, simulate, small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_hooks import built
from torch import Tensor, nn

from counterpoise.client.differentiate import direct_gradient, functional_gradient
from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import loss_of
from counterpoise.core.local import Local
from counterpoise.core.method import Method
from counterpoise.core.part import Batch, Census, Outputs, Part, Stats
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree
from counterpoise.engines import loop
from counterpoise.errors import ConfigError
from counterpoise.models.init import initialise
from counterpoise.models.model import MODELS
from counterpoise.parts.feature_balance import epochs_done, rarity
from counterpoise.run.first_model import Start, adapt_model

COUNTS = [100, 10, 1, 0]


def stats_of(counts: list[int], epochs: int = 1, steps: int = 1, dtype: torch.dtype = torch.float64) -> Stats:
    one = torch.ones((), dtype=dtype)
    return Stats(torch.tensor(counts), steps * one, one, 0 * one, {}, torch.tensor(counts), epochs * one, one)


def slot_of(part: Part, stats: Stats, rounds: int = 10, round: int = 0) -> Tree:
    known = part.init({}, Census(torch.ones(2), 4, rounds), {}) if part.init else {}
    shared = part.send(known, round) if part.send else {}
    assert part.start is not None
    return part.start({}, shared, {}, stats)


def values(
    part: Part, slot: Tree, logits: Tensor, features: Tensor, y: Tensor, passed: float = 0.0
) -> Tensor:
    assert part.loss is not None
    batch = Batch(logits, y, torch.ones(len(y), dtype=logits.dtype), torch.tensor(passed, dtype=logits.dtype))
    return part.loss(Outputs(logits, features), batch, slot)


def test_rarity_is_the_log_of_the_largest_class_over_each_with_absent_ones_as_one_sample() -> None:
    found = rarity(torch.tensor(COUNTS).double())
    assert found.tolist() == pytest.approx([0, 0.5, 1, 1], rel=1e-12)
    summed = rarity(torch.tensor(COUNTS).double(), "sum")
    assert summed.tolist() == pytest.approx([0, 0.2, 0.4, 0.4], rel=1e-12)


@pytest.mark.parametrize("normalise", ["max", "sum"])
@pytest.mark.parametrize("counts", [[7, 7, 7], [1, 0, 0], [0, 0, 0]])
def test_equal_counts_have_no_rarity(counts: list[int], normalise: str) -> None:
    assert rarity(torch.tensor(counts).double(), normalise).tolist() == [0, 0, 0]  # type: ignore[arg-type]


def test_a_single_class_shifts_all_others_alike() -> None:
    assert rarity(torch.tensor([0, 9, 0]).double()).tolist() == pytest.approx([1, 0, 1])


def test_the_loss_by_hand() -> None:
    # |f| = 5, all of one epoch: z - 2 lam / 5 with lam = 0, 0.5, 1, 1
    logits = torch.tensor([[0.3, -0.2, 0.1, 0.0]], dtype=torch.float64)
    part = built("local_balancer", strength=2.0)
    found = values(
        part, slot_of(part, stats_of(COUNTS)), logits, torch.tensor([[3.0, 4.0]]), torch.tensor([1])
    )
    balanced = [0.3, -0.2 - 0.2, 0.1 - 0.4, -0.4]
    expected = math.log(sum(math.exp(z) for z in balanced)) - balanced[1]
    assert float(found) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("each", "epochs"), [(1, 10), (7, 10), (13, 3), (1, 1), (391, 10), (3, 49)])
def test_epochs_are_counted_exactly_at_every_step(each: int, epochs: int, dtype: torch.dtype) -> None:
    steps = each * epochs
    at_each_step = Batch(*[torch.zeros(0)] * 3, passed=(torch.arange(steps) / steps).to(dtype))
    found = epochs_done(at_each_step, torch.tensor(steps, dtype=dtype), torch.tensor(epochs, dtype=dtype))
    assert found.tolist() == [step // each for step in range(steps)]


@pytest.mark.parametrize(
    ("schedule", "share"),
    [("local", lambda k: k / 5), ("global", lambda k: 3 / 20), ("released", lambda k: (k - 1) / 20)],
)
def test_the_schedules_in_round_three_of_twenty_with_five_epochs(schedule: str, share: object) -> None:
    part = built("local_balancer", strength=1.0, schedule=schedule)
    slot = slot_of(part, stats_of([8, 1], epochs=5, steps=10), rounds=20, round=2)
    logits, features = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    for step in range(10):
        found = values(part, slot, logits, features, torch.tensor([1]), step / 10)
        shift = share(step // 2 + 1) ** 2  # type: ignore[operator]
        assert float(found) == pytest.approx(math.log1p(math.exp(shift)), rel=1e-9), step


def test_the_feature_balanced_loss_is_the_local_balancer_over_rounds_with_strength_sixty() -> None:
    origin, ours = built("feature_balanced"), built("local_balancer", strength=60.0, schedule="global")
    logits = torch.randn(5, 4, generator=generator(0, "z"), dtype=torch.float64)
    features = torch.randn(5, 3, generator=generator(0, "f"), dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 3, 0])
    found = [values(p, slot_of(p, stats_of(COUNTS), round=4), logits, features, y) for p in (origin, ours)]
    assert torch.equal(*found)
    assert not torch.allclose(found[0], F.cross_entropy(logits, y, reduction="none"))


@pytest.mark.parametrize("name", ["local_balancer", "feature_balanced"])
def test_without_strength_it_is_cross_entropy_bit_for_bit(name: str) -> None:
    part = built(name, strength=0.0)
    logits = torch.randn(5, 4, generator=generator(0, "z"))
    features, y = torch.randn(5, 3, generator=generator(0, "f")), torch.tensor([0, 1, 2, 3, 0])
    found = values(part, slot_of(part, stats_of(COUNTS, dtype=torch.float32)), logits, features, y)
    assert torch.equal(found, F.cross_entropy(logits, y, reduction="none"))


def test_equal_classes_are_cross_entropy_bit_for_bit() -> None:
    part = built("local_balancer", strength=60.0)
    logits = torch.randn(5, 3, generator=generator(0, "z"))
    features, y = torch.randn(5, 3, generator=generator(0, "f")), torch.tensor([0, 1, 2, 2, 0])
    found = values(part, slot_of(part, stats_of([4, 4, 4], dtype=torch.float32)), logits, features, y)
    assert torch.equal(found, F.cross_entropy(logits, y, reduction="none"))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.floats(0.1, 60), st.lists(st.integers(0, 500), min_size=4, max_size=4))
def test_the_gradient_is_that_of_finite_differences_also_through_the_norm(
    seed: int, strength: float, counts: list[int]
) -> None:
    part, stream = built("local_balancer", strength=strength), torch.Generator().manual_seed(seed)
    slot, y = slot_of(part, stats_of(counts)), torch.tensor([0, 2, 3])
    logits = torch.randn(3, 4, generator=stream, dtype=torch.float64)
    features = torch.randn(3, 5, generator=stream, dtype=torch.float64) + 2

    def total(f: Tensor) -> Tensor:
        return values(part, slot, logits, f, y).sum()

    assert torch.autograd.gradcheck(total, (features.requires_grad_(),), eps=1e-6, atol=1e-5)


def test_features_of_zero_have_a_finite_gradient() -> None:
    part = built("local_balancer")
    features = torch.zeros(2, 3, requires_grad=True)
    slot = slot_of(part, stats_of(COUNTS, dtype=torch.float32))
    values(part, slot, torch.zeros(2, 4), features, torch.tensor([0, 2])).sum().backward()
    assert features.grad is not None
    assert bool(features.grad.isfinite().all())


def _model() -> tuple[FunctionalModel, Tensor, Tensor]:
    module = small_model(
        hidden=[6], activation="tanh"
    )  # a sample whose features are all 0 would drown the others
    initialise(module, generator(0, "init"))
    x = torch.randn(6, 5, generator=generator(0, "x"), dtype=torch.float64)
    return FunctionalModel(module.double()), x, torch.tensor([0, 1, 2, 3, 0, 1])


def test_a_chain_of_linear_layers_keeps_its_quick_way_and_both_ways_agree_with_finite_differences() -> None:
    model, x, y = _model()
    part = replace(built("local_balancer", strength=20.0), name="balancer")
    slots = {"balancer": slot_of(part, stats_of(COUNTS))}
    loss = loss_of(Method((part,)), Batch(x, y, torch.ones(6, dtype=torch.float64)), slots)
    assert model.chain is not None
    params = model.params()
    quick = direct_gradient(model, params, {}, x, loss).grads
    assert distance(quick, functional_gradient(model, params, {}, x, loss).grads) < 1e-13

    def value(changed: Params) -> float:
        return float(loss.value(model.apply(changed, {}, x, train=True)[0]))

    for name, p in params.items():
        step = torch.zeros_like(p)
        step.view(-1)[p.numel() // 2] = 1e-6
        slope = (value(params | {name: p + step}) - value(params | {name: p - step})) / 2e-6
        assert float(quick[name].view(-1)[p.numel() // 2]) == pytest.approx(slope, abs=1e-7), name


def test_training_by_the_loop_descends_along_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    descents = []
    original = loop._descend
    monkeypatch.setattr(loop, "_descend", lambda *given: descents.append(1) or original(*given))
    sim = simulate("fedbal", rounds=1)
    state = sim.open()
    descents.clear()  # a made-up client was tried
    run_rounds(sim, state)
    assert len(descents) == 3


def test_a_run_of_three_epochs_of_one_batch_by_hand() -> None:
    local = Local(lr=0.1, batch_size=64, epochs=3)
    sim = simulate(["fedavg", {"local_balancer": {"strength": 5.0}}], local=local, rounds=1)
    state, data = sim.open(), sim.work.federation.client(1)
    x, y = sim.work.federation.train.x[data.rows], data.labels
    count = torch.bincount(y, minlength=4).clamp(min=1).double()
    lam = (count.max() / count).log() / (count.max() / count).log().max()
    params = {name: p.clone().requires_grad_() for name, p in state.params.items()}
    for k in (1, 2, 3):
        f = torch.tanh(x @ params["body.1.weight"].T + params["body.1.bias"])
        z = f @ params["head.weight"].T + params["head.bias"]
        balanced = z - 5.0 * (k / 3) ** 2 * lam / f.square().sum(1, keepdim=True).sqrt()
        slopes = torch.autograd.grad(F.cross_entropy(balanced, y), list(params.values()))
        steps = zip(params, slopes, strict=True)
        params = {n: (params[n] - 0.1 * g).detach().requires_grad_() for n, g in steps}
    after, _ = ask_clients(sim, state, [1])
    assert distance(after.params, {name: p.detach() for name, p in params.items()}) < 1e-10


def test_the_released_variant_is_cross_entropy_in_practice() -> None:
    """At the initialisation of the ConvNet its logits move by less than 1e-3 in the last of ten local epochs."""
    place = torch.device("cpu"), torch.float32
    module = MODELS.build("convnet")((3, 32, 32), 10)
    module = adapt_model(
        Method(), module, Start(True), generator(0, "init"), place, lambda _: torch.zeros(2, 3, 32, 32), 10
    )
    x = torch.randn(8, 3, 32, 32, generator=generator(0, "x"))
    features = module.features(x).detach()  # type: ignore[operator]
    counts = [0, 0, 1, 900, 0, 30, 5000, 0, 4, 0]
    part = built("local_balancer", schedule="released", normalise="sum")
    slot = slot_of(part, stats_of(counts, 10, 10, torch.float32), rounds=130)
    logits = torch.zeros(8, 10)
    for y in (0, 6):
        moved = values(part, slot, logits, features, torch.full((8,), y), 0.9) - math.log(10)
        assert 0 < float(moved.abs().max()) < 1e-3
    shift = (9 / 130) ** 2 * slot["shift"].max() / features.norm(dim=1).min()
    assert float(shift) < 1e-3


def test_a_model_without_features_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="needs a model with `features` and `head`, not Sequential"):
        simulate("fedbal", model=nn.Sequential(nn.Linear(5, 4), nn.Tanh()))
