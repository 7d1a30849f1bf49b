"""A part's author is told by name: the part, the hook, what was given and what is needed, in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import LOOP, STACKED, run_rounds, simulate
from torch import Tensor

from counterpoise.core.method import Method, build_method, compose
from counterpoise.core.part import Part
from counterpoise.core.tree import Tree, tmap
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import HookError

Hook = Callable[..., Any]


def _with(hooks: dict[str, Any]) -> Method:
    return compose(build_method("fedavg"), Part("mine", **hooks))


def _first_round(method: Method, engine: EngineSettings = LOOP) -> None:
    sim = simulate(method, engine=engine)
    try:
        sim.presented(run_rounds(sim, rounds=1))
    finally:
        sim.close()


def _told(method: Method) -> str:
    with pytest.raises(HookError) as caught:
        _first_round(method)
    line = str(caught.value)
    assert "\n" not in line
    assert caught.value.exit_code == 2
    return line


def _scalar(outputs: Any, batch: Any, slot: Tree) -> Tensor:
    return F.cross_entropy(outputs.logits, batch.y)


def _first(tree: Tree) -> str:
    return sorted(tree)[0]


def _in_place(tree: Tree) -> Tree:
    """The gradients, doubled where they lie."""
    return {name: leaf.mul_(2) for name, leaf in tree.items()}


RETURNS: list[tuple[str, Hook, str]] = [
    ("loss", _scalar, "one value per sample [4], not float64 []"),
    ("loss", lambda o, b, s: None, "one value per sample [4], not None"),
    ("loss", lambda o, b, s: b.y, "one value per sample [4], not int64 [4]"),
    ("loss", lambda o, b, s: o.logits, "one value per sample [4], not float64 [4, 4]"),
    ("weight", lambda o, b, s: b.mask.unsqueeze(1), "one value per sample [4], not float64 [4, 1]"),
    (
        "penalty",
        lambda o, b, s: o.logits,
        "one value per sample [4], or one number [] for the whole batch, not float64 [4, 4]",
    ),
    ("adjust", lambda g, s, step: g, "two values, gradients and its slot, not a dict"),
    ("adjust", lambda g, s, step: None, "two values, gradients and its slot, not None"),
    ("adjust", lambda g, s, step: ({}, s), "gradients under the names it was given, not without body.1.bias"),
    (
        "adjust",
        lambda g, s, step: (g | {"more": torch.ones(2)}, s),
        "gradients under the names it was given, not with more",
    ),
    (
        "adjust",
        lambda g, s, step: (g | {"head.bias": torch.ones(2).double()}, s),
        "gradients with float64 [4] at head.bias, not float64 [2]",
    ),
    (
        "adjust",
        lambda g, s, step: (tmap(Tensor.float, g), s),
        "gradients with float64 [6] at body.1.bias, not float32 [6]",
    ),
    ("adjust", lambda g, s, step: (g, {"n": torch.ones(())}), "its slot under the names it was given, not with n"),
    ("gradient", lambda s, step: step.gradient_at(step.params), "two values, a Gradient and its slot, not a Gradient"),
    ("gradient", lambda s, step: (step.params, s), "a Gradient, not a dict"),
    (
        "gradient",
        lambda s, step: (step.gradient_at(step.params)._replace(loss=torch.ones(2)), s),
        "a Gradient with a loss [], not float32 [2]",
    ),
    (
        "gradient",
        lambda s, step: (step.gradient_at(step.params)._replace(outputs=None), s),
        "a Gradient with the outputs of its pass (Outputs), not None",
    ),
    ("start", lambda p, shared, m, stats: None, "a tree (a dict of tensors), not None"),
    ("start", lambda p, shared, m, stats: {"n": 3}, "a tree (a dict of tensors), not an int at 'n'"),
    ("start", lambda p, shared, m, stats: {1: p}, "a tree (a dict of tensors) under words, not under 1"),
    ("finish", lambda d, s, m, stats: {}, "two values, what it uploads and its memory, not a dict"),
    ("finish", lambda d, s, m, stats: (0.5, m), "what it uploads, not a float"),
    ("enroll", lambda p, b, classes: None, "a tree (a dict of tensors), not None"),
    ("survey", lambda data, classes: data.labels, "a tree (a dict of tensors), not int64 [4]"),
    ("tally", lambda data, classes: [1], "a tree (a dict of tensors), not a list"),
    ("init", lambda p, census, surveys: None, "a tree (a dict of tensors), not None"),
    ("send", lambda slot, round: round, "a tree (a dict of tensors), not an int"),
    ("propose", lambda slot, round, cohort: cohort, "a list of tasks, not of an int"),
    ("observe", lambda data, visit: None, "a tree (a dict of tensors), not None"),
    ("prepare", lambda data, visit: data, "two values, data and its memory, not a ClientData"),
    ("prepare", lambda data, visit: (data._replace(rows=data.rows[:2]), {}), "as many labels as rows, not 4 for 2"),
    ("prepare", lambda data, visit: (data.rows, {}), "the client's data (ClientData), not int64 [4]"),
    ("weigh", lambda w, s, e: w, "two values, weights and its slot, not float64 [3]"),
    ("weigh", lambda w, s, e: (2 * w, s), "weights that sum to 1, not to 2"),
    ("weigh", lambda w, s, e: (w[:2], s), "weights [3], one per reply, not float64 [2]"),
    ("weigh", lambda w, s, e: (w.tolist(), s), "weights [3], one per reply, not a list"),
    ("weigh", lambda w, s, e: (w * torch.nan, s), "finite weights, not [nan, nan, nan]"),
    (
        "weigh",
        lambda w, s, e: (torch.tensor([-0.5, 0.5, 1.0]), s),
        "weights of 0 or more, not -0.5 (a rule that means it says extrapolates = True)",
    ),
    ("choose", lambda s, replies, judge: (torch.ones(3), s), "rows [K] of the replies to use, not float32 [3]"),
    ("treat", lambda d, s, e: None, "deltas as a dict of tensors, not None"),
    ("treat", lambda d, s, e: tmap(lambda leaf: leaf[0], d), "deltas with float64 [3, 6] at body.1.bias, not float64 [6]"),
    ("update", lambda d, s, e: d, "two values, a delta and its slot, not a dict"),
    ("update", lambda d, s, e: (e.replies.delta, s), "a delta with float64 [6] at body.1.bias, not float64 [3, 6]"),
    ("present", lambda p, b, s: p, "two values, parameters and buffers, not a dict"),
    ("own", lambda p, b, m: ({}, b), "parameters under the names it was given, not without body.1.bias"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hook", "function", "words"), RETURNS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_what_a_hook_returns_is_told_by_name(hook: str, function: Hook, words: str) -> None:
    assert _told(_with({hook: function})).startswith(f"mine.{hook} must return {words}")


def _spoiling(change: Hook, answer: Hook) -> Hook:
    def hook(*given: Any) -> Any:
        change(*given)
        return answer(*given)

    return hook


def _diary() -> dict[str, Any]:
    return {"enroll": lambda p, b, classes: {"n": torch.zeros(())}}


def _per_sample(outputs: Any, batch: Any, slot: Tree) -> Tensor:
    return F.cross_entropy(outputs.logits, batch.y, reduction="none")


CHANGES: list[tuple[str, Hook, Hook, str]] = [
    ("loss", lambda o, b, s: o.logits.sub_(1), _per_sample, "what it was given"),
    ("loss", lambda o, b, s: b.y.clamp_(max=1), _per_sample, "the batch.y"),
    ("loss", lambda o, b, s: b.x.mul_(2), _per_sample, "the batch.x"),
    ("adjust", lambda g, s, step: _in_place(g), lambda g, s, step: (g, s), "the gradients.body.1.bias"),
    ("adjust", lambda g, s, step: _in_place(step.params), lambda g, s, step: (g, s), "the step.params.body.1.bias"),
    ("adjust", lambda g, s, step: g.update(tmap(torch.clone, g)), lambda g, s, step: (g, s), "the gradients"),
    ("start", lambda p, shared, m, stats: stats.counts.add_(1), lambda *g: {}, "the stats.counts"),
    ("start", lambda p, shared, m, stats: _in_place(p), lambda *g: {}, "the parameters.body.1.bias"),
    ("finish", lambda d, s, m, stats: m["n"].add_(1), lambda d, s, m, stats: ({}, m), "its memory.n"),
    ("prepare", lambda data, visit: data.labels.fill_(0), lambda data, visit: (data, {}), "the client's data.labels"),
    ("survey", lambda data, classes: data.rows.add_(0), lambda *g: {}, "the client's data.rows"),
    ("init", lambda p, census, surveys: census.samples.add_(1), lambda *g: {}, "the census.samples"),
    ("weigh", lambda w, s, e: w.mul_(1), lambda w, s, e: (w, s), "the weights"),
    ("treat", lambda d, s, e: _in_place(d), lambda d, s, e: d, "the deltas.body.1.bias"),
    ("update", lambda d, s, e: e.replies.loss.zero_(), lambda d, s, e: (d, s), "the exchange.replies.loss"),
    ("update", lambda d, s, e: s.update(n=torch.ones(())), lambda d, s, e: (d, s), "its slot"),
    ("present", lambda p, b, s: _in_place(p), lambda p, b, s: (p, b), "the parameters.body.1.bias"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hook", "change", "answer", "what"), CHANGES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_change_in_place_is_told_by_name(hook: str, change: Hook, answer: Hook, what: str) -> None:
    hooks = {hook: _spoiling(change, answer)} | (_diary() if hook == "finish" else {})
    assert _told(_with(hooks)).startswith(f"mine.{hook} changes {what} in place; ")


def test_a_hook_that_fails_is_told_by_name() -> None:
    line = _told(_with({"adjust": lambda g, s, step: (g["head"], s)}))
    assert line == "mine.adjust fails: KeyError: 'head'"


def test_memory_keeps_its_names_and_shapes() -> None:
    hooks = _diary() | {"finish": lambda d, s, m, stats: ({}, {"n": torch.zeros(2)})}
    assert _told(_with(hooks)).startswith(
        "mine.finish must return its memory with float32 [] at n, not float32 [2]"
    )


def test_a_model_that_is_adapted_to_nothing_is_told_by_name() -> None:
    assert _told(_with({"adapt": lambda module: None})) == "mine.adapt must return an nn.Module, not None"


ACROSS: dict[str, dict[str, Any]] = {
    "loss": {"loss": _scalar},
    "in place": {"adjust": lambda g, s, step: (_in_place(g), s)},
    "survey": {"survey": lambda data, classes: None},
    "weigh": {"weigh": lambda w, s, e: (w + 1, s)},
    "update": {"update": lambda d, s, e: None},
}


@pytest.mark.parametrize(
    "engine", [replace(STACKED, chunk=2), replace(LOOP, processes=2)], ids=["stacked", "processes"]
)
@pytest.mark.parametrize("hooks", ACROSS.values(), ids=ACROSS)
def test_every_engine_gives_the_same_line(hooks: dict[str, Any], engine: EngineSettings) -> None:
    expected = _told(_with(hooks))
    with pytest.raises(HookError) as caught:
        _first_round(_with(hooks), engine)
    assert str(caught.value) == expected


@pytest.mark.parametrize("hooks", ACROSS.values(), ids=ACROSS)
def test_a_server_of_flower_gives_the_same_line(hooks: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")
    from counterpoise.contracts.local_grid import over_flower

    expected = _told(_with(hooks))
    with pytest.raises(HookError) as caught:
        run_rounds(over_flower(_with(hooks), tmp_path)[0], rounds=1)  # type: ignore[arg-type]
    assert str(caught.value) == expected


def test_weights_are_checked_in_every_round() -> None:
    def weigh(weights: Tensor, slot: Tree, exchange: Any) -> tuple[Tensor, Tree]:
        return weights * (1 + exchange.round // 2), slot

    sim = simulate(_with({"weigh": weigh}))
    state = run_rounds(sim, rounds=2)
    with pytest.raises(HookError, match=r"mine\.weigh must return weights that sum to 1, not to 2"):
        run_rounds(sim, state, 1)


def test_weights_in_float32_and_a_rule_that_extrapolates_pass() -> None:
    def weigh(weights: Tensor, slot: Tree, exchange: Any) -> tuple[Tensor, Tree]:
        return torch.tensor([-0.5, 0.7, 0.8]), slot

    run_rounds(
        simulate(compose(build_method("fedavg"), Part("far", weigh=weigh, extrapolates=True))), rounds=1
    )


@pytest.mark.parametrize("hook", ["start", "loss", "penalty", "adjust", "finish", "weigh", "treat", "update"])
def test_what_a_sound_hook_returns_passes_as_it_is(hook: str) -> None:
    sound: dict[str, Hook] = {
        "start": lambda p, shared, m, stats: {"deep": {"n": stats.lr}},
        "loss": _per_sample,
        "penalty": lambda o, b, s: (o.logits.square().mean(-1) * b.mask).sum(),
        "adjust": lambda g, s, step: (tmap(lambda leaf: 2 * leaf, g), s),
        "finish": lambda d, s, m, stats: ({"size": d[_first(d)].sum()}, m),
        "weigh": lambda w, s, e: (w, {}),
        "treat": lambda d, s, e: d,
        "update": lambda d, s, e: (d, {"n": torch.ones(())}),
    }
    sim = simulate(_with({hook: sound[hook]}))
    assert sim.advance(sim.open())[1].loss is not None
