"""How the calls of a family grow to the sizes of real models, and which numbers they bear there.

Kernels fail where a block ends and beyond: in the second block of a grid, in the second step of a
loop, past 65,535 programs, past the columns that fit into registers. So each family names the axes
along which its calls grow. Full sizes are those of real models. Near ones lie just beyond what the
fixed strata reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from equivalence.cases.domains import usual
from equivalence.cases.families.signatures import Shape, Signature, required
from equivalence.cases.fills.regimes import EVERY
from spec.op import Op
from spec.tensor import tensor

SIZED_REGIMES = ("integers", "reals", "offset", EVERY)
"""What the numbers of a large call may be (`equivalence.cases.sizes` explains each)."""

WHOLE, SPREAD = ("integers",), ("reals",)

MANY_ROWS = 65_601
"""More rows than a grid's second axis has programs, and no multiple of a tile."""

MOST_AMPLE = 2**20 + 2**16
"""How many elements the inputs of a large case have at most where time is short."""

Grow = Callable[[Op, int], Signature]
"""Returns the call of a size."""


@dataclass(frozen=True)
class Growth:
    """One way to grow: the call of a size, and the sizes that are full and near.

    regimes says which numbers suit it: no reals where a sum of them would leave no bound.
    by_entry says that the op takes each entry alone, so that few of many entries may err.
    """

    what: str
    call: Grow
    full: int
    near: int
    regimes: tuple[str, ...] = ("integers", "reals")
    by_entry: bool = False

    @property
    def every(self) -> bool:
        """Whether the entries go through all arguments of a format."""
        return self.regimes == (EVERY,)

    def ample(self, op: Op) -> int:
        """Return the largest size, up to more rows than a grid may have, that costs little.

        A longer inner extent costs more than its elements tell.
        """
        size = min(self.full, MANY_ROWS)
        elements = sum(math.prod(shape) for shape in self.call(op, size)[0])
        return size if elements <= MOST_AMPLE and self.what != "inner" else self.near


Growths = Callable[[Op], tuple[Growth, ...]]


def grows(*growths: Growth) -> Growths:
    """Return the same ways to grow for every op."""
    return lambda op: growths


def fixed(shapes: Callable[[int], tuple[Shape, ...]], **attributes: Any) -> Grow:
    """Return calls whose attributes do not grow; those that the op has not are left out."""

    def call(op: Op, n: int) -> Signature:
        given = {k: v for k, v in attributes.items() if k in op.attributes}
        return shapes(n), {**required(op), **given}

    return call


def grown(
    shapes: Callable[[int], tuple[Shape, ...]], attributes: Callable[[int], dict[str, Any]]
) -> Grow:
    """Return calls whose attributes grow, too."""
    return lambda op, n: (shapes(n), {**required(op), **attributes(n)})


@cache
def at_whole_numbers(op: Op, *numbers: int) -> Fraction | None:
    """Return the one number that an op makes of a row, None where it is no fraction."""
    if op.results is not None:
        return None
    row = tensor([Fraction(number) for number in numbers])
    try:
        (made,) = op.value(row, **usual(op)).data
    except ArithmeticError:
        return None
    return Fraction(made) if isinstance(made, int | Fraction) else None


def nothing_is_added(op: Op, k: int, exponent: int) -> int | None:
    """Bound no integers: none of them are added up."""
    return None


def at_most(number: int) -> Callable[[Op, int, int], int | None]:
    """Bound the integers of every input by one number."""
    return lambda op, k, exponent: number


@dataclass(frozen=True)
class Bearing:
    """Which numbers the large calls of a family bear, so that their sums are exact or bounded.

    shared says that gradients are sums over all rows or all columns.
    added says that gradients are sums of cotangents, or of products with them.
    most(op, k, exponent) is the largest magnitude of input k's integers in a format with this
    largest exponent, and None where the width of the format alone bounds them.
    side(op) is the side of 0 on which integers lie, and 0 where they lie on both.
    spread(op, k) is the factor by which the reals of input k are spread.
    carried(op) says that what is added up is multiplied by factors before.
    below(op) says that the reals of input 0 lie below 0, as logarithms of probabilities do: a sum
    of them is as large as its terms, and has a bound.
    singly(attributes) says that the page reads entries one by one, which no array of them gives.
    """

    shared: bool = False
    added: bool = False
    most: Callable[[Op, int, int], int | None] = nothing_is_added
    side: Callable[[Op], int] = lambda op: 0
    spread: Callable[[Op, int], float] = lambda op, k: 1.0
    carried: Callable[[Op], bool] = lambda op: False
    below: Callable[[Op], bool] = lambda op: False
    singly: Callable[[Mapping[str, Any]], bool] = lambda attributes: False
