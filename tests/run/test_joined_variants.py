"""Runs whose methods differ in numbers, or whose rates have other schedules, come in one program to what each comes to alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from federations import (
    STACKED,
    all_state,
    distance,
    every_spec,
    run_rounds,
    simulate,
    spec_name,
    unequal_federation,
)

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec, build_method, find_entry, read_spec
from counterpoise.core.variants import find_variants, skeleton
from counterpoise.errors import ConfigError
from counterpoise.run import joined
from counterpoise.run.joined import join, share_samples
from counterpoise.run.simulation import advance
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep.execute import run_group
from counterpoise.sweep.jobs import known_experiment
from counterpoise.sweep.orders import Order, group

CLOSE = 1e-8
PAIRS: dict[str, list[MethodSpec]] = {
    "prox": [{"fedprox": {"mu": 0.1}}, {"fedprox": {"mu": 3.0}}],
    "default": ["fedprox", {"fedprox": {"mu": 3.0}}],
    "direction": [{"fedcm": {"alpha": 0.1}}, {"fedcm": {"alpha": 0.7}}],
    "server": [{"fedcm": {"server_lr": 0.5}}, {"fedcm": {"server_lr": 2.0}}],
    "two numbers": [{"mofedsam": {"rho": 0.1, "alpha": 0.5}}, {"mofedsam": {"rho": 0.5, "alpha": 0.2}}],
    "loss": [["fedavg", {"focal": {"gamma": 0.5}}], ["fedavg", {"focal": {"gamma": 4.0}}]],
    "memory": [{"feddyn": {"alpha": 0.01}}, {"feddyn": {"alpha": 0.5}}],
    "weights": [{"fedwcm": {"temperature_scale": 0.1}}, {"fedwcm": {"temperature_scale": 5.0}}],
}


def together(specs: list[MethodSpec], rounds: int = 2) -> list[tuple[object, ...]]:
    shared = unequal_federation()
    runs = join(
        [
            simulate(spec, engine=STACKED, federation=share_samples(shared, unequal_federation()))
            for spec in specs
        ]
    )
    states = [sim.open() for sim in runs]
    for _ in range(rounds):
        states = [state for state, _ in advance(runs, states)]
    return list(zip(runs, states, strict=True))


def check(specs: list[MethodSpec]) -> list[object]:
    ends = []
    for spec, (sim, state) in zip(specs, together(specs), strict=True):
        alone = simulate(spec, engine=STACKED)
        ends.append(run_rounds(alone, rounds=2))
        assert distance(all_state(sim, state), all_state(alone, ends[-1])) < CLOSE
    return ends


@pytest.mark.parametrize("specs", PAIRS.values(), ids=PAIRS)
def test_numbers_of_a_method_together_equal_each_alone_and_matter(specs: list[MethodSpec]) -> None:
    first, second = check(specs)
    assert distance(first.params, second.params) > 1e-4


def variants_of(spec: MethodSpec) -> list[list[MethodSpec]]:
    """For each number of a method or part: the method with two values of it."""
    items, found = read_spec(spec), []
    for place, (item, _) in enumerate(items):
        for name, parameter in find_entry(item).parameters.items():
            if parameter.type is not float:
                continue
            near = parameter.default if isinstance(parameter.default, float) else 0.5
            tried = (0.8 * near, 1.25 * near, near + 0.1, 0.3, 0.6)
            fitting = [v for v in tried if parameter.interval is None or v in parameter.interval][:2]
            found.append(
                [
                    [{n: {**g, **({name: v} if k == place else {})}} for k, (n, g) in enumerate(items)]
                    for v in fitting
                ]
            )
    return [specs for specs in found if len(specs) == 2]


@pytest.mark.faults
@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_every_number_of_every_method_joins_rightly_or_not_at_all(spec: MethodSpec) -> None:
    for specs in variants_of(spec):
        try:
            runs = together(specs, rounds=0)
        except ConfigError:
            continue
        assert runs
        check(specs)


def test_a_method_that_decides_by_a_number_is_refused() -> None:
    with pytest.raises(ConfigError):
        together([{"fednova": {"mu": 0.1}}, {"fednova": {"mu": 0.3}}])


def test_the_trial_of_variants_computes_as_the_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU the step that it captures is replayed in the run: by repeatable convolutions, and not in TF32."""
    seen, train = [], joined.train_round

    def noted(*given: Any) -> Any:
        seen.append((torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32))
        return train(*given)

    monkeypatch.setattr(joined, "train_round", noted)
    together(PAIRS["prox"], rounds=0)
    assert seen == [(True, False)]


def test_methods_that_differ_in_more_than_numbers_are_refused() -> None:
    specs = [build_method(spec).spec for spec in ("fedavg", {"fedavg": {"weighting": "uniform"}})]
    with pytest.raises(ConfigError, match="differ in numbers alone"):
        find_variants(specs)
    assert skeleton({"fedprox": {"mu": 0.1}}) == skeleton("fedprox")
    assert skeleton("fedprox") != skeleton("fedavg")


def test_a_number_that_changes_the_model_is_refused() -> None:
    """Two models whose first layer differs by a factor that is no parameter."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(5, 4))

    class Scaled(torch.nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(2 * x)  # type: ignore[no-any-return]

    shared = unequal_federation()
    runs = [
        simulate(
            {"fedprox": {"mu": mu}},
            engine=STACKED,
            model=made,
            federation=share_samples(shared, unequal_federation()),
        )
        for mu, made in ((0.1, model), (0.2, Scaled(*model)))
    ]
    with pytest.raises(ConfigError, match="only with the same model"):
        join(runs)


def test_schedules_together_equal_each_alone_and_other_steps_are_refused() -> None:
    shared = unequal_federation()
    locals_ = [Local(lr=0.1, batch_size=12, schedule=name) for name in ("constant", "cosine")]
    runs = join([simulate("fedcm", engine=STACKED, federation=shared, local=one) for one in locals_])
    states = [sim.open() for sim in runs]
    for _ in range(3):
        states = [state for state, _ in advance(runs, states)]
    for one, state in zip(locals_, states, strict=True):
        alone = run_rounds(simulate("fedcm", engine=STACKED, local=one))
        assert distance(state.params, alone.params) < CLOSE
    clipped = [Local(lr=0.1, batch_size=12, clip=clip) for clip in (1.0, 2.0)]
    with pytest.raises(ConfigError, match="same \\[local\\]"):
        join([simulate("fedcm", engine=STACKED, federation=shared, local=one) for one in clipped])


def test_a_sweep_trains_numbers_and_schedules_in_one_program_and_others_by_method(tmp_path: Path) -> None:
    methods: dict[str, dict[str, Any]] = {
        "a": {"method": {"fedprox": {"mu": 0.1}}},
        "b": {"method": {"fedprox": {"mu": 1.0}}, "local": {"schedule": "cosine"}},
        "c": {"method": {"fednova": {"mu": 0.1}}},
        "d": {"method": {"fednova": {"mu": 0.3}}},
    }
    base = {"rounds": 1, "data": {"name": "digits"}, "engine": {"name": "stacked"}}
    orders = [
        Order(str(tmp_path / f"{name}{seed}"), base | own | {"seed": seed}, False, pictures=False)
        for name, own in methods.items()
        for seed in (0, 1)
    ]
    groups = group(orders)
    assert [len(one) for one in groups] == [4, 4]
    assert [end for one in groups for end in run_group(one)] == [None] * 8
    trained_with = {
        path.name: known_experiment(RunFolder(path)).engine.together for path in sorted(tmp_path.iterdir())
    }
    assert sorted(trained_with["a0"]) == ["a0", "a1", "b0", "b1"]
    assert sorted(trained_with["c0"]) == ["c0", "c1"]
