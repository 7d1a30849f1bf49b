"""What holds of every registered model; a new one joins by its registration alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.functional import cross_entropy

from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.models.init import initialise
from counterpoise.models.model import MODELS

CLASSES, CLIENTS, BATCH = 5, 3, 3
State = dict[str, Tensor]


def _variants() -> Iterator[Any]:
    """Every model, with every norm it offers; slim where it has a width, so that the tests stay quick."""
    for name in MODELS.names():
        parameters = MODELS.entry(name).parameters
        slim = {"width": 4} if "width" in parameters else {}
        norms = get_args(parameters["norm"].type) if "norm" in parameters else (None,)
        for norm in norms:
            yield pytest.param(name, slim | ({"norm": norm} if norm else {}), id=f"{name}-{norm or 'plain'}")


every_variant = pytest.mark.parametrize(("name", "arguments"), list(_variants()))
image_models = [name for name in MODELS.names() if len(MODELS.entry(name).facts["example"]) == 3]


def _drawn(
    name: str, arguments: dict[str, Any], seed: int = 0, dtype: torch.dtype = torch.float64
) -> nn.Module:
    module = MODELS.build(name, arguments)(MODELS.entry(name).facts["example"], CLASSES)
    initialise(module, generator(seed, "test"))
    return module.to(dtype)


def _inputs(name: str, *lead: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*lead, *MODELS.entry(name).facts["example"], generator=generator(1, "x")).to(dtype)


def _clients(name: str, arguments: dict[str, Any], dtype: torch.dtype) -> tuple[nn.Module, State, State]:
    """A module, and the parameters and buffers of unlike clients stacked; running statistics differ as well."""
    modules = [_drawn(name, arguments, seed, dtype) for seed in range(CLIENTS)]
    for module in modules:
        module.train()(_inputs(name, BATCH, dtype=dtype) * 3 + 1)
    params, buffers = stack_module_state(modules)
    return modules[0], params, buffers


def _client(stacked: State, k: int) -> State:
    return {name: tensor[k] for name, tensor in stacked.items()}


def _assert_equal(stacked: State, k: int, single: State, tolerance: float) -> None:
    assert stacked.keys() == single.keys()
    for name, tensor in single.items():
        torch.testing.assert_close(stacked[name][k], tensor, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-3)])
@every_variant
def test_a_stacked_training_step_equals_the_loop(
    name: str, arguments: dict[str, Any], dtype: torch.dtype, tolerance: float
) -> None:
    module, params, buffers = _clients(name, arguments, dtype)
    module.train()
    x = _inputs(name, CLIENTS, BATCH, dtype=dtype)
    y = torch.arange(CLIENTS * BATCH).view(CLIENTS, BATCH) % CLASSES

    def step(params: State, buffers: State, x: Tensor, y: Tensor) -> tuple[State, State, Tensor]:
        def loss(params: State) -> tuple[Tensor, tuple[State, Tensor]]:
            fresh = {name: buffer.clone() for name, buffer in buffers.items()}
            logits = functional_call(module, (params, fresh), (x,))
            return cross_entropy(logits, y), (fresh, logits)

        grads, (fresh, logits) = grad(loss, has_aux=True)(params)
        return grads, fresh, logits

    grads, fresh, logits = vmap(step)(params, buffers, x, y)
    for k in range(CLIENTS):
        single_grads, single_fresh, single_logits = step(_client(params, k), _client(buffers, k), x[k], y[k])
        _assert_equal(grads, k, single_grads, tolerance)
        _assert_equal(fresh, k, single_fresh, tolerance)
        torch.testing.assert_close(logits[k], single_logits, rtol=tolerance, atol=tolerance)


@every_variant
def test_a_stacked_evaluation_equals_the_loop(name: str, arguments: dict[str, Any]) -> None:
    module, params, buffers = _clients(name, arguments, torch.float64)
    module.eval()
    x = _inputs(name, CLIENTS, BATCH)

    def forward(params: State, buffers: State, x: Tensor) -> Tensor:
        return functional_call(module, (params, buffers), (x,))

    before = {name: buffer.clone() for name, buffer in buffers.items()}
    logits = vmap(forward)(params, buffers, x)
    shared = vmap(forward, in_dims=(0, 0, None))(params, buffers, x[0])
    assert all(torch.equal(before[name], buffers[name]) for name in buffers)
    for k in range(CLIENTS):
        single = _client(params, k), _client(buffers, k)
        torch.testing.assert_close(logits[k], forward(*single, x[k]), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(shared[k], forward(*single, x[0]), rtol=1e-10, atol=1e-10)


@every_variant
def test_the_functional_gradient_is_the_one_of_backward(name: str, arguments: dict[str, Any]) -> None:
    module = _drawn(name, arguments).train()
    x, y = _inputs(name, BATCH), torch.arange(BATCH)
    params = {key: p.detach().clone() for key, p in module.named_parameters()}

    def loss(params: State) -> Tensor:
        fresh = {key: b.clone() for key, b in module.named_buffers()}
        return cross_entropy(functional_call(module, (params, fresh), (x,)), y)

    functional = grad(loss)(params)
    cross_entropy(module(x), y).backward()
    for key, parameter in module.named_parameters():
        torch.testing.assert_close(functional[key], parameter.grad, rtol=1e-9, atol=1e-12, msg=key)
    assert any(g.abs().max() > 0 for g in functional.values())


@every_variant
def test_the_head_reads_the_features(name: str, arguments: dict[str, Any]) -> None:
    module = _drawn(name, arguments).eval()
    x = _inputs(name, BATCH)
    head, features = module.head, module.features(x)
    assert isinstance(head, nn.Linear)
    assert features.shape == (BATCH, head.in_features)
    assert module(x).shape == (BATCH, CLASSES)
    assert torch.equal(module(x), head(features))
    assert [m for m in module.modules() if isinstance(m, nn.Linear)][-1] is head


@every_variant
def test_a_batch_of_one_trains_without_nan(name: str, arguments: dict[str, Any]) -> None:
    module = _drawn(name, arguments).train()
    cross_entropy(module(_inputs(name, 1)), torch.tensor([0])).backward()
    finite = [*(p.grad for p in module.parameters()), *module.buffers()]
    assert all(torch.isfinite(tensor).all() for tensor in finite)


@every_variant
def test_no_layer_works_in_place_or_at_random(name: str, arguments: dict[str, Any]) -> None:
    module = _drawn(name, arguments).eval()
    x = _inputs(name, BATCH)
    kept = x.clone()
    assert torch.equal(module(x), module(x))
    assert torch.equal(x, kept)
    assert not any(getattr(layer, "inplace", False) for layer in module.modules())


@pytest.mark.parametrize("name", image_models)
@pytest.mark.parametrize("side", [8, 28, 32, 64])
def test_image_models_fit_any_reasonable_size(name: str, side: int) -> None:
    entry = MODELS.entry(name)
    channels = 1 if side in (8, 28) else 3
    slim = {"width": 4} if "width" in entry.parameters else {}
    module = entry.build(slim)((channels, side, side), CLASSES)
    assert module(torch.zeros(2, channels, side, side)).shape == (2, CLASSES)


@pytest.mark.parametrize("name", ["lenet5", "convnet", "climb_cnn", "resnet8", "resnet18", "resnet34"])
@pytest.mark.parametrize("shape", [(196,), (6, 128)])
def test_convolutions_refuse_inputs_that_are_no_images(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"model {name}: .* must be an image .*, not of shape .*{shape[-1]}\]",
    ):
        MODELS.build(name)(shape, CLASSES)


@pytest.mark.parametrize("shape", [(3, 32, 32), (7,), (6, 4)])
def test_cnn_lstm_refuses_inputs_that_are_no_signals(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"model cnn_lstm: .* must be \[steps\] or "):
        MODELS.build("cnn_lstm")(shape, CLASSES)


@pytest.mark.parametrize("shape", [(196,), (1, 196), (6, 128), (8,)])
def test_cnn_lstm_reads_rows_and_channels(shape: tuple[int, ...]) -> None:
    module = MODELS.build("cnn_lstm", {"width": 4, "hidden": 6})(shape, CLASSES)
    assert module.features(torch.zeros(2, *shape)).shape == (2, 6)


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match="groups = 3 does not divide 64 channels"):
        MODELS.build("resnet8", {"norm": "group", "groups": 3})((3, 32, 32), CLASSES)


def test_a_wrong_norm_is_refused_with_the_legal_ones() -> None:
    with pytest.raises(ConfigError, match="norm must be 'batch' or 'group' or 'layer' or 'none', not 'bach'"):
        MODELS.build("resnet18", {"norm": "bach"})
