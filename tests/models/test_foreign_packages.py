"""Networks of timm, torchvision and transformers, built without a download: they train alike in both engines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from federations import LOOP, STACKED, distance
from foreign import CLASSES, LENGTH, MASKED, WORDS, Foreign
from test_foreign_networks import CLOSE, trained
from torch import nn

from counterpoise.core.codec import digest
from counterpoise.models.inputs import SeveralInputs


def _timm(name: str) -> Callable[[], nn.Module]:
    timm = pytest.importorskip("timm", reason="timm is not installed: pip install timm==1.0.30")
    return lambda: timm.create_model(name, pretrained=False, num_classes=CLASSES)  # type: ignore[no-any-return]


def _torchvision(name: str) -> Callable[[], nn.Module]:
    vision = pytest.importorskip(
        "torchvision", reason="torchvision is not installed: pip install torchvision==0.28.0"
    )
    return lambda: vision.models.get_model(name, weights=None, num_classes=CLASSES)  # type: ignore[no-any-return]


def _bert() -> Callable[[], nn.Module]:
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install transformers==5.22.2"
    )
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=LENGTH, num_labels=CLASSES, attn_implementation="eager",
    )  # fmt: skip
    return lambda: SeveralInputs(transformers.BertForSequenceClassification(config), MASKED)


def _check(network: Foreign) -> None:
    alone = trained(network, LOOP)

    assert distance(alone, trained(network, STACKED)) < CLOSE
    assert digest(alone) == digest(trained(network, LOOP))


def test_a_network_of_timm_trains() -> None:
    _check(Foreign(_timm("test_resnet"), "a small ResNet of timm"))


def test_a_network_of_torchvision_trains() -> None:
    _check(Foreign(_torchvision("shufflenet_v2_x0_5"), "grouped convolutions, BatchNorm"))


def test_a_bert_of_transformers_trains_with_its_mask() -> None:
    _check(Foreign(_bert(), "BERT from a config", "masked"))
