"""Nested dicts of tensors and the few operations everything else is written in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from counterpoise.errors import ConfigError, short

Tree: TypeAlias = dict[str, Any]  # values are tensors or trees, nothing else
Params: TypeAlias = dict[str, Tensor]  # a flat tree: parameter name -> tensor

SEPARATOR = "/"  # parameter names use dots, so a slash tells levels apart


def tmap(function: Callable[..., Tensor], tree: Tree, *others: Tree) -> Tree:
    """Apply a function to each tensor of a tree, along with the tensors at the same place in the others."""
    return {
        key: tmap(function, value, *(other[key] for other in others))
        if isinstance(value, dict)
        else function(value, *(other[key] for other in others))
        for key, value in tree.items()
    }


def leaves(tree: Tree) -> Iterator[Tensor]:
    """The tensors of a tree in order of their names, so that sums over them do not depend on how it was built."""
    for name in sorted(tree):
        value = tree[name]
        if isinstance(value, dict):
            yield from leaves(value)
        else:
            yield value


def bytes_of(tree: Tree) -> int:
    """Size of all tensors of a tree."""
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(tree))


def zeros(tree: Tree) -> Tree:
    return tmap(torch.zeros_like, tree)


def kept_model(params: Params, buffers: Params) -> Tree:
    """A model as a client's memory, which has no empty branches."""
    return {"params": params} | ({"buffers": buffers} if buffers else {})


def own_model(params: Params, buffers: Params, memory: Tree) -> tuple[Params, Params]:
    """An `own`: the model that a client keeps, instead of the shared one."""
    return memory["params"], memory.get("buffers", {})


def add(tree: Tree, other: Tree, scale: float | Tensor = 1.0) -> Tree:
    """``tree + scale * other``, in one pass where the scale is a number."""
    if isinstance(scale, Tensor):
        return tmap(lambda a, b: a + scale * b, tree, other)
    return tmap(torch.add if scale == 1 else lambda a, b: torch.add(a, b, alpha=scale), tree, other)


def subtract(tree: Tree, other: Tree) -> Tree:
    return tmap(torch.sub, tree, other)


def descend(params: Tree, direction: Tree, lr: Tensor) -> Tree:
    """``p - lr d``; one operation for whoever takes such a step, since another order of rounding would be another run."""
    return tmap(lambda p, d: torch.addcmul(p, lr, d, value=-1), params, direction)


def multiply(tree: Tree, scale: float | Tensor) -> Tree:
    return tmap(lambda a: a * scale, tree)


def norm(tree: Tree) -> Tensor:
    """Euclidean norm of all tensors of a tree taken as one vector."""
    return cast(Tensor, sum(leaf.square().sum() for leaf in leaves(tree))).sqrt()


def stack(trees: Sequence[Tree]) -> Tree:
    """One tree whose tensors have a new leading axis."""
    return tmap(lambda *rows: torch.stack(rows), *trees)


def concatenate(trees: Sequence[Tree]) -> Tree:
    """One tree of stacked trees, joined along their leading axis."""
    return tmap(lambda *rows: torch.cat(rows), *trees)


def take(tree: Tree, rows: Any) -> Tree:
    """The same rows of each tensor: an index, a slice, or a tensor of indices."""
    return tmap(lambda leaf: leaf[rows], tree)


def rows(stacked: Tree, count: int) -> list[Tree]:
    """A copy of each row of stacked trees, made all at once: on a GPU by one kernel, not one per tensor."""
    parts = {path: leaf.unbind() for path, leaf in flatten(stacked).items()}
    copies = {path: [torch.empty_like(row) for row in leaf] for path, leaf in parts.items()}
    if parts:
        torch._foreach_copy_(
            [copy for leaf in copies.values() for copy in leaf],
            [row for leaf in parts.values() for row in leaf],
        )
    return [unflatten({path: leaf[k] for path, leaf in copies.items()}) for k in range(count)]


def mix(weights: Tensor, stacked: Tree) -> Tree:
    """``sum_k weights[k] * stacked[k]``, summed in float64 one row after another, then cast back.

    A fixed order and a wide sum make the result independent of how the rows were computed and of the order of their arrival.
    """
    shares = weights.tolist()

    def mix_leaf(leaf: Tensor) -> Tensor:
        if leaf.is_cuda:  # one kernel per leaf; the rows are in order already
            mixed: Tensor = torch.tensordot(weights.to(leaf.device), leaf.double(), 1)
            return mixed.to(leaf.dtype)
        total = torch.zeros_like(leaf[0], dtype=torch.float64)
        for share, row in zip(shares, leaf, strict=True):
            total.add_(row, alpha=share)
        return total.to(leaf.dtype)

    return tmap(mix_leaf, stacked)


def plain(tensor: Tensor) -> Any:
    """A tensor as numbers and lists that JSON can hold: what is not finite becomes None."""
    if tensor.dim():
        return [plain(row) for row in tensor]
    number = tensor.item()
    return number if math.isfinite(number) else None


def finite_rows(stacked: Tree, count: int) -> Tensor:
    """[count] True where every number of that row is finite."""
    return torch.isfinite(row_norms(stacked, count))


def scale_rows(stacked: Tree, factors: Tensor) -> Tree:
    """Rows times their factors [K]; a factor of 1 leaves every bit as it was."""

    def scaled(leaf: Tensor) -> Tensor:
        return leaf * factors.to(leaf.device, leaf.dtype).view(-1, *[1] * (leaf.dim() - 1))

    return tmap(scaled, stacked)


def clip_rows(stacked: Params, bound: float, count: int) -> Params:
    """Rows taken as one vector, none longer than the bound."""
    size = row_norms(stacked, count)
    return scale_rows(stacked, (bound / size.clamp(min=1e-300)).clamp(max=1.0))


def row_norms(stacked: Tree, count: int) -> Tensor:
    """[count] norm of each row taken as one vector, in float64; finite where all its numbers are."""
    squares = [_row_norm(_by_row(leaf)).square() for leaf in leaves(stacked)]
    # Summed on the device, so that the host synchronises with a GPU only once.
    return torch.stack(squares).sum(0).sqrt().cpu() if squares else torch.zeros(count, dtype=torch.float64)


def _row_norm(rows: Tensor) -> Tensor:
    """[K] float64; on a CPU summed in the rows' own type, which is several times faster, unless that overflows."""
    rows = rows if rows.is_floating_point() else rows.double()
    if not rows.is_cuda:
        quick: Tensor = torch.linalg.vector_norm(rows, dim=1)
        if bool(quick.isfinite().all()):
            return quick.double()
    exact: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return exact


def _by_row(stacked: Tensor) -> Tensor:
    """[K, everything else], also where K is 0."""
    return stacked.reshape(len(stacked), math.prod(stacked.shape[1:]))


def flatten(tree: Tree) -> dict[str, Tensor]:
    """Path -> tensor; empty branches are dropped."""
    flat: dict[str, Tensor] = {}
    for key, value in tree.items():
        if SEPARATOR in key or not key:
            raise ConfigError(
                f"the name {short(key)} cannot be stored: it must not be empty or contain {SEPARATOR!r}"
            )
        if isinstance(value, dict):
            flat.update({f"{key}{SEPARATOR}{path}": leaf for path, leaf in flatten(value).items()})
        else:
            flat[key] = value
    return flat


def unflatten(flat: Mapping[str, Tensor]) -> Tree:
    """The tree that ``flatten`` made these paths from."""
    tree: Tree = {}
    for path, leaf in flat.items():
        *branches, name = path.split(SEPARATOR)
        place = tree
        for branch in branches:
            place = place.setdefault(branch, {})
            if not isinstance(place, dict):
                raise ValueError(f"{path!r} lies below a tensor")
        if name in place:
            raise ValueError(f"{path!r} is both a tensor and a branch")
        place[name] = leaf
    return tree
