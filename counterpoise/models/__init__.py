"""Models by name: importing this package registers them all."""

from counterpoise.models.convnet import climb_cnn, convnet
from counterpoise.models.heads import CosineHead, replace_head
from counterpoise.models.init import initialise
from counterpoise.models.lenet import lenet5
from counterpoise.models.mlp import mlp, mlp_001, mlp_004
from counterpoise.models.model import MODELS, Builder, model
from counterpoise.models.resnet import resnet8, resnet18, resnet34
from counterpoise.models.tabular import cnn_lstm, ffnn

__all__ = [
    "MODELS",
    "Builder",
    "CosineHead",
    "climb_cnn",
    "cnn_lstm",
    "convnet",
    "ffnn",
    "initialise",
    "lenet5",
    "mlp",
    "mlp_001",
    "mlp_004",
    "model",
    "replace_head",
    "resnet8",
    "resnet18",
    "resnet34",
]
