"""Which elements of an update are alike: equal numbers going in allow equal numbers to come out.

An update works entry by entry, so the reference computes each distinct set of numbers of a long
tensor once, and every element is judged by it. Where there are too many of them, it is judged at
the positions where mistakes show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from equivalence.cases.updates.tensors import long, marks

MOST = 160
"""How many distinct sets of numbers of a long tensor the reference computes."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Distinct:
    """The judged positions of a tensor, row-major, and which of the first of each kind they equal.

    first has the position of one element of each kind, kinds the number of every judged element's;
    finite says whether all the numbers are.
    """

    judged: Positions
    first: Positions
    kinds: Positions
    finite: bool

    def rows(self, tensor: Tensor | None) -> Tensor | None:
        """Return a tensor's entry for each kind."""
        if tensor is None or len(self.first) == tensor.numel():
            return None if tensor is None else tensor.reshape(-1)
        return tensor.reshape(-1)[self.first.tolist()]


def distinct(columns: Sequence[Tensor]) -> Distinct:
    """Find the kinds of elements by their numbers' bits; the columns have one shape.

    A short tensor's elements are all of kinds of their own.
    """
    numbers = np.stack([column.reshape(-1).double().numpy() for column in columns])
    finite, elements = bool(np.isfinite(numbers).all()), numbers.shape[1]
    every = np.arange(elements)
    if not long(elements):
        return Distinct(every, every, every, finite)
    bits = numbers.view(np.uint64)
    first, kinds = numbered(*bits)
    if len(first) > MOST:
        judged = np.array(marks(elements))
        first, kinds = numbered(*bits[:, judged])
        return Distinct(judged, judged[first], kinds, finite)
    return Distinct(every, first, kinds, finite)


def numbered(*rows: npt.NDArray[np.uint64] | Positions) -> tuple[Positions, Positions]:
    """Number the distinct columns of some rows, and say where each occurs first."""
    kinds = np.zeros(len(rows[0]), dtype=np.int64)
    first = kinds[:1]
    for row in rows:
        _, own = np.unique(row, return_inverse=True)
        _, first, kinds = np.unique(
            kinds * (own.max(initial=0) + 1) + own, return_index=True, return_inverse=True
        )
    return first, kinds
