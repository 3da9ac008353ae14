"""Errors at one element of a right result: half of its budget, and twice as much.

A budget that lets both pass, or neither, says nothing. Numbers have a format, so what is planted is
the nearest that it has: for half of the budget the nearest one, for twice the budget the first that
is as far away. Where one number alone is allowed, that number is planted, and its neighbour.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from equivalence.budgets.judge import Expected, aimed, fraction_of, judge_tensor
from equivalence.budgets.outcome import WIDEST
from equivalence.worlds.bounded import Bounded


class Planted(NamedTuple):
    """The bound of an element as a part of the largest entry, 0 where one number is allowed.

    `within` and `beyond` are the fractions of the budget that the two errors take.
    """

    bound: float
    within: float
    beyond: float


def right(expected: Expected, dtype: torch.dtype) -> Tensor | None:
    """Return a result of numbers nearest to what is due; None where an entry has no finite one."""
    known = bounded(expected)
    if len(known) != len(expected.data) or not all(x.v.is_finite() for x in known):
        return None
    found = torch.tensor([float(aimed(x)[0]) for x in known], dtype=torch.float64).to(dtype)
    return found.reshape(tuple(expected.shape))


def bounded(expected: Expected) -> list[Bounded]:
    """Return the entries that are bounded numbers."""
    return [x for x in expected.data if isinstance(x, Bounded)]


def plant(expected: Expected, dtype: torch.dtype) -> Planted | None:
    """Plant both errors at the element of the widest bound.

    None where that is wide or has no end, or where no result is right: then another case may say
    more. Raises AssertionError where the judge takes the second error, or refuses the first.
    """
    result = right(expected, dtype)
    if result is None or not result.numel() or judge_tensor(result, expected).failed:
        return None
    allowed = bounded(expected)
    scale = max(abs(float(x.v)) for x in allowed)
    bounds = [inf if x.unconstrained else float(aimed(x)[1]) for x in allowed]
    at = max(range(len(bounds)), key=bounds.__getitem__)
    if scale == inf or bounds[at] > WIDEST * scale:
        return None
    within, beyond = result.clone(), result.clone()
    due, budget = aimed(allowed[at])
    within.view(-1)[at] = _stored(float(due + budget / 2), dtype)
    if abs(float(within.view(-1)[at]) - due) > budget:
        within = result  # The format has no number between.
    beyond.view(-1)[at] = _far(result.view(-1)[at], allowed[at])
    assert not judge_tensor(within, expected).failed, "an error of half of the budget is refused"
    assert judge_tensor(beyond, expected).failed, "an error of twice the budget passes"
    share = bounds[at] / scale if scale else 0.0
    taken = (fraction_of(float(x.view(-1)[at]), allowed[at]) for x in (within, beyond))
    first, second = (0.0 if fraction is None else fraction for fraction in taken)
    return Planted(share, first, second)


def _stored(number: float, dtype: torch.dtype) -> Tensor:
    """Return the number of a format that is nearest, perhaps infinity."""
    return torch.tensor(number, dtype=torch.float64).to(dtype)


def _far(near: Tensor, allowed: Bounded) -> Tensor:
    """Return the first number above that is wrong by twice the budget, or the next one."""
    if not near.is_floating_point():
        return near + 1
    due, budget = aimed(allowed)
    above = near.new_tensor(torch.inf)
    found = torch.maximum(_stored(float(due + 2 * budget), near.dtype), near)
    while found <= near or float(found) - float(due) < 2 * float(budget):
        found = torch.nextafter(found, above)
    return found
