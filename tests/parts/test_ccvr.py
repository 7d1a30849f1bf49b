"""CCVR: sums of clients give the pooled Gaussians, the fit is a softmax regression, and only the last round changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    LOOP,
    all_state,
    ask_clients,
    distance,
    fingerprint,
    run_rounds,
    simulate,
    small_model,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import counterpoise as cp
from counterpoise.core.codec import decode, encode
from counterpoise.core.local import Local
from counterpoise.core.rng import generator
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.models.heads import CosineHead
from counterpoise.parts.ccvr import ClassSums, Gaussians, class_sums, fit_head, gaussians
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState
from counterpoise.system import capacity

SPEC = ["fedavg", {"ccvr": {"samples": 80, "steps": 40}}]


def merged(*clients: ClassSums) -> ClassSums:
    return ClassSums(*(torch.stack(parts).sum(0) for parts in zip(*clients, strict=True)))


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_two_clients_merge_to_the_mean_and_covariance_of_all_their_samples() -> None:
    features, labels = 3 + draw(0, 40, 3), torch.arange(40) % 2
    here, there = slice(0, 13), slice(13, 40)
    found = gaussians(merged(*(class_sums(features[own], labels[own], 2) for own in (here, there))))
    for c in range(2):
        rows = features[labels == c].numpy()
        assert np.allclose(found.mean[c], rows.mean(0), atol=1e-12)
        assert np.allclose(found.covariance[c], np.cov(rows, rowvar=False), atol=1e-12)


def test_sums_of_a_client_by_hand() -> None:
    count, total, square = class_sums(
        torch.tensor([[1.0, 2.0], [3.0, 0.0], [5.0, 5.0]]), torch.tensor([0, 0, 2]), 3
    )
    assert count.tolist() == [2, 0, 1]
    assert total.tolist() == [[4, 2], [0, 0], [5, 5]]
    assert square[0].tolist() == [[10, 2], [2, 4]]
    assert square[1].tolist() == [[0, 0], [0, 0]]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 4))
def test_ragged_classes_over_any_cut_of_the_samples(seed: int, classes: list[int], clients: int) -> None:
    labels, features = torch.tensor(classes), draw(seed % 2**31, len(classes), 2)
    owners = torch.arange(len(classes)) % clients
    found = gaussians(
        merged(*(class_sums(features[owners == k], labels[owners == k], 6) for k in range(clients)))
    )
    rows = [features[labels == c].numpy() for c in range(6)]
    freedom = sum(max(len(own) - 1, 0) for own in rows)
    within = sum((len(own) - 1) * np.cov(own, rowvar=False) for own in rows if len(own) > 1)
    for c, own in enumerate(rows):
        wanted = np.cov(own, rowvar=False) if len(own) > 1 else within / max(freedom, 1)
        assert np.allclose(found.covariance[c], wanted, atol=1e-10)


def test_draws_have_the_mean_and_covariance_they_are_drawn_from() -> None:
    covariance = torch.tensor([[[2.0, 1.2], [1.2, 1.0]]], dtype=torch.float64)
    mean = torch.tensor([[5.0, -3.0]], dtype=torch.float64)
    drawn = Gaussians(mean, covariance).draw(200_000, torch.Generator().manual_seed(0))[0]
    assert torch.allclose(drawn.mean(0), mean[0], atol=0.02)
    assert torch.allclose(drawn.T.cov(), covariance[0], atol=0.03)


def test_a_flat_covariance_draws_almost_flat_features_and_none_draws_the_mean() -> None:
    flat = torch.tensor([[[4.0, 0.0], [0.0, -1e-17]]], dtype=torch.float64)
    mean = torch.ones(1, 2, dtype=torch.float64)
    drawn = Gaussians(mean, flat).draw(1000, torch.Generator().manual_seed(0))
    assert float((drawn[..., 1] - 1).abs().max()) < 0.01
    assert torch.equal(Gaussians(mean, 0 * flat).draw(3, torch.Generator()), mean.expand(1, 3, 2))


def test_the_fit_reaches_the_least_cross_entropy() -> None:
    features, labels = draw(1, 60, 3), torch.arange(60) % 3
    features = features + labels.unsqueeze(1) * 0.3  # they overlap, so that there is a minimum
    found = fit_head(torch.zeros(3, 3, dtype=torch.float64), features, labels, 3000).requires_grad_()
    loss = nn.functional.cross_entropy(features @ found.T, labels)
    assert float(torch.autograd.grad(loss, found)[0].abs().max()) < 1e-6


def test_equal_gaussians_apart_are_cut_in_the_middle_as_by_linear_discriminants() -> None:
    """Means (0, 0) and (2, 1), Sigma = diag(1, 0.25): the normal of the boundary is Sigma^-1 (2, 1) = (2, 4)."""
    means = torch.tensor([[0.0, 0.0], [2.0, 1.0]], dtype=torch.float64)
    both = Gaussians(means, torch.diag(torch.tensor([1.0, 0.25], dtype=torch.float64)).expand(2, 2, 2))
    drawn = both.draw(20_000, torch.Generator().manual_seed(3)).flatten(0, 1)
    inputs = torch.cat([drawn, torch.ones(len(drawn), 1, dtype=torch.float64)], 1)
    labels = torch.arange(2).repeat_interleave(20_000)
    head = fit_head(torch.zeros(2, 3, dtype=torch.float64), inputs, labels, 2000)
    normal = head[1] - head[0]
    assert normal[:2].tolist() == pytest.approx([2.0, 4.0], rel=0.05)
    assert float(normal @ torch.tensor([1.0, 0.5, 1.0], dtype=torch.float64)) == pytest.approx(0, abs=0.1)


def test_absent_classes_keep_their_rows_and_the_fit_still_sees_them() -> None:
    head, features = draw(2, 3, 2), draw(3, 20, 2)
    labels = torch.arange(20) % 2
    found = fit_head(head, features, labels, 50)
    assert torch.equal(found[2], head[2])
    assert not torch.equal(found, fit_head(torch.cat([head[:2], 9 * head[2:]]), features, labels, 50))


def body(state: ServerState) -> dict[str, Tensor]:
    return {name: p for name, p in state.params.items() if not name.startswith("head.")}


def by_other_means(sim: Simulation, state: ServerState, clients: list[int], samples: int, steps: int) -> Any:
    """The fitted weight and bias from all features of these clients: numpy's covariance, a root by SVD, autograd."""
    federation, module = sim.work.federation, sim.module(state)
    rows = torch.cat([federation.clients[k] for k in clients])
    features = module.features(federation.train.x[rows]).detach().numpy()  # type: ignore[operator]
    labels = federation.train.y[rows].numpy()
    each = samples // 4
    noise = torch.randn(
        4, each, 6, generator=generator(sim.seed, "server ccvr", state.round), dtype=torch.float64
    )
    of = [features[labels == c] for c in range(4)]
    drawn = []
    for c in range(4):
        left, values, _ = np.linalg.svd(np.cov(of[c], rowvar=False))
        values = np.maximum(values, 1e-6 * values.mean())
        drawn.append(of[c].mean(0) + noise[c].numpy() @ (left * np.sqrt(values)) @ left.T)
    x, y = torch.tensor(np.concatenate(drawn)), torch.arange(4).repeat_interleave(each)
    extended = np.hstack([x.numpy(), np.ones((len(x), 1))])
    rate = 2 * len(x) / np.linalg.norm(extended, 2) ** 2
    now = [state.params["head.weight"].clone(), state.params["head.bias"].clone()]
    ahead = [p.clone() for p in now]
    for step in range(steps):
        at = [p.clone().requires_grad_() for p in ahead]
        loss = nn.functional.cross_entropy(x @ at[0].T + at[1], y)
        after = [p.detach() - rate * g for p, g in zip(at, torch.autograd.grad(loss, at), strict=True)]
        ahead = [a + step / (step + 3) * (a - n) for a, n in zip(after, now, strict=True)]
        now = after
    return now


def test_two_rounds_are_fedavg_of_one_and_then_the_fit() -> None:
    sim, plain = simulate(SPEC, rounds=2), simulate("fedavg", rounds=2)
    trained, _ = ask_clients(plain, plain.open(), [0, 1, 3])
    before, _ = ask_clients(sim, sim.open(), [0, 1, 3])
    assert distance(trained.params, before.params) == 0
    after, _ = ask_clients(sim, before, [0, 1, 2, 3])
    weight, bias = by_other_means(plain, trained, [0, 1, 2, 3], 80, 40)
    assert distance(body(after), body(before)) == 0
    assert torch.allclose(after.params["head.weight"], weight, atol=1e-9)
    assert torch.allclose(after.params["head.bias"], bias, atol=1e-9)
    assert float((weight - trained.params["head.weight"]).abs().max()) > 0.01


def test_a_class_that_nobody_of_the_last_cohort_holds_keeps_its_row() -> None:
    sim = simulate(SPEC)
    before = run_rounds(sim, rounds=2)
    after, _ = ask_clients(sim, before, [4, 5])  # of classes 2 and 0; class 0 has one sample
    rows = before.params["head.weight"] == after.params["head.weight"]
    assert rows.all(1).tolist() == [False, True, False, True]


def test_nothing_is_sent_before_the_last_round_and_nothing_is_kept() -> None:
    sim, plain = simulate(SPEC), simulate("fedavg")
    state, same = sim.open(), plain.open()
    for _ in range(2):
        state, outcome = sim.advance(state)
        same, usual = plain.advance(same)
        assert outcome.bytes_up == usual.bytes_up
        assert distance(state.params, same.params) == 0
    _, last = sim.advance(state)
    assert last.bytes_up == usual.bytes_up + 3 * 8 * 4 * (
        1 + 6 + 36
    )  # three clients, four classes, six features
    assert dict(sim.engine.memory) == {}


@pytest.mark.parametrize("base", ["scaffold", "fednova", "fedcm", "feddyn", "fedavgm", "fedadam", "moon"])
@pytest.mark.parametrize("engine", ["loop", "stacked", "processes"])
def test_with_any_method_the_rest_of_the_model_rests_in_the_last_round(base: str, engine: str) -> None:
    engines = {
        "loop": LOOP,
        "stacked": EngineSettings("stacked", "cpu", chunk=2),
        "processes": EngineSettings("loop", "cpu", processes=2),
    }
    spec = [base, *SPEC[1:]]
    local = Local(lr=0.1, batch_size=12, momentum=0.5, weight_decay=0.1, decoupled=True)
    sim, plain = (simulate(spec, engine=one, local=local) for one in (engines[engine], LOOP))
    try:
        before = run_rounds(sim, rounds=2)
        after, outcome = sim.advance(before)
        assert outcome.rejected == ()
        assert distance(body(before), body(after)) == 0
        assert all(bool(leaf.isfinite().all()) for leaf in after.params.values())
        expected = all_state(plain, run_rounds(plain))
        assert distance(all_state(sim, after), expected) < (1e-8 if engine == "stacked" else 1e-300)
    finally:
        sim.close()


def test_a_part_that_groups_samples_finds_none_in_the_last_round() -> None:
    sim = simulate(["fedavg", SPEC[1], {"group_momentum": {"group_batches": "separate"}}])
    before = run_rounds(sim, rounds=2)
    assert distance(body(before), body(run_rounds(sim, before, 1))) == 0


def test_running_statistics_rest_too() -> None:
    model = small_model("mlp", hidden=[6], norm="batch")
    local = Local(lr=0.1, batch_size=8, batching="wrap")
    sim = simulate(SPEC, model=model, local=local)
    before = run_rounds(sim, rounds=2)
    assert distance(before.buffers, run_rounds(sim, before, 1).buffers) < 1e-12


def test_a_run_that_goes_on_before_its_last_round_ends_alike() -> None:
    whole, resumed = simulate(SPEC), simulate(SPEC)
    middle = run_rounds(whole, rounds=2)
    saved = decode(encode(all_state(whole, middle)))
    last = run_rounds(resumed, ServerState.from_tree(saved, round=2), 1)
    assert fingerprint(resumed, last) == fingerprint(whole, run_rounds(whole, middle, 1))


def test_it_lifts_the_recall_of_rare_classes() -> None:
    federation = cp.split(cp.load_data("digits", imbalance=50.0), "dirichlet", clients=10, alpha=0.5, seed=0)
    plain, fitted = (cp.simulate(federation, spec, rounds=8) for spec in ("fedavg", ["fedavg", "ccvr"]))
    assert fitted["tail"] > plain["tail"] + 0.1


def with_cosine_head() -> nn.Module:
    model = small_model()
    model.head = CosineHead(6, 4)
    return model


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(5, 4), nn.Tanh()), with_cosine_head()])
def test_a_model_without_features_or_with_another_head_is_refused(model: nn.Module) -> None:
    with pytest.raises(ConfigError, match="`features` and a plain linear layer `head`"):
        simulate(SPEC, model=model)


def test_features_too_wide_for_a_covariance_are_refused_before_the_run() -> None:
    wide = small_model(
        "mlp", hidden=[400_000]
    )  # 5 TB for a client of 4 classes, more than any machine of this kind has
    with pytest.raises(ConfigError, match=r"ccvr: .* 400,000 features for each of 4 classes needs .* GB"):
        simulate(SPEC, model=wide)
    simulate(["fedavg", {"ccvr": {"samples": 0}}], model=wide)  # switched off it has none


def test_covariances_of_too_many_clients_at_once_are_refused_before_round_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 4 * 1500**2 * 8  # of one client, in bytes: 72 MB
    wide = small_model("mlp", hidden=[1500])
    monkeypatch.setattr(capacity, "available_bytes", lambda: 8 * size - 1)
    with pytest.raises(ConfigError, match=r"1,500 features .* of 3 clients needs 576\.0 MB of memory"):
        simulate(SPEC, model=wide).open()
    monkeypatch.setattr(capacity, "available_bytes", lambda: 8 * size)
    simulate(SPEC, model=wide).open()


def test_no_virtual_features_switch_it_off() -> None:
    off, plain = (simulate(spec) for spec in (["fedavg", {"ccvr": {"samples": 0}}], "fedavg"))
    assert distance(run_rounds(off).params, run_rounds(plain).params) == 0
