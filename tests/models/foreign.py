"""Networks as people bring them: plain torch modules that know nothing of this package, a few hundred parameters each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from counterpoise.models.inputs import Piece, SeveralInputs

CLASSES, WORDS, LENGTH = 4, 20, 6
IMAGE, SERIES, TOKENS = (3, 8, 8), (8, 3), (LENGTH,)
MASKED = {"input_ids": Piece((LENGTH,)), "attention_mask": Piece((LENGTH,))}


class Lstm(nn.Module):
    """Two layers with dropout between them; the last state is read out."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 5, num_layers=2, batch_first=True, dropout=0.3)
        self.fc = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x)
        return self.fc(out[:, -1])  # type: ignore[no-any-return]


class Gru(nn.Module):
    """In both directions; answers logits and states, as a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out, last = self.rnn(x)
        return self.fc(out.mean(1)), last


class Transformer(nn.Module):
    """torch's own encoder, with its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(3, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.2, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.encoder(self.enter(x)).mean(1))  # type: ignore[no-any-return]


class TextClassifier(nn.Module):
    """The mean of the words' embeddings; padding is word 0."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 6, padding_idx=0)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.drop(self.words(ids).mean(1)))  # type: ignore[no-any-return]


class TextConvolution(nn.Module):
    """Windows of words, the largest answer of each filter."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 5)
        self.windows = nn.ModuleList(nn.Conv1d(5, 4, width, padding=width // 2) for width in (1, 3))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.words(ids).transpose(1, 2)
        found = [F.gelu(window(rows)).amax(2) for window in self.windows]
        return self.fc(torch.cat(found, 1))  # type: ignore[no-any-return]


class Bert(nn.Module):
    """Words, places and an attention mask; answers by an object with `logits`, as transformers does."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 8), nn.Embedding(LENGTH, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.dense = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Dropout(0.1), nn.Linear(12, 8))
        self.pooler, self.classifier = nn.Linear(8, 8), nn.Linear(8, CLASSES)
        self.register_buffer("position_ids", torch.arange(LENGTH))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        rows = self.norm(self.words(input_ids) + self.places(self.get_buffer("position_ids")))
        seen, _ = self.attention(rows, rows, rows, key_padding_mask=attention_mask == 0, need_weights=False)
        rows = rows + seen
        pooled = torch.tanh(self.pooler((rows + self.dense(rows))[:, 0]))
        return SimpleNamespace(logits=self.classifier(pooled), pooled=pooled)


class TwoTowers(nn.Module):
    """Floats and words together, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.numbers = nn.Embedding(WORDS, 4), nn.Linear(3, 4)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        both = torch.cat([self.numbers(numbers), self.words(ids).mean(1)], 1)
        return self.fc(torch.tanh(both))  # type: ignore[no-any-return]


def _cnn(norm: Callable[[int], nn.Module]) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False), norm(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 6, 3, padding=1), norm(6), nn.SiLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(6, CLASSES),
    )  # fmt: skip


class ChannelLayerNorm(nn.LayerNorm):
    """Over the channels of an image, as ConvNeXt has it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class StochasticDepth(nn.Module):
    """A branch that is left out for some samples, as timm's DropPath does it."""

    def __init__(self, branch: nn.Module, rate: float) -> None:
        super().__init__()
        self.branch, self.rate = branch, rate

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.branch(x)
        if not self.training:
            return x + found
        kept = found.new_empty(len(found), *(1 for _ in found.shape[1:])).bernoulli_(1 - self.rate)
        return x + found * kept / (1 - self.rate)


class SqueezeExcite(nn.Module):
    """Channels weighted by what the whole image holds."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        whole = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.excite(F.relu(self.squeeze(whole))))


def _mobile() -> nn.Module:
    """Depthwise and pointwise convolutions, BatchNorm, squeeze and excite, stochastic depth."""
    branch = nn.Sequential(
        nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
        SqueezeExcite(8), nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8),
    )  # fmt: skip
    enter = nn.Conv2d(3, 8, 3, 2, 1)
    return nn.Sequential(enter, StochasticDepth(branch, 0.2), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(8, CLASSES))  # fmt: skip


def _separable() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 3, 3, padding=1, groups=3), nn.Conv2d(3, 8, 1), nn.ReLU6(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, CLASSES),
    )  # fmt: skip


class Mixer(nn.Module):
    """An MLP over patches, then one over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 6, 4, 4)
        self.over_patches = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
        self.over_channels = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6))
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.patch(x).flatten(2)  # [n, channels, patches]
        rows = (rows + self.over_patches(rows)).transpose(1, 2)
        return self.fc((rows + self.over_channels(rows)).mean(1))  # type: ignore[no-any-return]


class Vit(nn.Module):
    """Patches with a class token and learnt places; scaled dot-product attention with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.drop = nn.Conv2d(3, 8, 4, 4), nn.Dropout(0.1)
        self.token, self.places = (
            nn.Parameter(torch.randn(1, 1, 8) * 0.1),
            nn.Parameter(torch.randn(1, 5, 8) * 0.1),
        )
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.patch(x).flatten(2).transpose(1, 2)
        rows = self.drop(torch.cat([self.token.expand(len(rows), -1, -1), rows], 1) + self.places)
        query, key, value = self.qkv(self.norm(rows)).view(len(rows), 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, dropout_p=0.1 if self.training else 0.0)
        rows = rows + self.out(seen.transpose(1, 2).reshape(len(rows), 5, 8))
        return self.head(rows[:, 0])  # type: ignore[no-any-return]


class ResNext(nn.Module):
    """A residual block of grouped convolutions with BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.first = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.grouped, self.second = nn.Conv2d(8, 8, 3, 1, 1, groups=4, bias=False), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = F.relu(self.first(self.enter(x)), inplace=True)
        x = F.relu(x + self.second(self.grouped(x)))
        return {"logits": self.fc(x.mean((2, 3)))}


class DenseNet(nn.Module):
    """Each layer sees all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(3 + 4 * k), nn.ReLU(), nn.Conv2d(3 + 4 * k, 4, 3, padding=1), nn.Dropout2d(0.1)
            )
            for k in range(2)
        )
        self.fc = nn.Linear(11, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))  # type: ignore[no-any-return]


class UNet(nn.Module):
    """Down and up again with a skip; transposed convolution, upsampling, GroupNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 3, 2, 1)
        self.up, self.merge = nn.ConvTranspose2d(6, 4, 2, 2), nn.Conv2d(8, 4, 3, padding=1)
        self.norm, self.fc = nn.GroupNorm(2, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.leaky_relu(self.enter(x))
        risen = self.up(F.leaky_relu(self.down(skip)))
        coarse = F.interpolate(F.avg_pool2d(risen, 2), scale_factor=2.0, mode="nearest")
        return self.fc(self.norm(self.merge(torch.cat([skip, coarse], 1))).mean((2, 3)))  # type: ignore[no-any-return]


class Temporal(nn.Module):
    """Dilated causal convolutions over time, with channel dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 5, 3), nn.Conv1d(5, 5, 3, dilation=2)
        self.drop, self.fc = nn.Dropout1d(0.2), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(F.elu(self.first(F.pad(x.transpose(1, 2), (2, 0)))))
        return self.fc(F.elu(self.second(F.pad(x, (4, 0))))[:, :, -1])  # type: ignore[no-any-return]


class BatchNormMlp(nn.Sequential):
    """BatchNorm1d, with a mean over all batches, and PReLU."""

    def __init__(self) -> None:
        norm = nn.BatchNorm1d(8, momentum=None)
        layers = nn.Flatten(), nn.Linear(24, 8), norm, nn.PReLU(), nn.Linear(8, CLASSES)
        super().__init__(*layers)


class Foreign(NamedTuple):
    """A network, and what it is fed."""

    build: Callable[[], nn.Module]
    layers: str
    inputs: str = "image"


NETWORKS: Mapping[str, Foreign] = {
    "LSTM": Foreign(Lstm, "nn.LSTM of two layers, dropout between them", "series"),
    "GRU": Foreign(Gru, "nn.GRU in both directions; answers a tuple", "series"),
    "Transformer": Foreign(Transformer, "nn.TransformerEncoder, dropout", "series"),
    "temporal CNN": Foreign(Temporal, "dilated nn.Conv1d, nn.Dropout1d, F.elu", "series"),
    "BatchNorm MLP": Foreign(BatchNormMlp, "nn.BatchNorm1d with a mean over all batches, nn.PReLU", "series"),
    "text classifier": Foreign(TextClassifier, "nn.Embedding with padding_idx, nn.Dropout", "tokens"),
    "text CNN": Foreign(TextConvolution, "nn.Embedding, nn.Conv1d of two widths, amax", "tokens"),
    "BERT-like": Foreign(
        lambda: SeveralInputs(Bert(), MASKED),
        "nn.MultiheadAttention with a mask, position_ids, nn.GELU; answers `.logits`", "masked",
    ),
    "two towers": Foreign(
        lambda: SeveralInputs(TwoTowers(), (Piece((3,), "float"), Piece((LENGTH,)))),
        "floats and token ids, in order", "towers",
    ),
    "GroupNorm CNN": Foreign(lambda: _cnn(lambda c: nn.GroupNorm(2, c)), "nn.GroupNorm, nn.MaxPool2d, nn.SiLU"),
    "InstanceNorm CNN": Foreign(
        lambda: _cnn(lambda c: nn.InstanceNorm2d(c, track_running_stats=True)), "nn.InstanceNorm2d with running statistics"
    ),
    "LayerNorm CNN": Foreign(lambda: _cnn(ChannelLayerNorm), "nn.LayerNorm over channels"),
    "BatchNorm CNN": Foreign(lambda: _cnn(nn.BatchNorm2d), "nn.BatchNorm2d, nn.AvgPool2d"),
    "separable CNN": Foreign(_separable, "depthwise and pointwise nn.Conv2d, nn.ReLU6, nn.Dropout"),
    "MobileNet-like": Foreign(_mobile, "depthwise, squeeze and excite, nn.BatchNorm2d, stochastic depth"),
    "MLP-Mixer": Foreign(Mixer, "patches, nn.LayerNorm, nn.Linear over both axes"),
    "ViT": Foreign(Vit, "class token, F.scaled_dot_product_attention with dropout"),
    "ResNeXt": Foreign(ResNext, "grouped nn.Conv2d, nn.BatchNorm2d, in-place F.relu; answers a dict"),
    "DenseNet": Foreign(DenseNet, "concatenation, nn.BatchNorm2d, nn.Dropout2d, adaptive pooling"),
    "U-Net": Foreign(UNet, "skip, nn.ConvTranspose2d, F.interpolate, nn.GroupNorm"),
}  # fmt: skip


def inputs_like(kind: str, labels: Tensor, stream: torch.Generator) -> Tensor:
    """[n, ...] inputs of a kind, which hold a little of their labels."""
    count, hint = len(labels), labels.view(-1, 1)
    ids = (torch.randint(1, WORDS - CLASSES, (count, LENGTH), generator=stream) + hint).long()
    if kind == "masked":
        lengths = torch.randint(1, LENGTH + 1, (count, 1), generator=stream)
        return torch.cat([ids, (torch.arange(LENGTH) < lengths).long()], 1)
    if kind == "towers":
        return torch.cat([torch.randn(count, 3, generator=stream) + hint, ids.float()], 1)
    if kind == "tokens":
        return ids
    shape = SERIES if kind == "series" else IMAGE
    noise = torch.randn(count, *shape, generator=stream, dtype=torch.float64)
    return noise + 0.5 * labels.view(-1, *[1] * len(shape))
