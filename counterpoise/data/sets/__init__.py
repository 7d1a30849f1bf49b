"""The data sets of the literature, one module a file format; importing them registers their loaders."""

from counterpoise.data.sets import (  # noqa: F401
    adult,
    cifar,
    digits,
    hapt,
    heart_disease,
    idx,
    image_list,
    nsl_kdd,
    svhn,
    unsw_nb15,
)
