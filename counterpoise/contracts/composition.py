"""A part stands beside every other one, or is refused with a line that names both before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoise.contracts.contract import ContractError
from counterpoise.contracts.small import run_rounds, simulate
from counterpoise.core.checked import checked
from counterpoise.core.method import PARTS, MethodSpec, build_method, read_spec
from counterpoise.errors import ConfigError, CounterpoiseError, HookError

PACKAGE = "counterpoise.parts."


def others() -> list[str]:
    """The parts of this package, but for those that put all samples into one place."""
    mine = [name for name in PARTS.names() if PARTS.entry(name).factory.__module__.startswith(PACKAGE)]
    return [name for name in mine if not PARTS.build(name).pools]


def composes(spec: MethodSpec, partners: Sequence[str] | None = None) -> None:
    """A round of the part with each other one, by checked hooks; a composition that is refused is in order."""
    own = [name for name, _ in read_spec(spec)]
    for partner in partners or others():
        if partner not in own:
            _composes(spec, partner)


def _composes(spec: MethodSpec, partner: str) -> None:
    items = [{name: arguments} for name, arguments in read_spec(spec)]
    try:
        sim = simulate(checked(build_method([*items, partner])), rounds=1)
        state = sim.open()
    except HookError as error:
        raise ContractError(f"with {partner}: {error}") from error
    except ConfigError:
        return
    try:
        sim.presented(run_rounds(sim, state))
    except CounterpoiseError as error:
        raise ContractError(f"with {partner}: {error}") from error
