"""Networks for tables and signals, after FedCGNM's appendix C.1, and the recurrence they need."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from counterpoise.errors import ConfigError
from counterpoise.models.classifier import Classifier
from counterpoise.models.mlp import mlp
from counterpoise.models.model import Builder, model
from counterpoise.models.norms import NormKind, make_norm
from counterpoise.registry.schema import Count


@model("ffnn", paper="FedCGNM", example=(104,))
def ffnn(norm: NormKind = "batch", groups: Count = 1) -> Builder:
    """Adult: 104-32-16-8-2 with ReLU and a norm on each hidden layer."""
    return mlp(hidden=(32, 16, 8), norm=norm, groups=groups)


@model("cnn_lstm", paper="FedCGNM; Pear & Kibria 2024", example=(196,))
def cnn_lstm(norm: NormKind = "batch", groups: Count = 2, width: Count = 128, hidden: Count = 128) -> Builder:
    """Convolutions of width, 2 width and 4 width (kernel 3, ReLU, norm, max-pool 2), an LSTM, its last state to C.

    Inputs are one row of numbers [T], read as one channel (UNSW-NB15: 196), or channels and steps [C, T] (HAPT: 6 x 128).
    The paper gives the convolutions' widths only; kernel, pooling and the LSTM's width are ours.
    """

    def build(input_shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, steps = _signal_shape(input_shape)
        layers: list[nn.Module] = [nn.Flatten(), nn.Unflatten(1, (channels, steps))]
        for inputs, outputs in pairwise((channels, width, 2 * width, 4 * width)):
            conv = nn.Conv1d(inputs, outputs, 3, padding=1)
            layers += [conv, nn.ReLU(), make_norm(norm, outputs, groups), nn.MaxPool1d(2)]
        return Classifier(nn.Sequential(*layers, LSTM(4 * width, hidden)), input_shape, classes)

    return build


def _signal_shape(input_shape: tuple[int, ...]) -> tuple[int, int]:
    """Channels and steps; after three halvings at least one step must remain."""
    if len(input_shape) not in (1, 2) or input_shape[-1] < 8:
        raise ConfigError(
            f"model cnn_lstm: the input must be [steps] or [channels, steps] with at least 8 steps, not of shape {list(input_shape)}"
        )
    return (1, *input_shape)[-2], input_shape[-1]


class LSTM(nn.Module):
    """[B, inputs, T], as a convolution leaves it, to the last hidden state [B, hidden].

    Weights have the names, shapes and gate order of a one-layer ``torch.nn.LSTM``, so its state dict fits.
    """

    activated = True  # what it returns is an activation, though no layer of its own computes it

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.weight_ih_l0 = nn.Parameter(torch.zeros(4 * hidden, inputs))
        self.weight_hh_l0 = nn.Parameter(torch.zeros(4 * hidden, hidden))
        self.bias_ih_l0 = nn.Parameter(torch.zeros(4 * hidden))
        self.bias_hh_l0 = nn.Parameter(torch.zeros(4 * hidden))

    def forward(self, x: Tensor) -> Tensor:
        arriving = linear(
            x.transpose(1, 2), self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0
        )  # [B, T, 4 hidden]
        state = cell = x.new_zeros(x.shape[0], self.hidden)
        for gates in arriving.unbind(1):
            admit, keep, candidate, emit = (gates + linear(state, self.weight_hh_l0)).chunk(4, dim=1)
            cell = keep.sigmoid() * cell + admit.sigmoid() * candidate.tanh()
            state = emit.sigmoid() * cell.tanh()
        return state
