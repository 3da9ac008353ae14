"""Which elements of an update are alike: equal numbers going in allow equal numbers to come out.

Most updates work entry by entry, so the reference computes each distinct set of numbers of a long
tensor once, and every element is judged by it. Where there are too many of them, it is judged at
the positions where mistakes show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from equivalence.budgets.outcome import Outcome, Wrong, mismatch, position
from equivalence.cases.updates.tensors import long, marks
from equivalence.measure.call import judge_live
from equivalence.measure.reference import Expected
from equivalence.measure.shadow import Step, judge_step
from spec.tensor import Tensor as SpecTensor

MOST = 96
"""How many distinct sets of numbers of a long tensor the reference computes."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Distinct:
    """The judged positions of a tensor, row-major, and which of the first of each kind they equal.

    first has the position of one element of each kind, kinds the number of every judged element's.
    """

    judged: Positions
    first: Positions
    kinds: Positions

    def taken(self, tensor: Tensor) -> Tensor:
        """Return the judged entries of a tensor."""
        flat = tensor.reshape(-1)
        return flat if len(self.judged) == len(flat) else flat[torch.from_numpy(self.judged)]

    def rows(self, tensor: Tensor | None) -> Tensor | None:
        """Return a tensor's entry for each kind."""
        if tensor is None or len(self.first) == tensor.numel():
            return None if tensor is None else tensor.reshape(-1)
        return tensor.reshape(-1)[torch.from_numpy(self.first)]


def distinct(columns: Sequence[Tensor], whole: bool = False) -> Distinct:
    """Find the kinds of elements by their numbers' bits; the columns have one shape.

    A short tensor's elements are all of kinds of their own, and so are those of a whole one, whose
    entries look at each other.
    """
    numbers = np.stack([column.reshape(-1).double().numpy() for column in columns])
    elements = numbers.shape[1]
    every = np.arange(elements)
    if whole or not long(elements):
        return Distinct(every, every, every)
    first, kinds = numbered(*numbers)
    if len(first) > MOST:
        judged = np.array(marks(elements))
        first, kinds = numbered(*numbers[:, judged])
        return Distinct(judged, judged[first], kinds)
    return Distinct(every, first, kinds)


def numbered(*rows: npt.NDArray[Any]) -> tuple[Positions, Positions]:
    """Number the distinct columns of some rows of 64 bits, and say where each occurs first."""
    every = np.arange(len(rows[0]))
    mixed = np.zeros(len(every), dtype=np.uint64)
    for row in rows:
        mixed = (mixed ^ row.view(np.uint64)) * _ODD
        mixed ^= mixed >> np.uint64(31)
    bits = min(len(every).bit_length() + _SPARE, _BITS)
    buckets = (mixed * _ODD >> np.uint64(64 - bits)).astype(np.int64)
    owner = np.zeros(2**bits, dtype=np.int64)
    owner[buckets[::-1]] = every[::-1]  # of positions that share a bucket, the last written stays
    alike = owner[buckets]
    if not all(np.array_equal(row.view(np.uint64), row.view(np.uint64)[alike]) for row in rows):
        return _sorted(rows)
    first = np.flatnonzero(alike == every)
    number = np.zeros(2**bits, dtype=np.int64)
    number[buckets[first]] = np.arange(len(first))
    return first, number[buckets]


_BITS, _SPARE = 20, 8
"""Positions have up to 2^20 buckets, and some 2^8 for each: tables of all take most of the time."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


def _sorted(rows: Sequence[npt.NDArray[Any]]) -> tuple[Positions, Positions]:
    """Number columns by sorting, where there are too many of them for buckets of their own."""
    columns = np.ascontiguousarray(np.stack([row.view(np.uint64) for row in rows], axis=1))
    whole = columns.view([("", np.uint64)] * len(rows)).reshape(-1)
    _, first, kinds = np.unique(whole, return_index=True, return_inverse=True)
    return first, kinds


def judge_kinds(step: Step, expected: Expected, kinds: Distinct) -> Outcome:
    """Judge every element by what is expected of its kind.

    Of a long tensor, elements that are alike, the result too, are judged and counted once.
    """
    shape = tuple(step.before.params[step.parameter].shape)

    def judge(result: Tensor, allowed: Any) -> Outcome:
        if tuple(result.shape) != shape:
            return mismatch(f"shape {list(result.shape)} came where {list(shape)} is due")
        if not long(result.numel()):
            return judge_live(result, SpecTensor(shape, allowed.data))
        taken = kinds.taken(result)
        first, alike = numbered(kinds.kinds, taken.double().numpy())
        due = SpecTensor((len(first),), [allowed.data[kind] for kind in kinds.kinds[first]])
        outcome = judge_live(taken[torch.from_numpy(first)], due)
        if outcome.detail is None:
            return outcome
        (place,) = outcome.detail.index
        index = position(int(kinds.judged[first[place]]), shape)
        wrong = tuple(_spread(entry, alike, kinds, shape) for entry in outcome.wrong)
        return replace(outcome, detail=replace(outcome.detail, index=index), wrong=wrong)

    return judge_step(step, expected, judge)


def _spread(wrong: Wrong, alike: Positions, kinds: Distinct, shape: tuple[int, ...]) -> Wrong:
    """Say of every judged element of a tensor what is said of the one that stands for it."""

    def whole(each: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        found = np.zeros(shape, dtype=np.bool_).reshape(-1)
        found[kinds.judged] = each[alike]
        return found.reshape(shape)

    return Wrong(wrong.result, whole(wrong.judged), whole(wrong.failing))
