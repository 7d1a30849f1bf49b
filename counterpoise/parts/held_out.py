"""Rules that count on what clients hold out go on without it, and say so."""

from __future__ import annotations

from counterpoise.core.part import Census, Reveals

# Of rules that ask clients for the confusion counts of others' models
JUDGED = Reveals(
    judged="how many of the samples that it holds out are of each class, and for which classes each model that it judges takes them"
)


def note_training_samples(census: Census) -> str:
    """A `note` of such a rule: on the samples that a client trains on, its model looks better than it is."""
    if not census.without:
        return ""
    return f"{census.without} of {census.clients} clients hold nothing out (partition.validation): there it counts on training samples"
