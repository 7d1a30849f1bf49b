"""Private updates: clipped and noised by the rule, the same in every engine, told honestly, and not led around."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    all_state,
    altered,
    ask_clients,
    distance,
    fingerprint,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)
from typer.testing import CliRunner

import counterpoise as cp
from counterpoise.cli import app
from counterpoise.core.codec import decode, encode
from counterpoise.core.messages import Replies
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import Census, Exchange, Part
from counterpoise.core.rng import generator
from counterpoise.core.secret import SecretKey
from counterpoise.core.tree import Params, Tree, flatten, mix, norm, scale_rows, subtract, tmap
from counterpoise.errors import ConfigError
from counterpoise.parts import dp as privacy
from counterpoise.parts.dp import epsilon
from counterpoise.run.simulation import Simulation
from counterpoise.server.cohort import Cohort
from counterpoise.server.state import ServerState

UNIFORM = {"fedavg": {"weighting": "uniform"}}


def private(**arguments: Any) -> list[Any]:
    """With noise that can be repeated, unless the test says otherwise."""
    return ["fedavg", {"dp": {"noise": "repeatable", **arguments}}]


def step_of(before: ServerState, after: ServerState) -> Params:
    return subtract(after.params, before.params)


def test_without_noise_and_with_a_wide_clip_it_is_fedavg_with_equal_weights_bit_for_bit() -> None:
    found, expected = (
        run_rounds(simulate(spec)).params for spec in (private(clip=1e30, noise_multiplier=0.0), UNIFORM)
    )
    assert distance(found, expected) == 0


def _reverse(replies: Replies) -> Replies:
    return replies._replace(
        delta=scale_rows(replies.delta, torch.where(replies.client == replies.client[0], -1000.0, 1.0))
    )


def test_without_noise_no_client_moves_the_model_further_than_its_share_of_the_clip() -> None:
    sim = simulate(private(clip=0.01, noise_multiplier=0.0))
    start = sim.open()
    fair, _ = sim.advance(start)
    unfair, _ = altered(sim, _reverse).advance(start)
    assert 0 < float(norm(step_of(fair, unfair))) <= 2 * 0.01 / 3 * (1 + 1e-9)
    assert float(norm(step_of(start, unfair))) <= 0.01 * (1 + 1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_an_update_times_a_thousand_moves_the_server_no_further_than_the_clip(dtype: torch.dtype) -> None:
    built = privacy.dp(clip=0.7, noise_multiplier=0.0)
    assert built.init is not None
    assert built.weigh is not None
    assert built.treat is not None
    for trial in range(1000):
        stream = generator(trial, "scaled updates")
        count = int(torch.randint(1, 12, (), generator=stream))
        shapes = {"bias": (count, 7), "weight": (count, 40, 30)}
        delta = {name: torch.randn(shape, generator=stream, dtype=dtype) for name, shape in shapes.items()}
        factors = torch.ones(count).index_fill(0, torch.randint(count, (1,), generator=stream), 1000.0)
        delta = scale_rows(delta, factors * 10 ** (2 - 4 * torch.rand((), generator=stream)))
        replies = Replies(torch.arange(count), torch.ones(count), delta, {}, {}, torch.zeros(count))
        exchange = Exchange({}, replies, torch.rand(count, generator=stream, dtype=torch.float64), count)
        slot = built.init({}, Census(torch.ones(count), 2, 1), {})
        step = mix(built.weigh(exchange.weights, slot, exchange)[0], built.treat(delta, slot, exchange))
        assert 0 < float(norm(tmap(torch.Tensor.double, step))) <= 0.7 * (1 + 1e-6), trial


def test_the_mean_is_by_the_clients_asked_not_by_those_that_replied() -> None:
    """Two of three replies count for two thirds, so that their number, which depends on the clients, is not told."""
    sim, plain = simulate(private(clip=1e30, noise_multiplier=0.0)), simulate(UNIFORM)
    found, expected = (step_of(s.open(), ask_clients(s, s.open(), (0, 1))[0]) for s in (sim, plain))
    assert distance(found, tmap(lambda leaf: leaf * 2 / 3, expected)) < 1e-12


def _noise(seed: int, **arguments: float) -> torch.Tensor:
    """All coordinates of what the noise adds to a step of three clients, in units of ``clip / 3``."""
    clip = arguments.get("clip", 1.0)
    model = small_model(hidden=[200, 50], activation="tanh")
    noisy = simulate(private(**arguments), model=model, seed=seed)
    silent = simulate(private(**{**arguments, "noise_multiplier": 0.0}), model=model, seed=seed)
    added = subtract(run_rounds(noisy, rounds=1).params, run_rounds(silent, rounds=1).params)
    return torch.cat([leaf.flatten() for leaf in flatten(added).values()]) / (clip / 3)


@pytest.mark.parametrize(("clip", "noise"), [(1.0, 1.0), (0.5, 2.0), (4.0, 0.3)])
def test_the_noise_is_gaussian_with_the_deviation_of_the_rule(clip: float, noise: float) -> None:
    drawn = _noise(46, clip=clip, noise_multiplier=noise) / noise
    count = len(drawn)
    assert count > 11_000
    assert abs(float(drawn.mean())) < 4 / count**0.5
    assert abs(float(drawn.square().mean()) - 1) < 4 * (2 / count) ** 0.5
    assert abs(float(drawn.pow(4).mean()) - 3) < 4 * (96 / count) ** 0.5


def test_noise_differs_by_seed_and_by_round_and_leaf() -> None:
    assert distance({"n": _noise(1)}, {"n": _noise(2)}) > 0.1
    mean = {"a": torch.zeros(50, dtype=torch.float64), "b": torch.zeros(50, dtype=torch.float64)}
    exchange = Exchange({}, Replies(*[torch.zeros(1)] * 2, {}, {}, {}, torch.zeros(1)), torch.ones(1), 6)
    exchange = exchange._replace(part="dp", secret=SecretKey.of_seed(1))
    drawn = [privacy.add_noise(mean, 1.0, exchange._replace(round=t).secret_key()) for t in (0, 1, 1)]
    assert distance(drawn[0], drawn[1]) > 0.1
    assert distance(drawn[1], drawn[2]) == 0
    assert distance({"l": drawn[0]["a"]}, {"l": drawn[0]["b"]}) > 0.1


def test_the_noise_does_not_depend_on_the_order_in_which_parameters_are_kept() -> None:
    mean = {name: torch.zeros(20) for name in ("b", "a", "c")}
    again = {name: mean[name] for name in sorted(mean)}
    one, other = (privacy.add_noise(m, 1.0, SecretKey.of_seed(3)) for m in (mean, again))
    assert distance(one, other) == 0


def test_every_engine_adds_the_same_noise() -> None:
    expected = _everything(simulate(private()))
    for engine in (STACKED, replace(STACKED, chunk=2)):
        assert distance(expected, _everything(simulate(private(), engine=engine))) < 1e-8
    workers = simulate(private(), engine=replace(LOOP, processes=2))
    try:
        assert distance(expected, _everything(workers)) == 0
    finally:
        workers.close()


def _everything(sim: Simulation) -> Tree:
    return all_state(sim, run_rounds(sim))


def test_a_resumed_run_adds_the_noise_that_it_would_have_added() -> None:
    whole, resumed = simulate(private()), simulate(private())
    middle = run_rounds(whole, rounds=1)
    saved = decode(encode(middle.to_tree()))
    expected = run_rounds(whole, middle, rounds=2)
    found = run_rounds(resumed, ServerState.from_tree(saved, middle.round), rounds=2)
    assert fingerprint(whole, expected) == fingerprint(resumed, found)


def test_later_rules_see_only_the_noised_mean() -> None:
    seen: list[Exchange] = []

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        seen.append(exchange)
        assert distance(delta, {name: leaf[0] for name, leaf in exchange.replies.delta.items()}) < 1e-15
        return delta, slot

    sim = simulate(compose(build_method(private()), Part("spy", update=update)))
    sim.advance(sim.open())
    assert seen[0].weights.tolist() == [1, 0, 0]
    assert all(bool((leaf == leaf[:1]).all()) for leaf in seen[0].replies.delta.values())


def test_a_bound_by_the_median_of_the_round_is_not_applied_before_the_clip() -> None:
    runs = [
        run_rounds(simulate(private(noise_multiplier=0.0), cohort=Cohort(size=3, max_influence=bound)))
        for bound in (1.0, 0.0)
    ]
    assert distance(runs[0].params, runs[1].params) == 0


def test_epsilon_is_that_of_the_accountants_own_example() -> None:
    """dp-accounting 0.6.0, rdp_privacy_accountant_test.py, test_compute_epsilon_delta_gaussian: exactly (1, 1e-6)."""
    assert epsilon(4.530877117, 1.0, 1, 1e-6) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("examples", "batch", "noise", "epochs", "delta", "expected"),
    [
        (60_000, 150, 1.3, 15, 1e-5, 0.7242234026109595),
        (100_000, 100, 1.0, 30, 1e-7, 1.4154988495444845),
    ],
)
def test_epsilon_is_that_of_published_examples_of_dp_sgd(
    examples: int, batch: int, noise: float, epochs: int, delta: float, expected: float
) -> None:
    """TensorFlow Privacy, compute_dp_sgd_privacy_test.py, which dp-accounting's authors keep."""
    rounds = epochs * examples // batch
    assert epsilon(noise, batch / examples, rounds, delta) == pytest.approx(expected, rel=1e-9)


def test_epsilon_is_at_most_that_of_the_moments_accountants_paper() -> None:
    """Abadi et al. 2016, arXiv:1607.00133, section 3.2: q = 0.01, sigma = 4, T = 10,000, delta = 1e-5 give 1.26."""
    assert 1.0 < epsilon(4.0, 0.01, 10_000, 1e-5) <= 1.26


def test_epsilon_grows_with_rounds_and_clients_asked_and_falls_with_noise() -> None:
    by_rounds = [epsilon(1.0, 0.1, rounds, 1e-5) for rounds in (0, 1, 10, 100, 1000)]
    by_rate = [epsilon(1.0, rate, 10, 1e-5) for rate in (0.01, 0.1, 0.5, 1.0)]
    by_noise = [epsilon(noise, 0.1, 10, 1e-5) for noise in (1e6, 2.0, 1.0, 0.5, 1e-30, 1e-200, 0.0)]
    assert by_rounds[0] == 0
    for grows in (by_rounds, by_rate, by_noise[:-1]):
        assert all(low < high for low, high in pairwise(grows)), grows
    assert by_noise[-1] == float("inf")


def test_the_accountant_says_nothing_on_the_side(capfd: pytest.CaptureFixture[str]) -> None:
    assert epsilon(1.0, 0.1, 123, 1e-5) > 0
    assert capfd.readouterr() == ("", "")


def test_what_is_spent_is_charted_from_the_rounds_of_the_state() -> None:
    sim = simulate(private(noise_multiplier=2.0, delta=1e-4))
    state = sim.open()
    for rounds in range(3):
        found = sim.diagnostics(state)["diagnostics"]["dp"]["epsilon"]
        assert found == pytest.approx(epsilon(2.0, 3 / 6, rounds, 1e-4))
        state, _ = sim.advance(state)


def test_what_a_whole_run_will_spend_is_told_before_it_starts(tmp_path: Path) -> None:
    file = tmp_path / "private.toml"
    file.write_text(
        'method = ["fedavg", { dp = { noise_multiplier = 2.0 } }]\nrounds = 7\ndata.name = "digits"\n'
        'partition = { name = "iid", clients = 20 }\nmodel.name = "mlp"\ncohort.size = 5\n'
    )
    shown = CliRunner().invoke(app, ["validate", str(file)])
    assert shown.exit_code == 0
    assert f"epsilon {epsilon(2.0, 5 / 20, 7, 1e-5):.4g} at delta 1e-05 after 7 rounds" in shown.stdout


def test_clients_without_samples_do_not_thin_the_sample() -> None:
    sim = simulate(private(), federation=unequal_federation(sizes=(20, 0, 13, 30, 0, 9)))
    assert {name: int(leaf) for name, leaf in sim.open().slots["dp"].items()} == {
        "rounds": 0,
        "asked": 3,
        "eligible": 4,
    }


def test_no_noise_is_told_as_no_privacy_in_the_records() -> None:
    federation = cp.split(cp.load_data("digits"), "iid", clients=4)
    result = cp.simulate(federation, private(noise_multiplier=0.0), rounds=1)
    assert result.rows[-1]["diagnostics"]["dp"]["epsilon"] is None


LEADING: list[tuple[MethodSpec, str, str]] = [
    ("scaffold", "control_variates", "send more than their update"),
    ("fedcm", "server_direction", "send more than their update"),
    ("feddyn", "dynamic_regulariser", "send more than their update"),
    ("fednova", "normalised_averaging", "treats the updates too"),
    ("median", "median", "treats the updates too"),
    ({"balanced_softmax": {"counts": "global"}}, "balanced_softmax", "sums up what clients have"),
    ("fedhoo", "", ""),
]


@pytest.mark.parametrize(("spec", "name", "why"), LEADING, ids=[spec_name(one[0]) for one in LEADING])
@pytest.mark.parametrize("first", [True, False])
def test_parts_that_let_more_than_the_mean_through_are_refused(
    spec: MethodSpec, name: str, why: str, first: bool
) -> None:
    with pytest.raises(ConfigError, match=f"^dp protects only the updates, and {name}.*{why}.*") as caught:
        build_method(["dp", spec] if first else [spec, "dp"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["fedavgm", "fedadam", "fedprox", "fedsam", "focal"])
def test_parts_that_use_only_the_mean_or_stay_on_the_client_go_with_it(spec: str) -> None:
    sim = simulate([spec, "dp"])
    assert all(bool(leaf.isfinite().all()) for leaf in run_rounds(sim).params.values())


def test_running_statistics_are_refused_with_what_to_use() -> None:
    federation = unequal_federation((2, 6, 6))
    given = {"federation": federation, "rounds": 1}
    with pytest.raises(ConfigError, match=r"running statistics .* GroupNorm"):
        simulate(private(), model=small_model("resnet8", (2, 6, 6), norm="batch", width=2), **given)
    run_rounds(simulate(private(), model=small_model("resnet8", (2, 6, 6), norm="group", width=2), **given))


def test_without_the_accountant_a_run_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'counterpoise[privacy]'")):
        simulate(private()).open()


def test_the_package_is_an_extra_of_that_name() -> None:
    text = (Path(cp.__file__).parent.parent / "pyproject.toml").read_text()
    assert re.search(r'^privacy = \["dp-accounting', text, re.MULTILINE)


def test_beside_a_part_that_replaces_weights_the_reason_is_privacy() -> None:
    with pytest.raises(ConfigError, match=r"^dp protects only the updates, and aggregation_balancer weighs"):
        build_method(["fedavg", "dp", "aggregation_balancer"])
