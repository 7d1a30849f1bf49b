"""Attention masks of transformers, always applied: stacked clients have no one value by which to decide to leave one out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MASKS, QUESTION = "transformers.masking_utils", "is_tracing"


@contextmanager
def whole_masks() -> Iterator[None]:
    """Within it transformers does not look whether a mask masks anything: as in a traced pass, it is applied in any case.

    The result is the same: a mask of ones adds nothing. Where the package is not loaded or has no such question, nothing changes.
    """
    masks = sys.modules.get(MASKS)
    if masks is None or not hasattr(masks, QUESTION):
        yield
        return
    kept = getattr(masks, QUESTION)
    setattr(masks, QUESTION, lambda tensor=None: True)
    try:
        yield
    finally:
        setattr(masks, QUESTION, kept)
