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

    P(n) is proportional to exp(-epsilon n) times the product over j = 1..n of ((j - 1) K + 1) / (j K): a geometric
    number, kept with the chance that the product is.
    """
    while True:
        number = geometric(epsilon)
        if all(randbelow(j * clients) < (j - 1) * clients + 1 for j in range(1, number + 1)):
            return number


def geometric(epsilon: Fraction) -> int:
    """A number from 0 on with P(n) proportional to exp(-epsilon n)."""
    while True:
        rest = randbelow(epsilon.denominator)
        if bernoulli_exp(Fraction(rest, epsilon.denominator)):
            break
    whole = 0
    while bernoulli_exp(Fraction(1)):
        whole += 1
    return (rest + epsilon.denominator * whole) // epsilon.numerator


def bernoulli_exp(x: Fraction) -> bool:
    """True with the chance exp(-x), for x from 0 to 1: whether an alternating series ends after an odd number of terms."""
    terms = 1
    while randbelow(x.denominator * terms) < x.numerator:
        terms += 1
    return terms % 2 == 1
