"""The judge: what a backend returned, against what its contract allows.

What is allowed is a tensor of Bounded scalars whose last step, rounding to storage, was taken.
The budget of an element is the largest distance from its exact value to a result that the contract
allows; the exact value's own uncertainty, 2^-256 of it, is taken off the error. Where one result
alone is allowed, it stands in the place of the exact value, and the budget is 0.
`record` turns such a tensor into numbers that are judged without this module's libraries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import flint
import numpy as np

from equivalence.budgets.outcome import WIDEST, Outcome, decide, mismatch
from equivalence.budgets.reading import TorchTensor, doubles
from equivalence.budgets.recorded import NOTHING_FINITE, OUTWARD, Recorded, form_problem
from equivalence.worlds.balls import Arb
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.kinds import ANYTHING, kind_of, named
from equivalence.worlds.special_values.sets import SpecialValues
from spec.tensor import Tensor

Allowed: TypeAlias = Bounded | SpecialValues
"""What a contract allows as one entry of a result."""

Expected: TypeAlias = Tensor[Allowed, *tuple[Any, ...]]
"""What a contract allows as a result."""


def dtype_of(expected: Expected) -> str:
    """Name the dtype in which the contract hands over results; nothing if there is no element."""
    return expected.data[0].arithmetic.contract.dtype.name if expected.data else ""


def aimed(x: Bounded) -> tuple[Arb, Arb]:
    """Return the value that is due, and the largest distance from it to an allowed result.

    It is the exact value. Where one result alone is allowed, as of an exact number that is rounded
    once, it is that result, and the distance is 0.
    """
    if x.exact:
        return x.v, flint.arb(0)
    if x.ball.is_exact() and x.ball.is_finite():
        return x.ball, flint.arb(0)
    return x.v, (x.ball - x.v).abs_upper()


def budget_of(x: Bounded) -> Arb:
    """Return the largest distance from the value that is due to an allowed result."""
    return aimed(x)[1]


def fraction_of(got: float, x: Allowed) -> float | None:
    """Return the fraction of its budget that one result takes; None where there is no budget.

    A result that is not finite takes nothing where it is allowed.
    """
    if x.unconstrained:
        return None
    if isinstance(x, SpecialValues):
        if not math.isfinite(got):
            return 0.0 if x.kinds & kind_of(got) else math.inf
        return math.inf if x.finite is None else fraction_of(got, x.finite)
    if not math.isfinite(got):
        return math.inf
    due, budget = aimed(x)
    error = (flint.arb(got) - due).abs_lower()
    if error.is_zero():
        return math.inf if _loses_its_sign(got, x) else 0.0
    return math.inf if budget.is_zero() else float(error / budget)


def _loses_its_sign(got: float, x: Bounded) -> bool:
    """Say whether 0 came where a number that is rounded once becomes a 0 of the other sign."""
    if got != 0 or not x.ball.is_zero() or x.v.contains(0):
        return False
    return bool(x.v < 0) != (math.copysign(1.0, got) < 0)


def judge_tensor(got: TorchTensor, expected: Expected) -> Outcome:
    """Judge every element of a result; shape and dtype must be the expected ones."""
    shape = tuple(expected.shape)
    problem = form_problem(got, shape, dtype_of(expected))
    if problem:
        return mismatch(problem)
    values = doubles(got).tolist()
    entries = expected.data
    pairs = list(zip(values, entries, strict=True))
    fractions = [fraction_of(z, x) for z, x in pairs]
    pages = [
        fraction if page is None else fraction_of(z, page)
        for fraction, (z, page) in zip(fractions, ((z, paged(x)) for z, x in pairs), strict=True)
    ]

    def element(k: int) -> tuple[str, str, str]:
        return str(values[k]), *_words(entries[k])

    dtype = dtype_of(expected)
    judged = decide(fractions, shape, element, dtype, pages=pages, wide=wide(entries))
    return replace(judged, differing=differ(expected))


def differ(expected: Expected) -> bool:
    """Say whether what is expected is not the same everywhere, so that something shows."""
    known = [x for x in expected.data if not x.unconstrained]
    if len({x.kinds if isinstance(x, SpecialValues) else 0 for x in known}) > 1:
        return True
    finite = [x.finite if isinstance(x, SpecialValues) else x for x in known]
    values = [x.v for x in finite if x is not None]
    return any(v != values[0] for v in values)


def paged(x: Allowed) -> Bounded | None:
    """Return what the page's own steps may give; None where no further freedom was taken."""
    if not isinstance(x, Bounded) or x.strict is None or x.strict is x.w:
        return None
    page: Arb = x.strict
    return Bounded(x.v, page, x.arithmetic, page)


def wide(entries: Sequence[Allowed]) -> int:
    """Count the budgets that are wider than a sixteenth of the largest entry."""
    finite = [x for x in entries if isinstance(x, Bounded)]
    known = [x for x in finite if not (x.exact or x.unconstrained)]
    if not known:
        return 0
    scale = max(abs(float(x.v)) for x in finite if x.v.is_finite())
    return sum(float(budget_of(x)) > WIDEST * scale for x in known)


def _words(x: Allowed) -> tuple[str, str]:
    """Write down what is allowed: the exact value, or each possibility, and the budget."""
    if isinstance(x, Bounded):
        due, budget = aimed(x)
        sign = "-" if due.is_zero() and x.v < 0 else ""
        return sign + due.mid().str(17, radius=False), str(float(budget))
    exact, budget = ("", "0.0") if x.finite is None else _words(x.finite)
    return " or ".join([*named(x.kinds), *([exact] if exact else [])]), budget


def record(expected: Expected) -> Recorded:
    """Turn what is allowed into doubles; budgets grow by less than 2^-40 of themselves."""
    rows = [_doubles(x) for x in expected.data]
    high, low, budget = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    kinds = np.array([_kinds(x) for x in expected.data], dtype=np.uint8)
    return Recorded(tuple(expected.shape), dtype_of(expected), high, low, budget, kinds)


def _kinds(x: Allowed) -> int:
    """Say which results that are not finite are allowed."""
    return x.kinds if isinstance(x, SpecialValues) else ANYTHING if x.unconstrained else 0


def _doubles(x: Allowed) -> tuple[float, float, float]:
    """Split the exact value in two doubles; what they miss goes into the budget."""
    if isinstance(x, SpecialValues):
        return (0.0, 0.0, NOTHING_FINITE) if x.finite is None else _doubles(x.finite)
    if x.unconstrained:
        return 0.0, 0.0, math.inf
    due, budget = aimed(x)
    high = float(due)
    low = float(due - high)
    missed = (due - high - low).abs_upper()
    if budget.is_zero() and missed.is_zero():
        return high, low, 0.0
    return high, low, math.nextafter(float((budget + missed) * (1 + OUTWARD)), math.inf)
