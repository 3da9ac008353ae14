"""Recorded expectations: judged on a machine that has neither the oracle nor its libraries.

An expectation of n elements is three arrays of n float64 and one of bytes, in row-major order:

    high, low   the exact value is high + low, to 2^-106 of itself
    budget      the largest allowed distance from it; inf where the contract leaves it
                unconstrained, -1 where no finite result is allowed
    kinds       which other results are allowed: the sum of 1 for NaN, 2 for inf and 4 for -inf

together with the shape and the name of the result's dtype ("fp32", "bf16", "fp16", "fp64"; empty
where there is no element).
What high + low misses is added to the budget, and the budget is then enlarged by 2^-45 of itself,
which is more than the rounding errors of judging in double precision.
So a recorded verdict is never stricter than the original one, and never looser than 2^-40 of it.
A budget of 0 stays 0, for its exact value is a number of the format and high alone is that value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from equivalence.budgets.outcome import Outcome, decide, mismatch
from equivalence.budgets.reading import Doubles, TorchTensor, doubles
from equivalence.cases.call import RESULTS
from equivalence.worlds.kinds import ANYTHING, MINUS, NOT_A_NUMBER, PLUS, named

Bytes = npt.NDArray[np.uint8]

OUTWARD = 2.0**-45
"""How much a recorded budget is enlarged, relative to itself."""

NOTHING_FINITE = -1.0
"""The budget where no finite result is allowed."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An expectation as numbers."""

    shape: tuple[int, ...]
    dtype: str
    high: Doubles
    low: Doubles
    budget: Doubles
    kinds: Bytes


def form_problem(got: TorchTensor, shape: tuple[int, ...], dtype: str) -> str:
    """Say what is wrong with a result's shape or dtype; nothing if they are the expected ones."""
    if tuple(got.shape) != shape:
        return f"shape {list(got.shape)} came where {list(shape)} is due"
    if dtype and got.dtype != RESULTS[dtype]:
        return f"dtype {got.dtype} came where {RESULTS[dtype]} is due"
    return ""


def judge_recorded(got: TorchTensor, expected: Recorded) -> Outcome:
    """Judge every element of a result against recorded numbers."""
    problem = form_problem(got, expected.shape, expected.dtype)
    if problem:
        return mismatch(problem)
    values = doubles(got)
    fractions = _fractions(values, expected)

    def element(k: int) -> tuple[str, str, str]:
        numbers = (values[k], expected.high[k], expected.budget[k])
        got, exact, budget = (str(float(number)) for number in numbers)
        kinds = named(int(expected.kinds[k]))
        if expected.budget[k] == NOTHING_FINITE:
            return got, " or ".join(kinds), "0.0"
        return got, " or ".join([*kinds, exact]), budget

    return replace(
        decide(fractions, expected.shape, element, expected.dtype), differing=differ(expected)
    )


def differ(expected: Recorded) -> bool:
    """Say whether what is expected is not the same everywhere."""
    known = np.isfinite(expected.budget)
    kinds = expected.kinds[known]
    if np.any(kinds != kinds[:1]):
        return True
    finite = known & (expected.budget != NOTHING_FINITE)
    high, low = expected.high[finite], expected.low[finite]
    return bool(np.any(high != high[:1]) or np.any(low != low[:1]))


def _fractions(values: Doubles, expected: Recorded) -> list[float | None]:
    with np.errstate(all="ignore"):
        error = np.abs((values - expected.high) - expected.low)
        fraction = np.where(error == 0, 0.0, error / expected.budget)
    fraction = np.where(expected.budget == NOTHING_FINITE, np.inf, fraction)
    kinds = np.where(np.isnan(values), NOT_A_NUMBER, np.where(values > 0, PLUS, MINUS))
    met = np.where(expected.kinds & kinds, 0.0, np.inf)
    finite = np.isfinite(values)
    fraction = np.where(finite, fraction, met)
    free = np.isinf(expected.budget) & (finite | (expected.kinds == ANYTHING))
    return [None if f else float(x) for x, f in zip(fraction, free, strict=True)]
