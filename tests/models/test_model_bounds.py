"""A model that does not fit into memory is refused before it is made."""

from __future__ import annotations

import time

import pytest
from torch import nn

from counterpoise.errors import ConfigError
from counterpoise.models.model import MODELS, build_model
from counterpoise.system import capacity

IMAGE, ROW = (3, 32, 32), (64,)


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("mlp", {"hidden": [1 << 31]}, ROW),
        ("mlp", {"hidden": [1 << 31, 1 << 31]}, ROW),
        ("mlp", {"hidden": [1 << 62, 1 << 62]}, ROW),
        ("mlp", {"hidden": [1 << 80]}, ROW),
        ("resnet8", {"width": 1 << 31, "groups": 2}, IMAGE),
        ("resnet34", {"width": 1 << 20}, IMAGE),
        ("cnn_lstm", {"width": 1 << 31}, ROW),
        ("cnn_lstm", {"hidden": 1 << 31}, ROW),
    ],
)
def test_a_width_that_no_memory_holds_is_refused_in_one_line(
    name: str, arguments: dict[str, object], shape: tuple[int, ...]
) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError, match=rf"^model {name}: ") as caught:
        build_model(name, MODELS.build(name, arguments), shape, 10)
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 5


def test_a_model_is_compared_with_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    build = MODELS.build("mlp", {"hidden": [10_000, 10_000]})  # 4 copies of 403 MB
    monkeypatch.setattr(capacity, "available_bytes", lambda: 1 << 30)
    with pytest.raises(ConfigError, match=r"in training it needs 1\.6 GB of memory; at most 1\.1 GB"):
        build_model("mlp", build, ROW, 10)


def test_a_model_that_fits_comes_out_as_without_the_bound() -> None:
    build = MODELS.build("cnn_lstm")
    plain, bounded = build(ROW, 10), build_model("cnn_lstm", build, ROW, 10)
    shapes = [{key: leaf.shape for key, leaf in model.state_dict().items()} for model in (plain, bounded)]
    assert shapes[0] == shapes[1]


def test_another_fault_of_a_builder_is_not_taken_for_its_size() -> None:
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        raise TypeError("no such layer")

    with pytest.raises(TypeError, match="no such layer"):
        build_model("odd", build, ROW, 10)
