"""Which methods are worth a try: for each a condition on the data's figures, a sentence, and its rates."""

# A sentence says why a method is tried. What it gains is only said after it was measured.
# Methods whose rounds take far longer than FedAvg's (CReFF, FedHOO) are left out: they would use up the time of all others.
# To try a method, add a rule; the order is that in which rules are left out where time is short, the last first.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from counterpoise.advice.figures import Figures
from counterpoise.errors import few_digits

IMBALANCED = 2.0  # largest over smallest class, from which remedies for imbalance are tried
LONG_TAIL = 10.0
SKEWED = 0.04  # mean divergence of clients from all, from which remedies for drift are tried
FEW = 0.1  # share of clients in a round, below which what clients remember is old
BASELINE = "fedavg"

PLAIN = (1.0, 3.0, 0.3)  # factors on the experiment's learning rate, the likeliest first
SLOW = (0.3, 0.1, 1.0)  # for server momentum 0.9, whose steps add up to ten
GLOBAL = {"balanced_softmax": {"counts": "global"}}


class Rule(NamedTuple):
    """A method, when to try it, and why."""

    method: Any  # as in a config
    when: Callable[[Figures], bool]
    why: str  # a sentence with figures in braces
    rates: tuple[float, ...] = PLAIN
    momentum: bool = True  # whether it goes with local momentum


def imbalanced(data: Figures) -> bool:
    return data.imbalance >= IMBALANCED


def long_tailed(data: Figures) -> bool:
    return data.imbalance >= LONG_TAIL


def skewed(data: Figures) -> bool:
    return data.divergence >= SKEWED and data.clients > 1


def remembered(data: Figures) -> bool:
    """Whether a client takes part often enough for what it remembers to be of use."""
    return data.asked >= FEW * data.clients


def mixed(data: Figures) -> bool:
    """Whether most clients have several classes, so that they can weigh them themselves."""
    return data.missing <= 0.5


RULES = (
    Rule(BASELINE, lambda data: True, "the baseline that every gain is measured against"),
    Rule(
        [BASELINE, GLOBAL],
        imbalanced,
        "the largest class has {imbalance} times the samples of {rarest}: the loss takes the classes' shares over all clients into account",
    ),
    Rule(
        "counterpoise",
        lambda data: skewed(data) and remembered(data),
        "clients differ in their classes (divergence {divergence:.2f}) and each takes part often: its loss makes up for the classes that it has few of, its steps for its drift",
        momentum=False,
    ),
    Rule(
        [BASELINE, "logit_adjustment"],
        imbalanced,
        "the same shares, taken off the outputs after training, which costs nothing while it trains",
    ),
    Rule(
        ["fedavgm", GLOBAL],
        imbalanced,
        "clients that hold {rarest} may be asked seldom: momentum on the server keeps what they teach, with the loss that knows the classes' shares",
        SLOW,
    ),
    Rule(
        [BASELINE, "balanced_sampler"],
        lambda data: imbalanced(data) and mixed(data),
        "clients have several classes each and can draw them equally often",
    ),
    Rule(
        ["fedcm", GLOBAL],
        lambda data: imbalanced(data) and skewed(data),
        "clients differ (divergence {divergence:.2f}): each follows the server's last direction, with the loss that knows the classes' shares",
    ),
    Rule(
        [BASELINE, {"weighted_ce": {"counts": "global"}}],
        imbalanced,
        "samples count by how rare their class is over all clients",
    ),
    Rule(
        [BASELINE, "crt"],
        imbalanced,
        "features may be good where only the last layer is biased: it is trained anew on equally frequent classes in the last rounds",
    ),
    Rule(
        ["scaffold", GLOBAL],
        lambda data: imbalanced(data) and skewed(data) and remembered(data),
        "clients differ (divergence {divergence:.2f}) and each takes part often: control variates take out their drift",
        momentum=False,
    ),
    Rule(
        ["fedcgnm", "resample"],
        long_tailed,
        "with a tail this long rare classes are drowned in a gradient: groups of classes get steps of equal length",
    ),
    Rule(
        "fedwcm",
        lambda data: long_tailed(data) and skewed(data),
        "a long tail on clients that differ: the server's momentum listens to clients with scarce classes",
    ),
    Rule(
        "fedrela",
        lambda data: long_tailed(data) and mixed(data),
        "samples of frequent classes that look like {rarest} get its label late in training",
    ),
    Rule(
        "fedgrab",
        long_tailed,
        "how strongly each class pulls is set anew as training shows which ones are pushed aside",
    ),
    Rule(
        [BASELINE, "balanced_softmax"],
        skewed,
        "clients differ in their classes (divergence {divergence:.2f}): in its loss each takes its own shares into account",
    ),
    Rule(
        "fedavgm",
        lambda data: not imbalanced(data),
        "classes are even: momentum on the server may speed it up",
        SLOW,
    ),
    Rule(
        "scaffold",
        lambda data: not imbalanced(data) and skewed(data) and remembered(data),
        "classes are even but clients differ (divergence {divergence:.2f}): control variates take out their drift",
        momentum=False,
    ),
    Rule(
        "fedcm",
        lambda data: not imbalanced(data) and skewed(data),
        "classes are even but clients differ (divergence {divergence:.2f}): each follows the server's last direction",
    ),
    Rule(
        "fedprox",
        lambda data: not imbalanced(data) and skewed(data),
        "classes are even but clients differ (divergence {divergence:.2f}): none moves far from the shared model",
    ),
)


class Candidate(NamedTuple):
    """A method to try on these data, with the reason in a sentence."""

    method: Any
    why: str
    rates: tuple[float, ...] = PLAIN
    momentum: bool = True


def candidates_for(data: Figures) -> list[Candidate]:
    """The methods whose condition holds, the baseline first."""
    figures = data._asdict() | {"imbalance": few_digits(data.imbalance)}
    return [
        Candidate(rule.method, rule.why.format(**figures), rule.rates, rule.momentum)
        for rule in RULES
        if rule.when(data)
    ]
