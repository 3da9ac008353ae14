"""What the schedules share: the constraints, the curves, and a step that is checked when called.

>>> between(8.0, 2.0, angle=0.0), fallen(0.0, 8.0, gamma=0.5, times=2)
(8.0, 2.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from spec.op import refuse
from spec.optim._moments import power
from spec.scalar import cos, divide, lift
from spec.worlds import is_number

Schedule = Callable[..., Any]
"""schedule(t, like=0.0): the learning rate at step t, a number of like's world."""

Named = Mapping[str, Any]


def check(
    name: str,
    lr: float,
    minimum: float = 0.0,
    counts: Named | None = None,
    shares: Named | None = None,
    divisors: Named | None = None,
    gamma: float = 1.0,
) -> None:
    """Refuse what breaks C1, C2 or C3 of the page."""
    if not (is_number(lr) and is_number(minimum) and 0 <= minimum <= lr < math.inf):
        rule = "lr and minimum are finite and 0 <= minimum <= lr"
        raise refuse(f"{name} C1", rule, f"lr {lr!r}, minimum {minimum!r}")
    counted = counts or {}
    for what, count in counted.items():
        if type(count) is not int or count < 1:
            raise refuse(f"{name} C2", f"{what} is an int >= 1", repr(count))
    if counted.keys() >= {"warmup", "total"} and counted["warmup"] >= counted["total"]:
        raise refuse(f"{name} C2", "warmup < total", f"{counted['warmup']}, {counted['total']}")
    if not (is_number(gamma) and 0 < gamma <= 1):
        raise refuse(f"{name} C3", "gamma lies in (0, 1]", repr(gamma))
    for what, share in (shares or {}).items():
        if not (is_number(share) and 0 <= share <= 1):
            raise refuse(f"{name} C3", f"{what} lies in [0, 1]", repr(share))
    for what, divisor in (divisors or {}).items():
        if not (is_number(divisor) and 1 <= divisor < math.inf):
            raise refuse(f"{name} C3", f"{what} is finite and >= 1", repr(divisor))


MODES: dict[str, Callable[[float, int, int], tuple[float, int]]] = {
    "triangular": lambda gamma, cycle, t: (1.0, 0),
    "triangular2": lambda gamma, cycle, t: (0.5, cycle),
    "exp_range": lambda gamma, cycle, t: (gamma, t),
}
"""What the height of a cycle is multiplied by: a number, and how many times."""


def check_mode(label: str, mode: object) -> None:
    """Refuse what is no mode of a cyclic schedule."""
    if not (isinstance(mode, str) and mode in MODES):
        raise refuse(label, f"mode is one of {', '.join(MODES)}", repr(mode))


def schedule(name: str, rate: Callable[[int, Any], Any]) -> Schedule:
    """Return the function that checks C4 and computes the rate."""

    def checked(t: int, like: Any = 0.0) -> Any:
        if type(t) is not int or t < 0:
            raise refuse(f"{name} C4", "a step is an int >= 0", repr(t))
        return rate(t, like)

    return checked


def fallen(like: Any, lr: float, gamma: float, times: int) -> Any:
    """Multiply a rate by gamma so many times."""
    return lift(like, Fraction(lr)) * lift(like, power(Fraction(gamma), times))


def between(first: Any, last: Any, angle: Any) -> Any:
    """Return what lies between two rates on half a cosine: first at angle 0, last at pi."""
    half = divide(first - last, lift(first, Fraction(2)))
    return last + half * (lift(first, Fraction(1)) + cos(angle))
