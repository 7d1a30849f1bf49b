"""The rarest class made rarer, as for Adult at 10 and 20."""

from __future__ import annotations

import numpy as np

from counterpoise.data.imbalance import Imbalance, imbalance, imbalance_ratio
from counterpoise.data.imbalances.subsample import Factor, keep, reduced
from counterpoise.data.partition import Labels, Rows
from counterpoise.data.skew import class_sizes
from counterpoise.errors import ConfigError


@imbalance("minority", paper="FedCGNM")
def minority(factor: Factor = 10.0) -> Imbalance:
    """``n_min = floor(n_max / factor)``, at least 1, by leaving out samples of the rarest class alone.

    Of equally rare classes it is the one with the lowest id; a single class stays whole.
    """

    def rows(labels: Labels, rng: np.random.Generator) -> Rows:
        sizes = class_sizes(labels)
        present = np.flatnonzero(sizes)
        if len(present) < 2:
            return np.arange(len(labels.y))
        rarest = present[sizes[present].argmin()]
        ratio, natural = imbalance_ratio(factor), sizes.max() / sizes[rarest]
        if reduced(sizes.max(), ratio) > sizes[rarest]:
            raise ConfigError(
                f"imbalance minority: factor = {factor:g} is less than the data's own {natural:.4g}; "
                f"legal: at least {natural:.4g}, or imbalance natural"
            )
        sizes[rarest] = reduced(sizes.max(), ratio)
        return keep(labels, sizes, rng)

    return rows
