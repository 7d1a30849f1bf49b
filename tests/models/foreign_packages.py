"""Networks of timm, torchvision and transformers, built without a download; nothing is imported before one is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import torch
from foreign import CLASSES, LENGTH, MASKED, WORDS
from torch import nn

from counterpoise.models.inputs import SeveralInputs

_declared: list[torch.library.Library] = []


def import_torchvision() -> Any:
    """The package; beside a torch for CPUs also one built for GPUs, whose own operations cannot be loaded there.

    It then asks for two of them by name when it is imported. No network here calls them.
    """
    try:
        return import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)  # it is declared as long as this lives
    return import_module("torchvision")


def _vision(name: str, **given: Any) -> Callable[[], nn.Module]:
    return lambda: import_torchvision().models.get_model(name, weights=None, num_classes=CLASSES, **given)  # type: ignore[no-any-return]


def _timm(name: str, **given: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import_torchvision()  # timm needs it
        made: nn.Module = import_module("timm").create_model(
            name, pretrained=False, num_classes=CLASSES, **given
        )
        return made

    return build


def _transformer(name: str, masked: bool = True, **given: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import_torchvision()  # transformers imports it where it is installed
        package = import_module("transformers")
        kind = "Image" if not masked else "Sequence"
        config = getattr(package, f"{name}Config")(num_labels=CLASSES, **given)
        made: nn.Module = getattr(package, f"{name}For{kind}Classification")(config)
        return SeveralInputs(made, MASKED) if masked else made

    return build


def _small_vit() -> nn.Module:
    """torchvision's ViT in a small size, since its smallest name has 86 million parameters."""
    import_torchvision()
    transformer = import_module("torchvision.models.vision_transformer").VisionTransformer
    made: nn.Module = transformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32,
        dropout=0.1, attention_dropout=0.1, num_classes=CLASSES,
    )  # fmt: skip
    return made


class Packaged(NamedTuple):
    """A network of a package, what is in it, and what it is fed: images of so many pixels, or masked words."""

    build: Callable[[], nn.Module]
    layers: str
    pixels: int | None = 32
    has_head: bool = True
    close: float = 1e-8


TEXT = {"vocab_size": WORDS, "max_position_embeddings": LENGTH}
SMALL = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
DROPS = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}

PACKAGED: Mapping[str, Packaged] = {
    "torchvision resnet18": Packaged(_vision("resnet18"), "BatchNorm, in-place ReLU"),
    "torchvision mobilenet_v3_small": Packaged(_vision("mobilenet_v3_small"), "squeeze and excite, Hardswish, dropout"),
    "torchvision efficientnet_b0": Packaged(_vision("efficientnet_b0"), "SiLU, stochastic depth, dropout", 64),
    "torchvision densenet121": Packaged(_vision("densenet121", drop_rate=0.1), "concatenation, BatchNorm, dropout"),
    "torchvision squeezenet1_1": Packaged(_vision("squeezenet1_1"), "logits from a convolution: no head; dropout", has_head=False),
    "torchvision shufflenet_v2_x0_5": Packaged(_vision("shufflenet_v2_x0_5"), "grouped convolutions, shuffled channels", 64),
    "torchvision VisionTransformer": Packaged(_small_vit, "`nn.MultiheadAttention`, class token, dropout"),
    "timm resnet10t": Packaged(_timm("resnet10t"), "BatchNorm, deep stem"),
    "timm convnext_atto": Packaged(_timm("convnext_atto", drop_path_rate=0.1), "LayerNorm, layer scale, stochastic depth"),
    "timm vit_tiny_patch16_224": Packaged(
        _timm("vit_tiny_patch16_224", img_size=32, drop_rate=0.1, drop_path_rate=0.1), "`img_size=32`; attention without dropout, stochastic depth"
    ),
    # A last bit of its first parameters changes even the loop's own run by more than 1e-8.
    "timm mobilenetv4_conv_small_035": Packaged(
        _timm("mobilenetv4_conv_small_035", drop_rate=0.1), "inverted bottlenecks, dropout", 64, close=1e-6
    ),
    "timm efficientvit_m0": Packaged(_timm("efficientvit_m0", img_size=64), "`img_size=64`; cascaded attention, BatchNorm1d before its head", 64),
    "timm mixer_s16_224": Packaged(_timm("mixer_s16_224", img_size=32), "`img_size=32`; MLPs over patches and channels"),
    "transformers Bert": Packaged(_transformer("Bert", **TEXT, **SMALL), "attention mask, dropout; answers `.logits`", None),
    "transformers DistilBert": Packaged(
        _transformer("DistilBert", **TEXT, dim=8, n_layers=2, n_heads=2, hidden_dim=12), "attention mask, dropout", None
    ),
    "transformers GPT2": Packaged(
        _transformer("GPT2", vocab_size=WORDS, n_positions=LENGTH, n_embd=8, n_layer=2, n_head=2, **ENDS), "causal mask; every token is scored, the last one taken", None
    ),
    "transformers Llama": Packaged(
        _transformer("Llama", **TEXT, **SMALL, **ENDS, num_key_value_heads=1), "rotary places, grouped queries, RMSNorm", None
    ),
    "transformers ViT": Packaged(
        _transformer("ViT", masked=False, image_size=32, patch_size=8, **SMALL, **DROPS), "class token, dropout"
    ),
}  # fmt: skip
