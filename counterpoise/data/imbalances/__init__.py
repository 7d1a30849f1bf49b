"""Imbalances of the training set; importing this package registers them."""

from counterpoise.data.imbalances.longtail import longtail
from counterpoise.data.imbalances.minority import minority
from counterpoise.data.imbalances.natural import natural
from counterpoise.data.imbalances.step import step

__all__ = ["longtail", "minority", "natural", "step"]
