"""Arrays of scalars: a page runs once on all entries of a large result, or on a sample of them.

A `Many` is a pair of float64 arrays, a value and a bound: every result that the contract allows,
and the exact value, lie that close to the value (proofs_notes/arrays.md). Every axis is a
`VectorExtent`, so that a tensor stays a rule; an entry is asked for at arrays of indices, one open
axis for each axis of the result, and a sum asks for its terms at one more axis, in front of all
others. So the unchanged page judges millions of entries in some dozens of array operations. Indices
that repeat are read from a table (`equivalence.worlds.vectorized.tables`).

Integers that a page counts and compares (labels, ties, positions) are plain arrays of int64, exact.
Truth values are three-valued: yes, no, or neither where a bound leaves the question open.

>>> from equivalence.registry import OPS
>>> from equivalence.worlds.contract import FP32, Contract
>>> from equivalence.worlds.vectorized.numbers import working
>>> from equivalence.worlds.vectorized.widths import Widths
>>> with working(Widths(Contract("ieee", FP32, FP32)), axes=1):
...     x = held(np.arange(6.0).reshape(2, 3))
...     total = OPS["sum"].value(x, axes=(1,))
...     at(total, [np.arange(2)]).v
array([ 3., 12.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from equivalence.worlds.vectorized import products as products  # registers its rules
from equivalence.worlds.vectorized import tables as tables  # registers its rule
from equivalence.worlds.vectorized.numbers import (
    WHOLE,
    Many,
    Truth,
    meet,
)
from equivalence.worlds.vectorized.terms import Integers, VectorExtent
from equivalence.worlds.vectorized.widths import Doubles
from spec import rng
from spec.op import AnyTensor
from spec.tensor import tabulate


def held(numbers: npt.NDArray[Any]) -> AnyTensor:
    """Return a tensor that reads exact numbers, indices or truth values from an array."""

    def entry(*index: Any) -> Any:
        found = np.asarray(numbers[index])
        if found.dtype.kind == "f":
            return Many(found)
        return Truth(found) if found.dtype.kind == "b" else found

    return tabulate(tuple(map(VectorExtent, numbers.shape)), entry)


def at(tensor: AnyTensor, places: Sequence[Integers]) -> Many:
    """Return the entries at all combinations of places along each axis, as broadcast arrays."""
    shape = tuple(len(p) for p in places)
    index = [p.reshape(-1, *(1,) * (len(shape) - 1 - k)) for k, p in enumerate(places)]
    listed = all(isinstance(n, int) for n in tensor.shape)
    found = meet(tensor[(0,) * len(shape)] if listed else tensor[tuple(index)])
    return Many(_shaped(found.v, shape), None if found.b is None else _shaped(found.b, shape))


def _shaped(a: Doubles, shape: tuple[int, ...]) -> Doubles:
    """Drop axes in front, which have one entry, or repeat along those that are missing."""
    return np.broadcast_to(a.reshape(a.shape[max(a.ndim - len(shape), 0) :]), shape)


def _word(seed: int, call: int, element: Integers) -> Integers:
    """Run the book's Philox on arrays of counters; a word is the one that its element names."""
    block, lane = element >> 2, element & 3
    counter = (block & rng.MASK, block >> 32, call & rng.MASK, call >> 32)
    wide = tuple(np.broadcast_to(np.asarray(c, np.uint64), np.shape(element)) for c in counter)
    words = rng.philox(wide, (seed & rng.MASK, seed >> 32))  # type: ignore[arg-type]
    return np.choose(lane, [np.asarray(w).astype(np.int64) for w in words])


rng.random_word.register(*WHOLE)(_word)
