"""What formulas of equal standing may give beside numbers that are not finite.

Formulas of one function meet an infinity in different orders. g (1 - z z) is infinite where
g - g z z is NaN. A softmax that subtracts the maximum is NaN beside an infinite logit, and one that
subtracts the logsumexp is 0. A stable contract allows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from equivalence.budgets.judge import Expected
from equivalence.budgets.reading import TorchTensor, numbers
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.contract import Contract
from equivalence.worlds.kinds import ANYTHING, NANS, NOT_A_NUMBER
from equivalence.worlds.special_values.last import either_of
from equivalence.worlds.special_values.sets import Line, SpecialValues
from spec.tensor import zip_map

GROWN = 2.0**90, 2.0**110
"""What stands for an infinity, to see what a result tends to: large, and no end of a format."""

Results = Sequence[Expected | None]


def or_limits(found: Results, beside: Callable[[float], Results], line: Line) -> Results:
    """Let results that are not finite beside infinite inputs be what they tend to, too.

    beside gives the results where a large number stands for the infinities. A result tends to what
    two such numbers allow, whether or not it may be NaN besides, as a gradient may that is pulled
    back from a sum with a NaN elsewhere. It stays as it is where these differ, or where a NaN among
    the inputs made it.
    """

    def may_tend(x: Bounded | SpecialValues) -> TypeGuard[SpecialValues]:
        return not isinstance(x, Bounded) and x.finite is None and x.kinds != NOT_A_NUMBER

    def number(x: Bounded | SpecialValues) -> Bounded | None:
        if isinstance(x, Bounded):
            return x
        return x.finite if x.kinds == NOT_A_NUMBER else None

    def joined(x: Bounded | SpecialValues, near: Any, far: Any) -> Bounded | SpecialValues:
        if not may_tend(x):
            return x
        one, other = number(near), number(far)
        if one is None or other is None:
            return x
        settled = one.w == other.w or (one.w.contains(other.v) and other.w.contains(one.v))
        return SpecialValues(line, x.kinds, one) if settled else x

    if not any(may_tend(x) for tensor in found if tensor is not None for x in tensor.data):
        return found
    near, far = map(beside, GROWN)
    return [
        None if t is None or one is None or other is None else zip_map(joined, t, one, other)
        for t, one, other in zip(found, near, far, strict=True)
    ]


def or_not_finite(found: Results, spoiled: Sequence[Any], line: Line) -> list[Expected | None]:
    """Let gradients be NaN or an infinity where `spoiled` is NaN, too.

    spoiled are the gradients where NaN stands for each cotangent that is not finite, so that NaN
    shows what depends on one.
    """

    def joined(x: Bounded | SpecialValues, reached: Any) -> Bounded | SpecialValues:
        if not line.special(reached).kinds & NANS:
            return x
        return SpecialValues(line, ANYTHING, x if isinstance(x, Bounded) else x.finite)

    return [
        None if t is None or s is None else zip_map(joined, t, s)
        for t, s in zip(found, spoiled, strict=True)
    ]


def or_nan(found: Results, spoiled: Sequence[Any], line: Line) -> list[Expected | None]:
    """Let results be NaN where `spoiled` is NaN, too."""

    def joined(x: Bounded | SpecialValues, reached: Any) -> Bounded | SpecialValues:
        nan = line.special(reached).kinds & NANS
        return either_of(x, line.of(NOT_A_NUMBER)) if nan else x

    return [
        None if t is None or s is None else zip_map(joined, t, s)
        for t, s in zip(found, spoiled, strict=True)
    ]


def or_open(line: Line, x: Bounded | SpecialValues) -> Bounded | SpecialValues:
    """Let a number be infinite, or NaN, too."""
    return x if x.unconstrained else SpecialValues(line, ANYTHING, line.special(x).finite)


def real(held: npt.NDArray[Any]) -> bool:
    """Say whether what a tensor holds are real numbers, neither indices nor truth values."""
    return held.dtype.kind == "f"


def infinite(tensors: Iterable[TorchTensor | None]) -> bool:
    """Say whether some input is infinite."""
    given = [numbers(tensor) for tensor in tensors if tensor is not None]
    return any(bool(np.isinf(held).any()) for held in given if real(held))


def may_leave(contract: Contract, given: Sequence[npt.NDArray[Any]]) -> bool:
    """Say whether some sum of products of one number of each input may overflow."""
    size = 0
    reach = 1.0
    for held in filter(real, given):
        finite = np.abs(held[np.isfinite(held)])
        if len(finite):
            size += len(finite)
            reach *= max(1.0, float(finite.max()))
    return reach * size > contract.compute.max_finite
