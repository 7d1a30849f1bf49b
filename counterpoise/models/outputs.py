"""What foreign models hand back: logits, logits among other things, or an object that names them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from counterpoise.errors import ConfigError


def logits_of(said: Any) -> Tensor:
    """The logits in a model's output: a tensor, the first of a tuple, or what is called `logits`."""
    found = said
    if isinstance(found, dict):
        found = found.get("logits")
    elif not isinstance(found, Tensor | tuple | list):
        found = getattr(found, "logits", None)
    if isinstance(found, tuple | list) and found:
        found = found[0]
    if not isinstance(found, Tensor):
        raise ConfigError(
            f"model: its output must be a tensor of logits, a tuple that begins with one, or have `logits`, not {type(said).__name__}"
        )
    return found
