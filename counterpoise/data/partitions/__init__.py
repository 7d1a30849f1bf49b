"""Ways to cut the training set into clients; importing this package registers them."""

from counterpoise.data.partitions.blocks import blocks
from counterpoise.data.partitions.dirichlet import dirichlet
from counterpoise.data.partitions.dirichlet_blocks import dirichlet_blocks
from counterpoise.data.partitions.dirichlet_equal import dirichlet_equal
from counterpoise.data.partitions.fedsat import label_skew, missing_classes, quantity_skew
from counterpoise.data.partitions.iid import iid
from counterpoise.data.partitions.natural import natural
from counterpoise.data.partitions.redrawn import dirichlet_capped, dirichlet_rounded
from counterpoise.data.partitions.shards import shards

__all__ = [
    "blocks",
    "dirichlet",
    "dirichlet_blocks",
    "dirichlet_capped",
    "dirichlet_equal",
    "dirichlet_rounded",
    "iid",
    "label_skew",
    "missing_classes",
    "natural",
    "quantity_skew",
    "shards",
]
