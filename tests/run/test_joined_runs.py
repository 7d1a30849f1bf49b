"""Runs in one program come to what each comes to alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from federations import (
    STACKED,
    all_state,
    distance,
    draws_frozen,
    every_spec,
    run_joined,
    run_rounds,
    simulate,
    spec_name,
    unequal_federation,
)

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.errors import ConfigError
from counterpoise.run.joined import join, share_samples
from counterpoise.run.simulation import advance

SEEDS = (46, 3, 5)
CLOSE = 1e-8


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_seeds_together_equal_each_alone(spec: MethodSpec) -> None:
    if draws_frozen(spec):
        with pytest.raises(ConfigError, match="only with the same frozen parameters"):
            run_joined(spec, STACKED, SEEDS, unequal_federation())
        return
    alone = [simulate(spec, engine=STACKED, seed=seed) for seed in SEEDS]
    together, states = run_joined(spec, STACKED, SEEDS, unequal_federation())
    for sim, state, single in zip(together, states, alone, strict=True):
        assert distance(all_state(sim, state), all_state(single, run_rounds(single))) < CLOSE


def test_learning_rates_together_equal_each_alone() -> None:
    federation = unequal_federation()
    rates = (0.3, 0.01)
    locals_ = [Local(lr=lr, batch_size=12) for lr in rates]
    together = join([simulate("fedcm", engine=STACKED, federation=federation, local=one) for one in locals_])
    states = [sim.open() for sim in together]
    for _ in range(2):
        states = [state for state, _ in advance(together, states)]
    for one, state in zip(locals_, states, strict=True):
        alone = run_rounds(simulate("fedcm", engine=STACKED, local=one), rounds=2)
        assert distance(state.params, alone.params) < CLOSE
    assert distance(states[0].params, states[1].params) > 0.01


def test_other_samples_cannot_be_shared() -> None:
    one, other = unequal_federation(), unequal_federation()
    other = replace(other, train=other.train._replace(x=other.train.x + 1))
    with pytest.raises(ConfigError, match="same samples"):
        share_samples(one, other)


def test_other_methods_cannot_be_joined() -> None:
    federation = unequal_federation()
    with pytest.raises(ConfigError, match="same method"):
        join([simulate(spec, engine=STACKED, federation=federation) for spec in ("fedavg", "fedcm")])
