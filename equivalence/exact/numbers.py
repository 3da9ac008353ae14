"""Numbers of the exact ring: exact values that know their degree, and what is no number.

A drawn number is a variable of degree 1, and a constant a plain int or Fraction. Whatever is
computed from them is a quotient of two polynomials in the variables; its `Number` carries, beside
its exact value, upper bounds for the degrees of both, which is all that an identity test needs.

>>> x, y = drawn(3), drawn(5)
>>> z = (x + y) / (x * y)
>>> z.value, (z.top, z.bottom)
(Fraction(8, 15), (1, 2))
>>> x * 0, over(0, 0), 1 - MINUS
(0, nan, inf)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from equivalence.exact.literals import written
from equivalence.exact.residues import Residue

Value = int | Fraction | Residue


class Inexact(NotImplementedError):
    """Code does with floats what exact numbers cannot follow; the message says what.

    It is no TypeError, which torch's operators take for an operand that they do not know.
    """


@dataclass(eq=False)
class Trace:
    """What happened to numbers while one point was computed.

    ordered: two drawn numbers, or one and a constant, were asked which is larger, so that what
    follows is one formula for each ordering of the drawn numbers.
    decided: that was asked of others, so that nobody knows how large the region is in which the
    formula that was tested holds.
    opaque: the arguments of the opaque functions; degree is the largest degree of one.
    constants: the names of opaque functions that were taken of what was not drawn.
    kernels: the names of those that were started.
    """

    ordered: bool = False
    decided: bool = False
    opaque: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])
    degree: int = 0
    constants: set[str] = field(default_factory=set[str])
    kernels: set[str] = field(default_factory=set[str])


_traces: list[Trace] = []


@contextmanager
def traced() -> Iterator[Trace]:
    """Note what happens to numbers while the block runs."""
    trace = Trace()
    _traces.append(trace)
    try:
        yield trace
    finally:
        _traces.remove(trace)


def met(name: str, value: Value, degree: int) -> None:
    """Note an argument of an opaque function."""
    for trace in _traces:
        trace.opaque.add((name, value))
        trace.degree = max(trace.degree, degree)
        if not degree:
            trace.constants.add(name)


def started(kernel: str) -> None:
    """Note the name of a kernel that starts."""
    for trace in _traces:
        trace.kernels.add(kernel)


class Beyond:
    """What is no number: NaN or an infinity. Lanes that a mask hides may hold it, as IEEE says."""

    __slots__ = ("float",)
    __array_ufunc__: Final = None

    def __init__(self, value: float) -> None:
        """Hold a float that is not finite."""
        self.float = value

    def __repr__(self) -> str:
        """Show the float."""
        return repr(self.float)

    def __hash__(self) -> int:
        """Hash as floats do."""
        return hash(self.float)

    def __eq__(self, other: object) -> bool:
        """Compare as IEEE does: NaN equals nothing."""
        return isinstance(other, Beyond) and self.float == other.float

    def __lt__(self, other: object) -> bool:
        """Compare as IEEE does."""
        return self.float < _sign(other)

    def __le__(self, other: object) -> bool:
        """Compare as IEEE does."""
        return self.float <= _sign(other)

    def __gt__(self, other: object) -> bool:
        """Compare as IEEE does."""
        return self.float > _sign(other)

    def __ge__(self, other: object) -> bool:
        """Compare as IEEE does."""
        return self.float >= _sign(other)

    def __add__(self, other: Any) -> Any:
        """Add as IEEE does."""
        return _checked(self.float + _sign(other))

    def __sub__(self, other: Any) -> Any:
        """Subtract as IEEE does."""
        return _checked(self.float - _sign(other))

    def __rsub__(self, other: Any) -> Any:
        """Subtract as IEEE does."""
        return _checked(_sign(other) - self.float)

    def __mul__(self, other: Any) -> Any:
        """Multiply as IEEE does."""
        return _checked(self.float * _sign(other))

    def __truediv__(self, other: Any) -> Any:
        """Divide as IEEE does, but that the sign of a zero is not known: what it divides is NaN."""
        sign = _sign(other)
        return NAN if sign == 0 else _checked(self.float / sign)

    def __rtruediv__(self, other: Any) -> Any:
        """Divide as IEEE does."""
        return _checked(_sign(other) / self.float)

    def __neg__(self) -> Beyond:
        """Turn the sign."""
        return Beyond(-self.float)

    def __abs__(self) -> Beyond:
        """Drop the sign."""
        return Beyond(abs(self.float))

    __radd__ = __add__
    __rmul__ = __mul__


NAN, PLUS, MINUS = Beyond(math.nan), Beyond(math.inf), Beyond(-math.inf)


def _sign(x: Any) -> float:
    """Return the sign of a number as a float, which is all that an infinity meets of it."""
    if isinstance(x, Beyond):
        return x.float
    value = x.value if isinstance(x, Number) else x
    if isinstance(value, Residue):
        # A residue stands for a number whose sign nobody knows.
        return math.nan
    return float((value > 0) - (value < 0))


def _checked(result: float) -> Beyond | int:
    """Return what is not finite; the only finite result that an infinity has is 0."""
    return Beyond(result) if not math.isfinite(result) else 0


Logarithms = tuple[tuple[Any, Any, int], ...]
"""Logarithms in a sum: the argument of each, its value, and how often it is added."""


def _split(x: Any) -> tuple[Any, int, int, int, Logarithms] | None:
    """Return value, degrees, weight and logarithms of an operand; None of what is no number."""
    if isinstance(x, Number):
        return x.value, x.top, x.bottom, x.weight, x.logarithms
    if isinstance(x, (int, Fraction)):
        return written(x), 0, 0, 0, ()
    return None


class Number:
    """An exact value that depends on drawn numbers.

    top and bottom bound the degrees of its numerator and denominator in them.
    weight counts the terms where it is a sum of drawn numbers, logarithms and their opposites, and
    is 0 where it is anything else; a drawn number has weight 1. logarithms are those among them.
    """

    __slots__ = ("bottom", "logarithms", "top", "value", "weight")
    __array_ufunc__: Final = None

    def __init__(
        self, value: Value, top: int, bottom: int, weight: int = 0, logarithms: Logarithms = ()
    ) -> None:
        """Hold a value with its degrees."""
        self.value = value
        self.top = top
        self.bottom = bottom
        self.weight = weight
        self.logarithms = logarithms

    def __repr__(self) -> str:
        """Show the value."""
        return repr(self.value)

    def __hash__(self) -> int:
        """Hash as the value does."""
        return hash(self.value)

    def __add__(self, other: Any) -> Any:
        """Add; over a common denominator, both numerators grow by the other's denominator."""
        right = _split(other)
        if right is None:
            return NotImplemented
        value, top, bottom, weight, logarithms = right
        if value == 0 and not top:
            return self
        if self.bottom or bottom:
            above = max(self.top + bottom, top + self.bottom)
        else:
            above = max(self.top, top)
        terms = self.weight + weight if self.weight and weight else 0
        both = self.logarithms + logarithms if terms else ()
        return Number(self.value + value, above, self.bottom + bottom, terms, both)

    def __mul__(self, other: Any) -> Any:
        """Multiply; a product with the constant 0 is that constant."""
        right = _split(other)
        if right is None:
            return NotImplemented
        value, top, bottom, weight, _ = right
        if not (top or weight) and isinstance(value, int) and -1 <= value <= 1:
            return 0 if value == 0 else self if value == 1 else -self
        return Number(self.value * value, self.top + top, self.bottom + bottom)

    def __sub__(self, other: Any) -> Any:
        """Subtract."""
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Any:
        """Subtract."""
        return (-self).__add__(other)

    def __truediv__(self, other: Any) -> Any:
        """Divide."""
        return over(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        """Divide."""
        return over(other, self)

    def __neg__(self) -> Number:
        """Turn the sign; the opposite of a drawn number has the weight of one."""
        opposites = tuple((of, value, -times) for of, value, times in self.logarithms)
        return Number(-self.value, self.top, self.bottom, self.weight, opposites)

    def __abs__(self) -> Number:
        """Drop the sign."""
        return -self if self < 0 else self

    def __eq__(self, other: object) -> bool:
        """Compare values: where they are equal by chance, the point was an unlucky one."""
        return isinstance(other, (Number, int, Fraction)) and self.value == _bare(other)

    def __lt__(self, other: Any) -> bool:
        """Ask for an order, and note it."""
        return bool(self._meets(other) < _bare(other))

    def __le__(self, other: Any) -> bool:
        """Ask for an order, and note it."""
        return bool(self._meets(other) <= _bare(other))

    def __gt__(self, other: Any) -> bool:
        """Ask for an order, and note it."""
        return bool(self._meets(other) > _bare(other))

    def __ge__(self, other: Any) -> bool:
        """Ask for an order, and note it."""
        return bool(self._meets(other) >= _bare(other))

    def _is_drawn(self) -> bool:
        """Say whether this is a drawn number or its opposite."""
        return self.weight == 1 and not self.logarithms

    def _meets(self, other: Any) -> Any:
        """Note that an order is asked for, and return what is compared."""
        if isinstance(other, Beyond):
            return 0.0
        known = self._is_drawn() and (not isinstance(other, Number) or other._is_drawn())
        for trace in _traces:
            trace.ordered = True
            trace.decided = trace.decided or not known
        return self.value

    __radd__ = __add__
    __rmul__ = __mul__


def _bare(x: Any) -> Any:
    """Return what is compared."""
    return x.value if isinstance(x, Number) else x.float if isinstance(x, Beyond) else x


def whole_part(x: Any) -> int:
    """Return the whole part of a number; of what is none, in a lane that a mask hides, 0."""
    value: Any = x.value if isinstance(x, Number) else x
    return 0 if isinstance(value, Beyond) else int(value)


def drawn(value: int) -> Number:
    """Return a variable, at a point where it has this value."""
    return Number(value, 1, 0, 1)


def over(x: Any, y: Any) -> Any:
    """Divide; by 0, as IEEE does, and by what is 0 at this point alone there is no quotient."""
    above, below = _split(x), _split(y)
    if above is None:
        return x.__truediv__(y)
    if below is None:
        return y.__rtruediv__(x)
    if below[0] == 0:
        return NAN if above[0] == 0 else PLUS if _sign(x) > 0 else MINUS
    if isinstance(above[0], Residue) or isinstance(below[0], Residue):
        value: Value = above[0] / below[0]
    else:
        value = Fraction(above[0]) / below[0]
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    top, bottom = above[1] + below[2], above[2] + below[1]
    return Number(value, top, bottom) if top or bottom else value
