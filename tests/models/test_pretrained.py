"""Given weights must fit tensor by tensor, patterns must fit something, and a fixed head is a simplex frame."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from federations import small_model
from safetensors.torch import save_file
from torch import Tensor, nn

from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError, DataError
from counterpoise.models.heads import CosineHead, EtfHead, exchange_head
from counterpoise.models.init import initialise
from counterpoise.models.pretrained import check_patterns, freeze, load_weights


def _model(seed: int = 0, **arguments: object) -> nn.Module:
    module = small_model(**arguments)
    initialise(module, generator(seed, "test"))
    return module


def _file(folder: Path, tensors: dict[str, Tensor]) -> Path:
    save_file(tensors, folder / "given.safetensors")
    return folder / "given.safetensors"


def test_a_model_with_running_statistics_takes_every_tensor_of_the_file(tmp_path: Path) -> None:
    given, module = _model(1, hidden=[6], norm="batch"), _model(0, hidden=[6], norm="batch")
    given(torch.randn(8, 5, generator=generator(0, "x")) + 2)  # moves the running statistics
    assert load_weights(module, _file(tmp_path, given.state_dict())) == []
    for name, tensor in given.state_dict().items():
        assert torch.equal(module.state_dict()[name], tensor), name
    assert module.state_dict()["body.2.num_batches_tracked"] == 1


def test_weights_of_another_precision_are_converted(tmp_path: Path) -> None:
    tensors = {name: t.double() + 1e-12 for name, t in _model(1).state_dict().items()}
    module = _model(0).double()
    load_weights(module, _file(tmp_path, tensors))
    assert torch.equal(module.state_dict()["head.bias"], tensors["head.bias"])


def test_tensors_of_the_head_may_be_missing_and_stay(tmp_path: Path) -> None:
    given, module, before = _model(1).state_dict(), _model(0), _model(0).state_dict()
    body = {name: t for name, t in given.items() if name.startswith("body.")}
    assert load_weights(module, _file(tmp_path, body)) == ["head.weight", "head.bias"]
    assert torch.equal(module.state_dict()["head.weight"], before["head.weight"])
    assert torch.equal(module.state_dict()["body.1.bias"], given["body.1.bias"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"body.1.weight": None}, r"lacks 'body\.1\.weight'"),
        ({"body.1.weight": torch.zeros(6, 4)}, r"'body\.1\.weight' .* must have the shape \[6, 5\], not \[6, 4\]"),
        ({"head.bias": torch.zeros(7)}, r"'head\.bias' .* must have the shape \[4\], not \[7\]"),
        ({"body.9.weight": torch.zeros(1)}, r"has 'body\.9\.weight', which the model does not have"),
        ({"head.bias": torch.zeros(4, dtype=torch.int64)}, r"'head\.bias' .* must be float32, not torch\.int64"),
    ],
)  # fmt: skip
def test_the_first_tensor_that_does_not_fit_is_named(
    change: dict[str, Tensor | None], words: str, tmp_path: Path
) -> None:
    tensors = {name: t for name, t in (_model().state_dict() | change).items() if t is not None}
    module, before = _model(1), _model(1).state_dict()
    with pytest.raises(ConfigError, match=f"model\\.weights: .*{words}"):
        load_weights(module, _file(tmp_path, tensors))
    assert all(torch.equal(module.state_dict()[name], t) for name, t in before.items())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(value: float, tmp_path: Path) -> None:
    tensors = _model().state_dict() | {"head.bias": torch.full((4,), value)}
    with pytest.raises(DataError, match=r"'head\.bias' .* has a number that is not finite"):
        load_weights(_model(), _file(tmp_path, tensors))


@pytest.mark.parametrize("content", [b"", b"no tensors in here", b"\xff" * 64, b"PK\x03\x04" + b"0" * 64])
def test_a_file_of_another_kind_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="must be a readable safetensors file") as refused:
        load_weights(_model(), path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["none.safetensors", ".", "x" * 300, "\0"])
def test_a_file_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"model\.weights: "):
        load_weights(_model(), tmp_path / name)


def test_patterns_freeze_what_they_fit() -> None:
    module = _model(hidden=[6, 6])
    freeze(module, ["body.1.*", "*.bias"])
    trained = [name for name, p in module.named_parameters() if p.requires_grad]
    assert trained == ["body.4.weight", "head.weight"]


def test_a_pattern_that_fits_nothing_is_refused_with_near_names() -> None:
    with pytest.raises(
        ConfigError, match=r"model\.freeze: 'body\.1\.wight' .* did you mean 'body\.1\.weight'\?"
    ):
        check_patterns(_model(), ["body.1.wight"])
    with pytest.raises(ConfigError, match=r"'BODY\.\*' fits no parameter; one of body\.1\.bias"):
        check_patterns(_model(), ["BODY.*"])


@pytest.mark.parametrize(("classes", "features"), [(2, 2), (4, 6), (10, 64), (100, 100)])
def test_a_fixed_head_is_a_simplex_frame(classes: int, features: int) -> None:
    head = EtfHead(features, classes).double()
    initialise(head, generator(0, "etf"))
    wanted = classes / (classes - 1) * (torch.eye(classes, dtype=torch.float64) - 1 / classes)
    torch.testing.assert_close(head.weight @ head.weight.T, wanted, rtol=0, atol=1e-12)
    assert not head.weight.requires_grad
    assert head.is_frame()


def test_a_fixed_head_belongs_to_its_stream_in_any_precision() -> None:
    heads = [EtfHead(6, 4), EtfHead(6, 4).double(), EtfHead(6, 4)]
    for head, seed in zip(heads, (0, 0, 1), strict=True):
        head.draw(generator(seed, "etf"))
    assert torch.equal(heads[0].weight, heads[1].weight.float())
    assert not torch.equal(heads[0].weight, heads[2].weight)


@pytest.mark.parametrize(("classes", "features"), [(4, 3), (1, 3)])
def test_a_frame_that_does_not_exist_is_refused(classes: int, features: int) -> None:
    with pytest.raises(ConfigError, match=f"not {classes} classes and {features} features"):
        EtfHead(features, classes)


def test_a_trained_head_does_not_take_the_place_of_a_fixed_one(tmp_path: Path) -> None:
    fixed, trained = exchange_head(_model(), "etf"), _model(1).state_dict()
    del trained["head.bias"]
    with pytest.raises(ConfigError, match="is no equiangular tight frame"):
        load_weights(fixed, _file(tmp_path, trained))


def test_heads_by_name() -> None:
    assert type(exchange_head(small_model(), None).head) is nn.Linear
    assert type(exchange_head(small_model(), "linear").head) is nn.Linear
    assert type(exchange_head(small_model(), "cosine").head) is CosineHead
    assert type(exchange_head(exchange_head(small_model(), "cosine"), "linear").head) is nn.Linear
    with pytest.raises(
        ConfigError, match=r"no linear layer named 'head', which model\.head = 'etf' replaces"
    ):
        exchange_head(nn.Sequential(nn.Linear(3, 2)), "etf")


class _Ones(nn.Module):
    """Draws itself, and no number of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def draw(self, stream: torch.Generator) -> None:
        self.weight.fill_(1.0)


def test_a_layer_may_draw_itself() -> None:
    own, after = _Ones(), nn.Linear(2, 2)
    initialise(nn.Sequential(own, after), generator(0, "init"))
    alone = nn.Linear(2, 2)
    initialise(alone, generator(0, "init"))
    assert own.weight.tolist() == [1.0, 1.0, 1.0]
    assert torch.equal(after.weight, alone.weight)
