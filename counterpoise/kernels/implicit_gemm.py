"""Convolutions of stacked models on a GPU as implicit matrix products: patches are formed in the kernel, never in memory.

A layer of K models is three bilinear maps, each a derivative of the others: the output, the gradient by the input and the
gradient by the weight. Images are [K, B, height, width, channels], weights [K, height, width, inputs, outputs]. Products add
up in float32, in a fixed order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

PROGRAMS = 528  # as many parts of a weight's gradient: four for each processor of an H200
SHORTEST = 1024  # positions that a part has at least


@triton.jit
def _correlate(
    x, w, y, rows_in_all, w_in, w_out, first_h, first_w, tap_h, tap_w, at_h, at_w,
    H: tl.constexpr, W: tl.constexpr, QH: tl.constexpr, QW: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    STEP: tl.constexpr, TURN: tl.constexpr, SKIP: tl.constexpr, SPREAD: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, NH: tl.constexpr, NW: tl.constexpr, C: tl.constexpr, O: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """``y[SPREAD q + at] = sum_a x[STEP q + first + TURN a] w[tap + SKIP a]`` over NH x NW taps a, of one model."""
    model = tl.program_id(1).to(tl.int64)
    wide: tl.constexpr = (O + BN - 1) // BN
    deep: tl.constexpr = (C + BC - 1) // BC
    row = (tl.program_id(0) // wide) * BM + tl.arange(0, BM)
    column = (tl.program_id(0) % wide) * BN + tl.arange(0, BN)
    image, place = row // (QH * QW), row % (QH * QW)
    q_h, q_w = place // QW, place % QW
    images = rows_in_all // (QH * QW)
    x += model * images * (H * W * C)
    w += model * (KH * KW * C * O)
    y += model * images * (OH * OW * O)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(NH * NW * deep):
        a, channel = k // deep, (k % deep) * BC + tl.arange(0, BC)
        h = q_h * STEP + first_h + TURN * (a // NW)
        v = q_w * STEP + first_w + TURN * (a % NW)
        tap = (tap_h + SKIP * (a // NW)) * KW + tap_w + SKIP * (a % NW)
        inside = (row < rows_in_all) & (h >= 0) & (h < H) & (v >= 0) & (v < W)
        pixels = x + ((image * H + h) * W + v)[:, None] * C + channel[None, :]
        weights = w + tap * (C * O) + channel[:, None] * w_in + column[None, :] * w_out
        patch = tl.load(pixels, inside[:, None] & (channel < C)[None, :], 0.0)
        kernel = tl.load(weights, (channel < C)[:, None] & (column < O)[None, :], 0.0)
        total = tl.dot(patch, kernel, total)
    place = (image * OH + q_h * SPREAD + at_h) * OW + q_w * SPREAD + at_w
    target = y + place[:, None] * O + column[None, :]
    tl.store(target, total.to(y.dtype.element_ty), (row < rows_in_all)[:, None] & (column < O)[None, :])


@triton.jit
def _sum_products(
    x, g, parts, rows_in_all,
    H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, C: tl.constexpr, O: tl.constexpr, LENGTH: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """``parts[part, tap] = sum_q x[STRIDE q + tap - PAD] g[q]`` over the LENGTH positions q of a part, of one model."""
    model, part = tl.program_id(1).to(tl.int64), tl.program_id(2)
    wide: tl.constexpr = (O + BN - 1) // BN
    deep: tl.constexpr = (C + BC - 1) // BC
    tap = tl.program_id(0) // (wide * deep)
    channel = (tl.program_id(0) // wide % deep) * BC + tl.arange(0, BC)
    column = (tl.program_id(0) % wide) * BN + tl.arange(0, BN)
    x += model * (rows_in_all // (OH * OW)) * (H * W * C)
    g += model * rows_in_all * O
    total = tl.zeros((BC, BN), tl.float32)
    for start in range(0, LENGTH, BM):
        row = part * LENGTH + start + tl.arange(0, BM)
        image, place = row // (OH * OW), row % (OH * OW)
        h = place // OW * STRIDE + tap // KW - PAD
        v = place % OW * STRIDE + tap % KW - PAD
        inside = (row < rows_in_all) & (h >= 0) & (h < H) & (v >= 0) & (v < W)
        pixels = x + ((image * H + h) * W + v)[:, None] * C + channel[None, :]
        pulls = g + row[:, None] * O + column[None, :]
        patch = tl.load(pixels, inside[:, None] & (channel < C)[None, :], 0.0)
        pull = tl.load(pulls, (row < rows_in_all)[:, None] & (column < O)[None, :], 0.0)
        total = tl.dot(tl.trans(patch), pull, total)
    parts += ((model * tl.num_programs(2) + part) * (KH * KW) + tap) * (C * O)
    target = parts + channel[:, None] * O + column[None, :]
    tl.store(target, total, (channel < C)[:, None] & (column < O)[None, :])


class Blocks(NamedTuple):
    """How a kernel cuts its product, and how many warps and stages of loading it has."""

    rows: int
    columns: int
    channels: int
    warps: int
    stages: int


def _correlation_blocks(rows: int, inputs: int, outputs: int) -> Blocks:
    """The fastest of fourteen on an H200 for the layers of ResNet-18, or within a few percent of it."""
    deep = _block(inputs, 64)
    if rows <= 1024 and outputs > 64:  # few positions: smaller blocks occupy more processors
        return Blocks(64, 128, deep, 4, 4)
    wide = _block(outputs, 256)
    return Blocks(128, wide, deep, 4 if wide <= 64 else 8, 3)


def _sum_blocks(inputs: int, outputs: int) -> Blocks:
    wide, deep = _block(outputs, 128), _block(inputs, 128)
    return Blocks(64, wide, deep, 4, 4 if wide * deep <= 64 * 64 else 3)


def _block(channels: int, most: int) -> int:
    """A power of two, as the matrix units want, that holds the channels if it can."""
    return min(most, max(16, triton.next_power_of_2(channels)))


@custom_op("counterpoise::convolve", mutates_args=())
def convolve(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """The outputs [K, B, OH, OW, O] of contiguous images and weights."""
    y = _convolved(x, w, stride, padding)
    (_, _, height, width, _), (_, kh, kw, inputs, outputs), (oh, ow) = x.shape, w.shape, y.shape[2:4]
    _launch(
        x, w, y, (outputs, 1), (-padding, -padding), (0, 0), (0, 0), H=height, W=width, QH=oh, QW=ow, OH=oh, OW=ow,
        STEP=stride, TURN=1, SKIP=1, SPREAD=1, KH=kh, KW=kw, NH=kh, NW=kw, C=inputs, O=outputs,
    )  # fmt: skip
    return y


@convolve.register_fake
def _convolved(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    (models, images, height, width, _), (_, kh, kw, _, outputs) = x.shape, w.shape
    oh, ow = ((size + 2 * padding - kernel) // stride + 1 for size, kernel in ((height, kh), (width, kw)))
    return x.new_empty((models, images, oh, ow, outputs))


@custom_op("counterpoise::convolve_back", mutates_args=())
def convolve_back(g: Tensor, w: Tensor, stride: int, padding: int, height: int, width: int) -> Tensor:
    """The gradient [K, B, H, W, C] by the images.

    A pixel meets only every stride-th tap: pixels of one remainder by the stride are one correlation.
    """
    x = _convolved_back(g, w, stride, padding, height, width)
    (_, _, oh, ow, _), (_, kh, kw, inputs, outputs) = g.shape, w.shape
    for down in range(min(stride, height)):
        for right in range(min(stride, width)):
            first, tap = zip(*(divmod(at + padding, stride) for at in (down, right)), strict=True)
            _launch(
                g, w, x, (1, outputs), first, tap, (down, right), H=oh, W=ow,
                QH=len(range(down, height, stride)), QW=len(range(right, width, stride)), OH=height, OW=width,
                STEP=1, TURN=-1, SKIP=stride, SPREAD=stride, KH=kh, KW=kw,
                NH=len(range(tap[0], kh, stride)), NW=len(range(tap[1], kw, stride)), C=outputs, O=inputs,
            )  # fmt: skip
    return x


@convolve_back.register_fake
def _convolved_back(g: Tensor, w: Tensor, stride: int, padding: int, height: int, width: int) -> Tensor:
    return g.new_empty((*g.shape[:2], height, width, w.shape[3]))


@custom_op("counterpoise::sum_products", mutates_args=())
def sum_products(x: Tensor, g: Tensor, stride: int, padding: int, height: int, width: int) -> Tensor:
    """The gradient by a weight of this height and width, in parts [K, parts, height, width, C, O] in float32."""
    sums = _summed_products(x, g, stride, padding, height, width)
    (models, parts, _, _, inputs, outputs), (oh, ow) = sums.shape, g.shape[2:4]
    rows, blocks = x.shape[1] * oh * ow, _sum_blocks(inputs, outputs)
    grid = _tiles(height * width, inputs, outputs, blocks), models, parts
    length = triton.cdiv(triton.cdiv(rows, parts), blocks.rows) * blocks.rows
    _sum_products[grid](
        x, g, sums, rows, *x.shape[2:4], oh, ow, stride, padding, height, width, inputs, outputs, length,
        *blocks[:3], num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip
    return sums


@sum_products.register_fake
def _summed_products(x: Tensor, g: Tensor, stride: int, padding: int, height: int, width: int) -> Tensor:
    models, images, oh, ow, outputs = g.shape
    tiles = models * _tiles(height * width, x.shape[-1], outputs, _sum_blocks(x.shape[-1], outputs))
    parts = max(1, min(triton.cdiv(PROGRAMS, tiles), images * oh * ow // SHORTEST))
    return x.new_empty((models, parts, height, width, x.shape[-1], outputs), dtype=torch.float32)


def _tiles(taps: int, inputs: int, outputs: int, blocks: Blocks) -> int:
    return taps * int(triton.cdiv(inputs, blocks.channels) * triton.cdiv(outputs, blocks.columns))


def _launch(
    x: Tensor, w: Tensor, y: Tensor, w_strides: tuple[int, int], first: tuple[int, ...], tap: tuple[int, ...], at: tuple[int, int],
    **shape: int,
) -> None:  # fmt: skip
    rows = x.shape[1] * shape["QH"] * shape["QW"]
    blocks = _correlation_blocks(rows, shape["C"], shape["O"])
    grid = triton.cdiv(rows, blocks.rows) * triton.cdiv(shape["O"], blocks.columns), x.shape[0]
    _correlate[grid](
        x, w, y, rows, *w_strides, *first, *tap, *at, **shape, BM=blocks.rows, BN=blocks.columns, BC=blocks.channels,
        num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip


def _with_more_models(op: Any) -> Any:
    """How vmap runs an operator: its axis and that of the models become one, laid out as the kernel reads it."""

    def rule(info: Any, axes: tuple[Any, ...], one: Tensor, other: Tensor, *how: int) -> tuple[Tensor, int]:
        def joined(tensor: Tensor, axis: int | None) -> Tensor:
            first = tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
            return first.flatten(0, 1).contiguous()

        return op(joined(one, axes[0]), joined(other, axes[1]), *how).unflatten(0, (info.batch_size, -1)), 0

    return rule


for _op in (convolve, convolve_back, sum_products):
    _op.register_vmap(_with_more_models(_op))


class _Bilinear(torch.autograd.Function):
    """A map of two tensors; weights and their gradients may be of a wider type than the images."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.how = inputs[2:4]


class _Output(_Bilinear):
    @staticmethod
    def forward(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
        y: Tensor = convolve(x.contiguous(), w.to(x.dtype).contiguous(), stride, padding)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        by_x = _ByInput.apply(g, w, *ctx.how, *x.shape[2:4])
        by_w = _ByWeight.apply(x, g, *ctx.how, *w.shape[1:3])
        return by_x, by_w.to(w.dtype), None, None


class _ByInput(_Bilinear):
    @staticmethod
    def forward(g: Tensor, w: Tensor, stride: int, padding: int, height: int, width: int) -> Tensor:
        x: Tensor = convolve_back(g.contiguous(), w.to(g.dtype).contiguous(), stride, padding, height, width)
        return x

    @staticmethod
    def backward(ctx: Any, by_x: Tensor) -> tuple[Tensor | None, ...]:
        g, w = ctx.saved_tensors
        by_w = _ByWeight.apply(by_x, g, *ctx.how, *w.shape[1:3])
        return _Output.apply(by_x, w, *ctx.how), by_w.to(w.dtype), None, None, None, None


class _ByWeight(_Bilinear):
    @staticmethod
    def forward(x: Tensor, g: Tensor, stride: int, padding: int, height: int, width: int) -> Tensor:
        parts: Tensor = sum_products(x.contiguous(), g.contiguous(), stride, padding, height, width)
        return parts.sum(1)

    @staticmethod
    def backward(ctx: Any, by_w: Tensor) -> tuple[Tensor | None, ...]:
        x, g = ctx.saved_tensors
        by_x = _ByInput.apply(g, by_w, *ctx.how, *x.shape[2:4])
        return by_x, _Output.apply(x, by_w, *ctx.how), None, None, None, None


@torch.compiler.allow_in_graph  # a compiler knows autograd functions under vmap only by what they do
def convolution(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """The outputs [B, O, OH, OW] of one layer of one model for images [B, C, H, W], under vmap of stacked models."""
    y: Tensor = _Output.apply(x.permute(0, 2, 3, 1)[None], w.permute(2, 3, 1, 0)[None], stride, padding)
    return y[0].permute(0, 3, 1, 2)
