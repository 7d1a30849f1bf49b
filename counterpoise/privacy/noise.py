"""Discrete Laplace noise in shares, drawn exactly: whole numbers from the system's secret source, and no floats.

The noise of the sum has P(z) proportional to exp(-epsilon |z|). It is the difference of two geometric numbers, each of
which is the sum of K negative binomial ones with 1/K successes, so each of K clients draws its share by itself.
Bernoulli(exp(-x)) and the geometric number as in Canonne, Kamath and Steinke (2020), algorithms 1 and 2.
"""

from __future__ import annotations

from fractions import Fraction
from secrets import randbelow

import numpy as np

from counterpoise.privacy.layout import Vector


def noise(size: int, epsilon: float, clients: int) -> Vector:
    """One client's share of the noise on each of so many numbers."""
    rate = Fraction(repr(epsilon))  # as it was written, not its nearest binary number
    return np.array([share(rate, clients) - share(rate, clients) for _ in range(size)], np.int64)


def share(epsilon: Fraction, clients: int) -> int:
    """A negative binomial number with 1/K successes: K of them add up to a geometric one.

    P(n) is proportional to exp(-epsilon n) times the product over j = 1..n of ((j - 1) K + 1) / (j K). So it is a
    geometric number, kept with the chance that the product is; the first factor decides before the number is drawn.
    """
    above, below = epsilon.as_integer_ratio()
    while bernoulli_exp(above, below):  # the number is 1 or more
        if randbelow(clients) == 0:
            number = 1 + geometric(above, below)
            if all(randbelow(j * clients) < (j - 1) * clients + 1 for j in range(2, number + 1)):
                return number
    return 0


def geometric(above: int, below: int) -> int:
    """A number from 0 on with P(n) proportional to exp(-n above / below)."""
    rest = randbelow(below)
    while not bernoulli_exp(rest, below):
        rest = randbelow(below)
    whole = 0
    while bernoulli_exp(1, 1):
        whole += 1
    return (rest + below * whole) // above


def bernoulli_exp(above: int, below: int) -> bool:
    """True with the chance exp(-above / below)."""
    while above > below:
        if not bernoulli_exp(1, 1):
            return False
        above -= below
    # Whether an alternating series ends after an odd number of terms.
    terms = 1
    while randbelow(below * terms) < above:
        terms += 1
    return terms % 2 == 1
