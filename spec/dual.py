"""Chapter 16. Dual numbers: forward mode for free.

Write x + t e with e^2 = 0. Then f(x + t e) = f(x) + f'(x) t e: run any page on duals and the
tangent comes out beside the value.
Duals of duals carry second derivatives.

The rules below state each elementary derivative once more, independently of the pages: that the
value of a page on duals equals (value, jvp) is a law, and the law has caught wrong partials.

>>> x = Dual(3.0, 1.0)
>>> square(x) + x
Dual(12.0, 7.0)
>>> nested = Dual(Dual(3.0, 1.0), Dual(1.0, 0.0))
>>> (nested * nested * nested).tangent.tangent  # the second derivative of x^3 at 3
18.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from spec.refusals import hints
from spec.scalar import (
    CONSTANTS,
    Unary,
    absolute,
    cos,
    divide,
    equal,
    erf,
    exp,
    expm1,
    is_nan,
    is_zero,
    less,
    lift,
    log,
    log1p,
    max_terms,
    maximum,
    pi_like,
    select,
    sin,
    sqrt,
    square,
    stop,
    sum_terms,
    tanh,
    zero_like,
)


@hints(
    {
        "__pow__": "write square(x) or products",
        "__truediv__": "write divide(x, y)",
        "__rtruediv__": "write divide(x, y)",
        "__abs__": "write absolute(x)",
        "__float__": "write x.value or x.tangent",
    }
    | dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__"), "write less(x, y)")
)
class Dual:
    """A value with a tangent; both are scalars of one world."""

    __slots__ = ("tangent", "value")

    def __init__(self, value: Any, tangent: Any) -> None:
        """Pair a value with the rate at which it changes."""
        self.value = value
        self.tangent = tangent

    def __add__(self, other: Any) -> Dual:
        """Rates add."""
        value, tangent = _parts(other, self)
        return Dual(self.value + value, self.tangent + tangent)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        """Rates subtract."""
        value, tangent = _parts(other, self)
        return Dual(self.value - value, self.tangent - tangent)

    def __rsub__(self, other: Any) -> Dual:
        """Rates subtract."""
        value, tangent = _parts(other, self)
        return Dual(value - self.value, tangent - self.tangent)

    def __neg__(self) -> Dual:
        """The rate of the opposite is the opposite rate."""
        return Dual(-self.value, -self.tangent)

    def __mul__(self, other: Any) -> Dual:
        """Leibniz's rule."""
        if type(other) in CONSTANTS:
            return Dual(self.value * other, self.tangent * other)
        value, tangent = _parts(other, self)
        return Dual(self.value * value, self.value * tangent + self.tangent * value)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Compare value and tangent."""
        if not isinstance(other, Dual):
            return NotImplemented
        return bool(self.value == other.value and self.tangent == other.tangent)

    def __hash__(self) -> int:
        """Hash value and tangent, as equality compares them."""
        return hash((self.value, self.tangent))

    def __repr__(self) -> str:
        """Show value and tangent."""
        return f"Dual({self.value!r}, {self.tangent!r})"


def _parts(other: Any, like: Dual) -> tuple[Any, Any]:
    """Split an operand into value and tangent; a constant does not change."""
    if isinstance(other, Dual):
        return other.value, other.tangent
    return other, zero_like(like.tangent)


def _chain(value: Any, partial: Any, tangent: Any) -> Dual:
    return Dual(value, partial * tangent)


def _absorbed(value: Any, partial: Any, tangent: Any) -> Dual:
    """Chain through a partial that may be infinite: a zero tangent stays zero."""
    return Dual(value, select(is_zero(tangent), zero_like(tangent), partial * tangent))


Rate = Callable[[Any, Any], Any]
"""The derivative of a function, of its argument and its value."""


def _differentiated(function: Unary, rate: Rate, chain: Callable[..., Dual] = _chain) -> None:
    @function.register(Dual)
    def rule(x: Dual) -> Dual:  # pyright: ignore[reportUnusedFunction]
        value = function(x.value)
        return chain(value, rate(x.value, value), x.tangent)


_differentiated(exp, lambda x, z: z)
_differentiated(expm1, lambda x, z: z + 1)
_differentiated(log, lambda x, z: divide(1, x), _absorbed)
_differentiated(log1p, lambda x, z: divide(1, 1 + x), _absorbed)
_differentiated(sqrt, lambda x, z: divide(1, 2 * z), _absorbed)
_differentiated(tanh, lambda x, z: 1 - square(z))
_differentiated(erf, lambda x, z: divide(2, sqrt(pi_like(x))) * exp(-square(x)))
_differentiated(cos, lambda x, z: -sin(x))
_differentiated(sin, lambda x, z: cos(x))
_differentiated(square, lambda x, z: 2 * x)


@absolute.register(Dual)
def _absolute(x: Dual) -> Dual:
    sign = select(less(x.value, 0), -1, select(less(0, x.value), 1, 0))
    return _chain(absolute(x.value), sign, x.tangent)


@divide.register(Dual)
def _divide(x: Any, y: Any) -> Dual:
    like = x if isinstance(x, Dual) else y
    (a, da), (b, db) = _parts(x, like), _parts(y, like)
    quotient = divide(a, b)
    by_x = _absorbed(quotient, divide(1, b), da)
    by_y = _absorbed(quotient, -divide(quotient, b), db)
    return Dual(quotient, by_x.tangent + by_y.tangent)


@maximum.register(Dual)
def _maximum(x: Any, y: Any) -> Dual:
    like = x if isinstance(x, Dual) else y
    (a, da), (b, db) = _parts(x, like), _parts(y, like)
    # Sides that tie count half each; NaN, which ties with nothing, lets both tangents pass.
    both = select(equal(a, b), Fraction(1, 2), 1) * (da + db)
    return Dual(maximum(a, b), select(less(a, b), db, select(less(b, a), da, both)))


@max_terms.register(Dual)
def _max_terms(terms: Sequence[Any]) -> Dual:
    """Share equally among all that tie: folding pairs would favour the last."""
    like = next(term for term in terms if isinstance(term, Dual))
    pairs = [_parts(term, like) for term in terms]
    largest = max_terms([value for value, _ in pairs])
    ties = [select(is_nan(v), 1, select(equal(v, largest), 1, 0)) for v, _ in pairs]
    count = sum_terms(ties)
    shares = [divide(tie, count) * tangent for tie, (_, tangent) in zip(ties, pairs, strict=True)]
    return Dual(largest, sum_terms(shares))


@lift.register(Dual)
def _lift(like: Dual, constant: Fraction) -> Dual:
    return Dual(lift(like.value, constant), zero_like(like.tangent))


@pi_like.register(Dual)
def _pi_like(x: Dual) -> Dual:
    return Dual(pi_like(x.value), zero_like(x.tangent))


@stop.register(Dual)
def _stop(x: Dual) -> Dual:
    return Dual(stop(x.value), zero_like(x.tangent))


@zero_like.register(Dual)
def _zero_like(x: Dual) -> Dual:
    return Dual(zero_like(x.value), zero_like(x.tangent))


@less.register(Dual)
def _less(x: Any, y: Any) -> Any:
    return less(_value(x), _value(y))


@equal.register(Dual)
def _equal(x: Any, y: Any) -> Any:
    return equal(_value(x), _value(y))


@is_zero.register(Dual)
def _is_zero(x: Dual, _: object) -> Any:
    return select(is_zero(x.value), is_zero(x.tangent), False)


@is_nan.register(Dual)
def _is_nan(x: Dual, _: object) -> Any:
    return is_nan(x.value)


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Dual) else x
