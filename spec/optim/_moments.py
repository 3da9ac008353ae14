"""What Adam and AdamW share: two moments of the gradient, and the step that they call for.

    m = m + (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g^2
    w = max(w, v)               if amsgrad, else w = v
    step = (lr / (1 - beta1^t)) * m / (sqrt(w) / sqrt(1 - beta2^t) + eps)

>>> power(Fraction(1, 2), 3)
Fraction(1, 8)
"""

# This file is longer than the guide because two pages share all of it.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from spec.op import AnyTensor, zeros_like
from spec.optim._hypers import (
    NO_BETAS,
    NO_FLAGS,
    NO_SIZES,
    need_betas,
    need_flag,
    need_positive,
    need_sizes,
)
from spec.scalar import divide, lift, maximum, sqrt, square
from spec.tensor import zip_map


@dataclass(frozen=True)
class Hyper:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        """Refuse what breaks C1, C2, C3 or C4 of the page, whose name the class has."""
        page = type(self).__name__.lower()
        need_sizes(f"{page} C1", self, "lr", "weight_decay")
        need_betas(f"{page} C2", self, "beta1", "beta2")
        need_positive(f"{page} C3", self, "eps")
        need_flag(f"{page} C4", self, "amsgrad")
        need_flag(f"{page} C4", self, "maximize")


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

EXTRAS: dict[str, tuple[bool, ...]] = {"amsgrad": (False, True), "maximize": (False, True)}
"""What was added to both formulas after most implementations of them were written."""

REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("C1", {name: bad}) for name in ("lr", "weight_decay") for bad in NO_SIZES),
    *(("C2", {name: bad}) for name in ("beta1", "beta2") for bad in NO_BETAS),
    *(("C3", {"eps": bad}) for bad in (0.0, *NO_SIZES)),
    *(("C4", {name: bad}) for name in ("amsgrad", "maximize") for bad in NO_FLAGS),
)
"""What breaks a constraint of the page."""


@dataclass(frozen=True)
class Moments:
    """What is remembered between steps: two moments, the count, and the largest second moment.

    The largest is None where no step by AMSGrad was taken.
    """

    exp_avg: AnyTensor
    exp_avg_sq: AnyTensor
    step: int = 0
    max_exp_avg_sq: AnyTensor | None = None


S = TypeVar("S", bound=Moments)
"""The state of a page."""


def averaged(state: S, gradient: AnyTensor, hyper: Hyper) -> S:
    """Return the state after one more gradient."""
    beta1, beta2 = Fraction(hyper.beta1), Fraction(hyper.beta2)

    def first(m: Any, g: Any) -> Any:
        return m + lift(g, 1 - beta1) * (g - m)

    def second(v: Any, g: Any) -> Any:
        return lift(v, beta2) * v + lift(g, 1 - beta2) * square(g)

    after = replace(
        state,
        exp_avg=zip_map(first, state.exp_avg, gradient),
        exp_avg_sq=zip_map(second, state.exp_avg_sq, gradient),
        step=state.step + 1,
    )
    if not hyper.amsgrad:
        return after
    largest = state.max_exp_avg_sq
    largest = zeros_like(gradient) if largest is None else largest
    return replace(after, max_exp_avg_sq=zip_map(maximum, largest, after.exp_avg_sq))


def divisor(state: Moments, hyper: Hyper) -> AnyTensor:
    """Return the moment whose root a step is divided by."""
    largest = state.max_exp_avg_sq
    return largest if hyper.amsgrad and largest is not None else state.exp_avg_sq


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
