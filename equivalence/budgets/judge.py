"""The judge: what a backend returned, against what its contract allows.

What is allowed is a tensor of Bounded scalars whose last step, rounding to storage, was taken.
The budget of an element is the largest distance from its exact value to a result that the contract
allows; the exact value's own uncertainty, 2^-256 of it, is taken off the error.
`record` turns such a tensor into numbers that are judged without this module's libraries.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeAlias

import flint
import numpy as np
import torch

from equivalence.budgets.outcome import Outcome, decide, mismatch
from equivalence.budgets.recorded import OUTWARD, Recorded, form_problem
from equivalence.worlds.balls import Arb
from equivalence.worlds.bounded import Bounded
from spec.tensor import Tensor

Expected: TypeAlias = Tensor[Bounded, *tuple[Any, ...]]
"""What a contract allows as a result."""


def dtype_of(expected: Expected) -> str:
    """Name the dtype in which the contract hands over results; nothing if there is no element."""
    return expected.data[0].arithmetic.contract.dtype.name if expected.data else ""


def budget_of(x: Bounded) -> Arb:
    """Return the largest distance from the exact value to an allowed result; 0 if x is exact."""
    return flint.arb(0) if x.exact else (x.w - x.v).abs_upper()


def fraction_of(got: float, x: Bounded) -> float | None:
    """Return the fraction of its budget that one result takes; None where there is no budget."""
    if x.unconstrained:
        return None
    if not math.isfinite(got):
        return math.inf
    error = (flint.arb(got) - x.v).abs_lower()
    if error.is_zero():
        return 0.0
    budget = budget_of(x)
    return math.inf if budget.is_zero() else float(error / budget)


def judge_tensor(got: torch.Tensor, expected: Expected) -> Outcome:
    """Judge every element of a result; shape and dtype must be the expected ones."""
    shape = tuple(expected.shape)
    problem = form_problem(got, shape, dtype_of(expected))
    if problem:
        return mismatch(problem)
    values = got.detach().cpu().double().reshape(-1).tolist()
    entries = expected.data
    fractions = [fraction_of(z, x) for z, x in zip(values, entries, strict=True)]

    def element(k: int) -> tuple[str, str, str]:
        x = entries[k]
        return str(values[k]), x.v.mid().str(17, radius=False), str(float(budget_of(x)))

    return replace(decide(fractions, shape, element), differing=differ(expected))


def differ(expected: Expected) -> bool:
    """Say whether what is expected is not the same everywhere."""
    known = [x.v for x in expected.data if not x.unconstrained]
    return any(v != known[0] for v in known)


def record(expected: Expected) -> Recorded:
    """Turn what is allowed into doubles; budgets grow by less than 2^-40 of themselves."""
    rows = [_doubles(x) for x in expected.data]
    high, low, budget = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return Recorded(tuple(expected.shape), dtype_of(expected), high, low, budget)


def _doubles(x: Bounded) -> tuple[float, float, float]:
    """Split the exact value in two doubles; what they miss goes into the budget."""
    if x.unconstrained:
        return 0.0, 0.0, math.inf
    high = float(x.v)
    low = float(x.v - high)
    budget = budget_of(x)
    missed = (x.v - high - low).abs_upper()
    if budget.is_zero() and missed.is_zero():
        return high, low, 0.0
    return high, low, math.nextafter(float((budget + missed) * (1 + OUTWARD)), math.inf)
