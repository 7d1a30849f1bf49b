"""Words that many sentences share, and numbers of tests as text: rounding never moves a p to the other side of 5 %, nor a bound to the other side of zero."""

from __future__ import annotations

from counterpoise.results.statistics import ALPHA, Interval

SMALL = 0.001  # below which a p is not written out
FINE = 1e-4  # points, below which a bound is not written out


def on_problem(problem: str) -> str:
    """`` on`` a problem; nothing where all runs share one."""
    return f" on {problem}" if problem else ""


def show_p(p: float) -> str:
    """``p = 0.031`` or ``p < 0.001``."""
    return f"p {'<' if p < SMALL else '='} {_digits(p)}"


def bare_p(p: float) -> str:
    """The same without its name, for a column."""
    return f"< {SMALL:g}" if p < SMALL else _digits(p)


def _digits(p: float) -> str:
    """Two digits; more where these would lead to the other side of 5 %."""
    shown = (f"{max(p, SMALL):.{digits}g}" for digits in range(2, 18))
    return next(text for text in shown if (float(text) < ALPHA) == (p < ALPHA))


def with_interval(mean: str, interval: Interval | None) -> str:
    """A mean with its interval, where there is one."""
    return mean if interval is None else f"{mean} (95 % interval {show_interval(interval)})"


def show_interval(interval: Interval) -> str:
    """Both bounds in points."""
    return " to ".join(_bound(100 * bound) for bound in interval)


def _bound(points: float) -> str:
    text = f"{points:+.1f}"
    if float(text) or not points:
        return text if points else "0.0"
    if abs(points) < FINE:
        return "just above 0" if points > 0 else "just below 0"
    return f"{points:+.1g}"
