"""No hook changes what it is given: neither the numbers of a tensor nor the keys of a tree."""

from __future__ import annotations

import pytest
import torch
from federations import every_spec, run_rounds, simulate, spec_name
from torch import Tensor

from counterpoise.contracts.purity import hooks_are_sound, state_stays
from counterpoise.core.checked import checked
from counterpoise.core.method import Method, MethodSpec
from counterpoise.core.part import Part, Step
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import HookError


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_no_hook_changes_its_input(spec: MethodSpec) -> None:
    hooks_are_sound(spec)


def _doubled(gradient: Tensor) -> Tensor:
    return gradient.mul_(2)


def _doubled_behind_the_count(gradient: Tensor) -> Tensor:
    gradient.numpy()[...] *= 2
    return gradient


@pytest.mark.parametrize(("double", "exact"), [(_doubled, False), (_doubled_behind_the_count, True)])
def test_the_guard_notices_a_hook_that_works_in_place(double: object, exact: bool) -> None:
    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return {name: double(g) for name, g in grads.items()}, slot  # type: ignore[operator]

    method = checked(Method((Part("careless", adjust=adjust),)), exact)
    with pytest.raises(HookError, match=r"careless\.adjust changes the gradients\.\S+ in place"):
        run_rounds(simulate(method, rounds=1))


def test_the_guard_notices_a_new_key() -> None:
    def send(slot: Tree, round: int) -> Tree:
        slot["round"] = torch.tensor(round)
        return slot

    with pytest.raises(HookError, match=r"careless\.send changes its slot in place"):
        run_rounds(simulate(checked(Method((Part("careless", send=send),))), rounds=1))


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_round_leaves_the_state_before_it_untouched(spec: MethodSpec) -> None:
    state_stays(spec)
