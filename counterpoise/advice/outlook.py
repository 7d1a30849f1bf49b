"""Before the race: the data, the goal, the candidates, and which samples will decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from counterpoise.advice.figures import Figures, figures_of
from counterpoise.advice.goal import Goal, read_goal
from counterpoise.advice.recommend import Held
from counterpoise.advice.rules import Candidate, candidates_for
from counterpoise.advice.trials import Course
from counterpoise.data.federation import Federation
from counterpoise.data.held_out import hold_out_classes
from counterpoise.run.assemble import fingerprint, load_federation
from counterpoise.run.config.experiment import Experiment
from counterpoise.sweep.tune import use_validation_as_test

SHARE = 0.25  # of each class that is held out where the experiment has no validation samples


class Outlook(NamedTuple):
    """The data and what is proposed, before anything runs."""

    data: Figures
    held: Held
    goal: Goal
    candidates: Sequence[Candidate]
    sha256: str  # of the samples, and of which client holds which

    @property
    def held_words(self) -> str:
        """Which samples decide."""
        what = f"{self.held.samples:,} validation samples, {self.held.rarest} of the rarest class"
        if not self.held.own:
            return f"the experiment holds nothing out, so {SHARE:.0%} of each class is held out of the clients' samples, anew for each seed: {what}; the test set is not used"
        return f"scored on the experiment's own {what}; the test set is not used"


def look(experiment: Experiment, goal: str) -> tuple[Outlook, Course]:
    """The data's figures, the goal and the candidates; nothing runs."""
    federation = load_federation(experiment)
    wanted = read_goal(goal, federation.classes)
    own = federation.validation is not None or bool(federation.holders())
    data = figures_of(federation, experiment.cohort.size)
    scored = federation if own else hold_out_classes(federation, SHARE, experiment.seed)
    held = _held(use_validation_as_test(scored), data, own, _drawn_anew(experiment, federation))
    held = held if held.anew else held._replace(fixed_by=_holding(experiment))
    course = Course(experiment, 0.0 if own else SHARE)
    return Outlook(data, held, wanted, candidates_for(data), fingerprint(federation)), course


def _held(scored: Federation, data: Figures, own: bool, anew: bool) -> Held:
    counts = scored.test.y.bincount(minlength=len(scored.classes)).tolist()
    rarest = counts[scored.classes.index(data.rarest)]
    return Held(sum(counts), rarest, sum(counts) / (sum(counts) + int(scored.samples().sum())), own, anew)


def _holding(experiment: Experiment) -> tuple[str, ...]:
    """Keys that may be 0 for other samples; none of a pack, which has its own, or where scores need those that there are."""
    if experiment.evaluate.patience is not None or experiment.evaluate.threshold is not None:
        return ()
    shares = {
        "data.validation": experiment.data.validation,
        "partition.validation": experiment.partition.validation,
    }
    return tuple(key for key, share in shares.items() if share)


def _drawn_anew(experiment: Experiment, federation: Federation) -> bool:
    """Whether each seed has validation samples of its own."""
    if federation.validation is None and not federation.holders():
        return True
    packed = experiment.data.name == "pack"
    return federation.validation is None and experiment.partition.seed is None and not packed
