"""The local optimizer against torch.optim.SGD, Adam and AdamW, and torch's gradient clipping."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
import torch
from federations import LOOP, STACKED, ask_clients, distance, run_rounds, simulate
from torch import Tensor, nn

from counterpoise.client.plan import make_plan
from counterpoise.core.local import Local, Optimizer
from counterpoise.core.method import METHODS, MethodSpec, build_method
from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.parts.optimizer import adam, with_local
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

ADAPTIVE: tuple[Optimizer, Optimizer] = ("adam", "adamw")
BASE = Local(lr=0.3, batch_size=12, epochs=2)
LOCALS = {
    "plain": BASE,
    "momentum": replace(BASE, momentum=0.9),
    "decay": replace(BASE, weight_decay=0.1),
    "momentum and decay": replace(BASE, momentum=0.9, weight_decay=0.1),
    "clip": replace(BASE, clip=0.1),
    "all": replace(BASE, momentum=0.5, weight_decay=0.1, clip=0.1),
    "decoupled decay": replace(BASE, momentum=0.9, weight_decay=0.1, decoupled=True),
    "all decoupled": replace(BASE, momentum=0.5, weight_decay=0.1, clip=0.1, decoupled=True),
    "adam": replace(BASE, optimizer="adam", lr=0.02),
    "adam and decay": replace(BASE, optimizer="adam", lr=0.02, weight_decay=0.1),
    "adam with other means": replace(BASE, optimizer="adam", lr=0.02, beta1=0.0, beta2=0.5, eps=0.1),
    "adamw": replace(BASE, optimizer="adamw", lr=0.02, weight_decay=0.1),
}


def _torchs_own(module: nn.Module, local: Local) -> torch.optim.Optimizer:
    if local.optimizer in ("adam", "adamw"):
        kind = torch.optim.Adam if local.optimizer == "adam" else torch.optim.AdamW
        betas = (0.9 if local.beta1 is None else local.beta1, 0.999 if local.beta2 is None else local.beta2)
        return kind(module.parameters(), local.lr, betas, local.eps or 1e-8, local.weight_decay)
    coupled = 0.0 if local.decoupled else local.weight_decay
    return torch.optim.SGD(module.parameters(), local.lr, local.momentum, weight_decay=coupled)


def _by_torch(sim: Simulation, client: int, state: ServerState | None = None) -> dict[str, Tensor]:
    """A client's model after a round of torch's own optimizer on the same batches; the first round, or the one after a state."""
    local, data, module = sim.work.local, sim.work.federation.client(client), deepcopy(sim.work.model.module)
    if state is not None:
        module.load_state_dict(state.params)
    optimizer, done = _torchs_own(module, local), 0 if state is None else state.round
    plan = make_plan(
        data, local.batch_size, local.epochs, local.batching, generator(sim.seed, "plan", done, client)
    )
    for positions, mask in zip(plan.positions, plan.mask, strict=True):
        rows, labels = data.rows[positions[mask]], data.labels[positions[mask]]
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(sim.work.federation.train.x[rows]), labels).backward()  # type: ignore[no-untyped-call]
        if local.clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), local.clip)
        shrunk = {n: local.lr * local.weight_decay * p.detach() for n, p in module.named_parameters()}
        optimizer.step()
        if local.decoupled:
            with torch.no_grad():
                for name, parameter in module.named_parameters():
                    parameter.sub_(shrunk[name])
    return {name: p.detach() for name, p in module.named_parameters()}


@pytest.mark.parametrize("name", ["loop", "stacked"])
@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS)
def test_local_training_equals_torchs_optimizer(local: Local, name: str) -> None:
    sim = simulate("fedavg", local=local, engine=LOOP if name == "loop" else replace(STACKED, chunk=2))
    after, _ = ask_clients(sim, sim.open(), [0])
    # torch divides by norm + 1e-6 where it clips, which moves the result by about that much.
    assert distance(after.params, _by_torch(sim, 0)) < (1e-5 if local.clip is not None else 1e-12)


def test_the_settings_of_the_optimizer_matter() -> None:
    results = []
    for local in LOCALS.values():
        sim = simulate("fedavg", local=local)
        results.append(ask_clients(sim, sim.open(), [0])[0].params)
    gaps = [distance(a, b) for i, a in enumerate(results) for b in results[:i]]
    assert min(gaps) > 1e-4


def test_a_clip_above_every_gradient_changes_nothing() -> None:
    wide, none = simulate("fedavg", local=replace(BASE, clip=1e6)), simulate("fedavg", local=BASE)
    first, second = ask_clients(wide, wide.open(), [0])[0], ask_clients(none, none.open(), [0])[0]
    assert distance(first.params, second.params) < 1e-14


def test_the_optimizers_parts_stand_around_the_methods_own() -> None:
    local = Local(momentum=0.9, weight_decay=0.1, clip=1.0)
    names = [part.name for part in with_local(build_method(["fedprox", "sam"]), local).parts]
    assert names == ["clip", "weight_decay", "prox", "sam", "momentum"]
    decoupled = with_local(build_method("fedprox"), replace(local, decoupled=True))
    assert [part.name for part in decoupled.parts] == ["clip", "prox", "momentum", "weight_decay"]
    coupled, outside = (
        [
            part.name
            for part in with_local(build_method("fedprox"), Local(optimizer=rule, weight_decay=0.1)).parts
        ]
        for rule in ADAPTIVE
    )
    assert (coupled, outside) == (["weight_decay", "prox", "adam"], ["prox", "adam", "weight_decay"])


def test_plain_settings_add_no_part() -> None:
    assert with_local(build_method("fedavg"), Local()).parts == ()


def test_sgd_by_name_is_the_default() -> None:
    assert with_local(build_method("fedavg"), Local(optimizer="sgd")).parts == ()


def test_two_steps_of_adam_by_hand() -> None:
    # beta1 = beta2 = 0.5, eps = 1; gradients 2, then -4. m: 1, -1.5; v: 2, 9; corrected by 0.5, then by 0.75.
    part = adam(0.5, 0.5, 1.0)
    assert part.start is not None
    assert part.adjust is not None
    one, stats = torch.ones(1, dtype=torch.float64), SimpleNamespace(lr=torch.zeros((), dtype=torch.float64))
    slot = part.start({"w": one}, {}, {}, stats)  # type: ignore[arg-type]
    first, slot = part.adjust({"w": 2 * one}, slot, None)  # type: ignore[arg-type]
    second, slot = part.adjust({"w": -4 * one}, slot, None)  # type: ignore[arg-type]
    assert first["w"].item() == pytest.approx(2 / (2 + 1), abs=1e-15)
    assert second["w"].item() == pytest.approx(-2 / (12**0.5 + 1), abs=1e-15)


def test_adams_correction_keeps_its_digits_in_single_precision() -> None:
    part, stats = adam(), SimpleNamespace(lr=torch.zeros(()))
    assert part.start is not None
    assert part.adjust is not None
    slot = part.start({"w": torch.ones(1)}, {}, {}, stats)  # type: ignore[arg-type]
    found = part.adjust({"w": torch.full((1,), 0.3)}, slot, None)[0]["w"]  # type: ignore[arg-type]
    assert abs(found.item() - 1) < 1e-6  # by 1 - beta2^t it would be off by 1e-5


def test_adam_begins_anew_in_every_round() -> None:
    sim = simulate("fedavg", local=LOCALS["adam"], rounds=2)
    first, _ = ask_clients(sim, sim.open(), [0])
    second, _ = ask_clients(sim, first, [0])
    assert (
        distance(second.params, _by_torch(sim, 0, first)) < 1e-12
    )  # a new optimizer of torch's for each round


@pytest.mark.parametrize("rule", ADAPTIVE)
def test_adam_is_the_same_in_the_loop_and_stacked(rule: Optimizer) -> None:
    local = Local(optimizer=rule, lr=0.01, batch_size=12, epochs=2, weight_decay=0.1, clip=1.0)
    method: MethodSpec = ["feddyn", "sam", "balanced_softmax"]
    loop, stacked = (simulate(method, local=local, engine=engine) for engine in (LOOP, STACKED))
    assert distance(run_rounds(loop).params, run_rounds(stacked).params) < 1e-8


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"optimizer": "adam", "momentum": 0.9},
            "local.momentum is for 'sgd', not for local.optimizer = 'adam'",
        ),
        ({"optimizer": "adam", "decoupled": True}, "use 'adamw'"),
        ({"beta1": 0.9}, "local.beta1 is for local.optimizer = 'adam' or 'adamw', not for 'sgd'"),
        ({"optimizer": "sgd", "eps": 1e-3}, "local.eps is for"),
        ({"optimizer": "rmsprop"}, "local.optimizer must be 'sgd' or 'adam' or 'adamw'"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Local.read(given)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


STEP_RULES = [
    "scaffold", "fedcm", "fednova", "fedwcm", "fedwcm_x", "fedcgnm", "fedcgn", "pcn", "fedlada", "mofedsam", "fedsat",
    "ditto", "fedrod", "fedloge", "redgrape", "climb",
]  # fmt: skip


@pytest.mark.parametrize("name", STEP_RULES)
def test_a_rule_about_sgd_steps_refuses_adam(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"method: \w+ assumes local steps of SGD, not local.optimizer = 'adam'"
    ):
        with_local(build_method(name), Local(optimizer="adam"))
    with_local(build_method(name), Local(optimizer="sgd", momentum=0.9))


@pytest.mark.parametrize(
    "name", ["fedavg", "fedprox", "feddyn", "fedavgm", "fedsam", "moon", "fedgrab", "creff"]
)
def test_other_rules_take_adam(name: str) -> None:
    assert with_local(build_method(name), Local(optimizer="adam")).parts[-1].name == "adam"


@pytest.mark.parametrize("name", sorted(METHODS.names()))
def test_a_method_that_reads_gradients_off_updates_says_so(name: str) -> None:
    """Whoever divides an update by lr and steps, or steps by itself, uses these names of `Stats`."""
    for part in build_method(name).parts:
        hooks = [hook for hook in (part.adjust, part.finish) if hook is not None]
        used = {word for hook in hooks for word in hook.__code__.co_names}
        if used & {"length_of", "travel", "momentum"} or (part.adjust and "descend" in _words(part.adjust)):
            assert part.assumes_sgd, part.name


def _words(hook: Any) -> set[str]:
    """Names that a hook uses, in its lambdas too."""
    inner = [code for code in hook.__code__.co_consts if isinstance(code, CodeType)]
    return {word for code in (hook.__code__, *inner) for word in code.co_names}


def test_a_rate_for_sgd_is_noted_with_adam() -> None:
    notes = [
        simulate("fedavg", local=Local(optimizer="adam", lr=lr)).method.parts[-1].note for lr in (0.1, 0.001)
    ]
    assert notes[1] is None
    assert notes[0] is not None
    assert notes[0](None).startswith("local.lr = 0.1 is large for adam")  # type: ignore[arg-type]
