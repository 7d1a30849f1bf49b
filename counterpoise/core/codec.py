"""Trees as bytes and back, in the safetensors format: by name, typed, and never executable."""

from __future__ import annotations

import hashlib

import safetensors.torch
import torch
from safetensors import SafetensorError

from counterpoise.core.tree import Tree, flatten, tmap, unflatten
from counterpoise.errors import DataError


def encode(tree: Tree) -> bytes:
    """Bytes of a tree; equal trees give equal bytes."""
    flat = flatten(tree)
    # The format refuses tensors that share memory, as a parameter and a part's copy of it may.
    return safetensors.torch.save(
        {
            path: flat[path].detach().cpu().clone(memory_format=torch.contiguous_format)
            for path in sorted(flat)
        }
    )


def decode(blob: bytes, source: str = "message") -> Tree:
    """The tree that ``encode`` wrote, in newly allocated memory: matrix products may round by the alignment of their inputs."""
    try:
        return tmap(torch.clone, unflatten(safetensors.torch.load(blob)))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{source} is damaged: {str(error).splitlines()[0]}") from None


def digest(tree: Tree) -> str:
    """SHA-256 of a tree's bytes."""
    return hashlib.sha256(encode(tree)).hexdigest()
