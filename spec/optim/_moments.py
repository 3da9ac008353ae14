"""What Adam and AdamW share: two moments of the gradient, and the step that they call for.

    m = m + (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g^2
    step = (lr / (1 - beta1^t)) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

>>> power(Fraction(1, 2), 3)
Fraction(1, 8)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, refuse
from spec.optim._optimizer import NO_SIZES, need_sizes
from spec.scalar import divide, lift, sqrt, square
from spec.tensor import zip_map
from spec.worlds import is_number


@dataclass(frozen=True)
class Hyper:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what breaks C1, C2 or C3 of the page, whose name the class has."""
        page = type(self).__name__.lower()
        need_sizes(f"{page} C1", self, "lr", "weight_decay")
        for name in ("beta1", "beta2"):
            number = getattr(self, name)
            if not (is_number(number) and 0 <= number < 1):
                raise refuse(f"{page} C2", f"{name} lies in [0, 1)", repr(number))
        if not (is_number(self.eps) and 0 < self.eps < math.inf):
            raise refuse(f"{page} C3", "eps is finite and > 0", repr(self.eps))


TRIED: dict[str, tuple[float, ...]] = {
    "lr": (1e-3, 0.5, 1e-5, 0.0),
    "beta1": (0.9, 0.0, 0.6, 0.99),
    "beta2": (0.999, 0.0, 0.6, 0.95, 0.99999),
    "eps": (1e-8, 1e-12, 1e-3, 1.0),
    "weight_decay": (0.0, 1e-2, 0.1, 1.0),
}
"""Where mistakes show.

No beta is a power of two other than 0: with 1/2 the two products of a mean are exact, and then the
usual other form of it, m + (1 - beta) (g - m), would be held to an exact result.
"""

REFUSED: tuple[tuple[str, dict[str, float]], ...] = (
    *(("C1", {name: bad}) for name in ("lr", "weight_decay") for bad in NO_SIZES),
    *(("C2", {name: bad}) for name in ("beta1", "beta2") for bad in (-0.5, 1.0, math.nan)),
    *(("C3", {"eps": bad}) for bad in (0.0, *NO_SIZES)),
)
"""What breaks a constraint of the page."""


@dataclass(frozen=True)
class Moments:
    """What is remembered between steps: two moments of the parameter's shape, and the count."""

    exp_avg: AnyTensor
    exp_avg_sq: AnyTensor
    step: int = 0


def averaged(state: Moments, gradient: AnyTensor, hyper: Hyper) -> tuple[AnyTensor, AnyTensor]:
    """Return both moments after one more gradient."""
    beta1, beta2 = Fraction(hyper.beta1), Fraction(hyper.beta2)

    def first(m: Any, g: Any) -> Any:
        return m + lift(g, 1 - beta1) * (g - m)

    def second(v: Any, g: Any) -> Any:
        return lift(v, beta2) * v + lift(g, 1 - beta2) * square(g)

    exp_avg = zip_map(first, state.exp_avg, gradient)
    return exp_avg, zip_map(second, state.exp_avg_sq, gradient)


def descent(hyper: Hyper, step: int) -> Callable[[Any, Any], Any]:
    """Return by how much a parameter falls at its step t, as a function of both moments."""
    rate = Fraction(hyper.lr) / (1 - power(Fraction(hyper.beta1), step))
    correction = 1 - power(Fraction(hyper.beta2), step)

    def fall(m: Any, v: Any) -> Any:
        root = divide(sqrt(v), sqrt(lift(v, correction))) + lift(v, Fraction(hyper.eps))
        return divide(lift(m, rate) * m, root)

    return fall


def power(base: Fraction, exponent: int) -> Fraction:
    """Raise a number in [0, 1] to a power, exactly while that takes at most 1200 binary places.

    A million steps would have millions of digits; 1 minus the power rounds the same without them.
    """
    places = 2**1200
    result = Fraction(1)
    for bit in bin(exponent)[2:]:
        result = result * result * (base if bit == "1" else 1)
        if result.denominator > places:
            result = Fraction(round(result * places), places)
    return result
