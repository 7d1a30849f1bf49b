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

    Of equally rare classes it is the one with the lowest id.
    """

    def rows(labels: Labels, rng: np.random.Generator) -> Rows:
        sizes = class_sizes(labels)
        rarest = int(np.where(sizes > 0, sizes, sizes.max()).argmin())
        wanted = int(reduced(sizes.max(), imbalance_ratio(factor)))
        if wanted > sizes[rarest]:
            natural = sizes.max() / sizes[rarest]
            raise ConfigError(
                f"imbalance minority: factor = {factor:g} is less than the data's own {natural:.4g}; "
                f"legal: at least {natural:.4g}, or imbalance natural"
            )
        sizes[rarest] = wanted
        return keep(labels, sizes, rng)

    return rows
