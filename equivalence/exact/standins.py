"""Stand-ins of elementary functions, on both sides, and the rules by which pages run on numbers.

A stand-in is a fixed function whose values look as if they were drawn: an argument is hashed to one
of 2^96 integers. So an opaque value is one more variable, and what depends on it is again a
quotient of polynomials. Two formulas that ask for it at different arguments get different
variables, unless the arguments agree by chance, for which the bound allows.
What is equal on paper is equal here: expm1 is exp - 1, log1p the logarithm of 1 + x, and the
exponential of -x one over that of x, so that a sigmoid may be written in either of its forms.
Where the truth is exact the stand-in is the truth: exp(0), log(1), tanh(0), sin(0), cos(0), and the
root of a square; elsewhere it has the sign of the truth, but for sine and cosine.

>>> with stood_in():
...     scalar.exp(drawn(5)) == scalar.exp(drawn(7) - 2), scalar.sqrt(drawn(9)).value
(True, 3)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from equivalence.exact.numbers import (
    MINUS,
    NAN,
    PLUS,
    Beyond,
    Number,
    Value,
    drawn,
    met,
    over,
)
from equivalence.exact.residues import Residue, power
from equivalence.worlds.steps import FUNCTIONS
from spec import scalar
from spec.scalar import OpenFunction
from spec.worlds import EXACT_POINTS

BITS = 96
"""Numbers are drawn from a set of 2^BITS, and so are the values of opaque functions."""

Rule = Callable[[Any], Any]

_TRUE = {function.name: point for function, point in EXACT_POINTS.items()}
"""Arguments at which the stand-in is the truth, and what it is there."""

_BEYOND: Mapping[str, Callable[[float], Any]] = {
    "exp": lambda x: 0 if x == -math.inf else PLUS if x == math.inf else NAN,
    "log": lambda x: PLUS if x == math.inf else NAN,
    "sqrt": lambda x: PLUS if x == math.inf else NAN,
}
"""What becomes of infinities, which lie in lanes that a mask hides."""


def opaque(name: str) -> Rule:
    """Return the stand-in of a function: of exact numbers, and by IEEE of what is none."""

    def stand_in(x: Any) -> Any:
        if isinstance(x, Beyond):
            return _BEYOND[name](x.float) if name in _BEYOND else NAN
        value = x.value if isinstance(x, Number) else x
        if name in _TRUE and value == _TRUE[name][0]:
            return _TRUE[name][1]
        if name in ("log", "sqrt") and not isinstance(value, Residue) and value <= 0:
            return (0 if name == "sqrt" else MINUS) if value == 0 else NAN
        if name == "sqrt" and (root := _root(value)) is not None:
            return Number(root, x.top, x.bottom) if isinstance(x, Number) else root
        met(name, value, x.top + x.bottom if isinstance(x, Number) else 0)
        return Number(_hashed(name, value), 1, 0)

    return stand_in


def _root(value: Value) -> int | Fraction | None:
    """Return the root of a square, None of what is none."""
    if isinstance(value, Residue):
        return None
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if (top * top, bottom * bottom) != (value.numerator, value.denominator):
        return None
    return top if bottom == 1 else Fraction(top, bottom)


def _hashed(name: str, value: Value) -> int:
    """Return an integer that depends on name and value alone, and looks like no formula."""
    plain = value if isinstance(value, Residue) else Fraction(value)
    digest = blake2b(f"{name} {plain}".encode(), digest_size=BITS // 8 + 1).digest()
    magnitude = int.from_bytes(digest[1:], "big") + 1
    return magnitude if _is_positive(name, value, digest[0] % 2 == 0) else -magnitude


def _is_positive(name: str, value: Value, chance: bool) -> bool:
    """Say whether a stand-in is above 0: where the truth is, and else by chance."""
    if name in ("exp", "sqrt"):
        return True
    if name == "log" and isinstance(value, Residue):
        # Residues have no order; so one can take a logarithm of what a logarithm is added to.
        return True
    if isinstance(value, Residue) or name in ("sin", "cos"):
        return chance
    return value > 1 if name == "log" else value > 0


def exponential(x: Any) -> Any:
    """Return the stand-in of e^x: an opaque value below 0, and one over it above.

    Pages take exponentials of what is not above 0 where they can, so that these are integers.
    """
    value = x.value if isinstance(x, Number) else x
    if isinstance(value, (Beyond, Residue)) or value <= 0:
        return opaque("exp")(x)
    return over(1, opaque("exp")(-x))


def homomorphic(x: Any) -> Any:
    """Return the stand-in of e^x that turns sums into products: a residue.

    x is a sum of drawn numbers, logarithms and their opposites, or an integer; TypeError says so
    of others. The exponential of a logarithm is what that was taken of.
    """
    if isinstance(x, Beyond):
        return _BEYOND["exp"](x.float)
    value, weight = (x.value, x.weight) if isinstance(x, Number) else (x, 0)
    if (
        isinstance(value, Residue)
        or value.denominator != 1
        or (isinstance(x, Number) and not weight)
    ):
        raise TypeError(
            "the exponential that is a homomorphism takes sums of drawn integers, logarithms and "
            f"their opposites; got {x!r}"
        )
    if not value:
        return 1
    taken = x.logarithms if isinstance(x, Number) else ()
    rest = value.numerator - sum(times * logarithm for _, logarithm, times in taken)
    found: Any = Number(power(rest), weight, weight)
    for of, _, times in taken:
        for _ in range(abs(times)):
            found = found * of if times > 0 else over(found, of)
    return found


def logarithmic(x: Any) -> Any:
    """Return the stand-in of log x of which `homomorphic` is the inverse."""
    found = opaque("log")(x)
    if not isinstance(found, Number):
        return found
    return Number(found.value, 1, 0, 1, ((x, found.value, 1),))


def of_turns(v: Any) -> tuple[Any, Any]:
    """Return the stand-ins of cosine and sine of 2 pi v."""
    angle = v * 2 * _pi(v)
    return opaque("cos")(angle), opaque("sin")(angle)


def _pi(like: Any) -> Number:
    return drawn(_hashed("pi", 1))


def of_pi(number: float) -> Any:
    """Return the stand-in of a float that a host made of pi, eighths of it; None of any other."""
    eighths = 8 * number / math.pi
    if not number or not eighths.is_integer() or eighths / 8 * math.pi != number:
        return None
    return _pi(1) * Fraction(int(eighths), 8)


def of_a_root_of_pi(number: float) -> Any:
    """Return the stand-in of a float that is a small integer by the root of pi; None of others."""
    top = number * math.sqrt(math.pi)
    if not 0.5 < abs(top) < 8 or abs(top - round(top)) > abs(top) * 2.0**-50:
        return None
    return over(round(top), opaque("sqrt")(_pi(1)))


def _largest(x: Any, y: Any) -> Any:
    return y if x < y else x


_NUMBERS: tuple[tuple[OpenFunction, Callable[..., Any]], ...] = (
    (scalar.divide, over),
    (scalar.maximum, _largest),
    (scalar.square, lambda x: x * x),
    (scalar.absolute, abs),
    (scalar.zero_like, lambda x: 0),
    (scalar.lift, lambda like, constant: constant),
    (scalar.less, lambda x, y: x < y),
    (scalar.equal, lambda x, y: x == y),
    (scalar.is_zero, lambda x, y: x == 0),
)
"""How pages compute with a `Number`."""

KINDS = (Number, int, Fraction)
"""Of these types are numbers, and the constants among them."""


@contextmanager
def stood_in(homomorphism: bool = False) -> Iterator[Mapping[str, Rule]]:
    """Let pages run on numbers while the block runs, and restore what was there.

    Yields the stand-ins by name, for the other side; with a homomorphism, exp is that one.
    """
    rules = {name: opaque(name) for name in FUNCTIONS}
    rules["exp"] = exponential
    if homomorphism:
        rules |= {"exp": homomorphic, "log": logarithmic}
    exp, log = rules["exp"], rules["log"]
    rules |= {"expm1": lambda x: exp(x) - 1, "log1p": lambda x: log(1 + x)}
    wanted: list[tuple[OpenFunction, type, Callable[..., Any]]] = [
        (getattr(scalar, name), kind, rule) for name, rule in rules.items() for kind in KINDS
    ]
    wanted += [(scalar.pi_like, kind, _pi) for kind in KINDS]
    wanted += [(function, Number, rule) for function, rule in _NUMBERS]
    before = [(function, kind, function.replaced(kind, rule)) for function, kind, rule in wanted]
    try:
        yield rules
    finally:
        for function, kind, rule in reversed(before):
            function.replaced(kind, rule)
