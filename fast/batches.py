"""Twin of spec.batches: a batch in pieces, several passes through the program, one update.

Data are cut as they come: lists, arrays, tensors and device buffers, without a copy where the kind
allows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from numbers import Rational
from typing import Any

import torch
from torch import Tensor

from fast.answers import telling
from fast.device.buffer import Buffer
from fast.errors import Rejected
from fast.kernels.checks import is_row
from fast.optim._rule import as_double


@dataclass(frozen=True)
class MicroBatches:
    """A batch in pieces, of which only one is on the device at a time.

    The loss of the whole is the sum of the pieces' losses by their weights, 1/N each unless given;
    gradients add up likewise, and then one update is made. Both are lists, of one length, and a
    weight is a finite real number, whoever made it; else the trainer's call is Rejected.
    """

    pieces: Sequence[Sequence[Any]]
    weights: Sequence[float | Fraction] | None = None

    def weighted(self) -> Iterator[tuple[Sequence[Any], float | Fraction]]:
        """Iterate over the pieces with their weights."""
        if not is_row(self.pieces) or not (self.weights is None or is_row(self.weights)):
            raise Rejected(
                "trainer: the micro-batches are a list of pieces, and their weights a list of "
                f"numbers; got {type(self.pieces).__name__} and {type(self.weights).__name__}"
            )
        count = len(self.pieces)
        weights = [Fraction(1, max(count, 1))] * count if self.weights is None else self.weights
        if not count or len(weights) != count:
            raise Rejected(
                f"trainer: at least one micro-batch, and a weight for each; got {count} and "
                f"{len(weights)} weights"
            )
        doubles = [as_double("trainer: a weight", weight) for weight in weights]
        for double in doubles:
            if not math.isfinite(double):
                raise Rejected(f"trainer: a weight is a finite number, got {double}")
        # A Fraction stays one: it is rounded once, where it is used.
        kept = [w if isinstance(w, Rational) else d for w, d in zip(weights, doubles, strict=True)]
        return zip(self.pieces, kept, strict=True)


Batch = Sequence[Any] | MicroBatches
"""One entry per input of the loss, host data or device buffers; or a batch in pieces."""


@telling
def split(inputs: Sequence[Any], count: int, reduction: str = "mean") -> MicroBatches:
    """Cut a batch into pieces along the first axis of every input; sizes differ by one at most.

    Of a loss that is a mean a piece weighs its share of the rows; of a sum it weighs 1. The mean
    must be over all rows: one over some of them, such as a cross entropy with ignored labels, has
    another weight per piece, which nobody here can know; give the weights to `MicroBatches`.

    `inputs` is a list of data that have one extent along their first axis, and `count` an int from
    1 to that extent; else Rejected. The pieces of tensors and buffers are views of them.
    """
    if not is_row(inputs):
        raise Rejected(f"split: a list of inputs is needed, got {type(inputs).__name__}")
    extents = [_extent(data) for data in inputs]
    rows = extents[0] if extents else None
    fits = len(set(extents)) == 1 and rows is not None and type(count) is int
    if not fits or rows is None or not 1 <= count <= rows:
        raise Rejected(
            f"split: the inputs have one extent along their first axis, and it is cut into 1 to "
            f"that many pieces; got the extents {extents} and {count!r} pieces"
        )
    if not isinstance(reduction, str) or reduction not in ("mean", "sum"):
        raise Rejected(f"split: the reduction is 'mean' or 'sum', got {reduction!r}")
    cuts = [rows * k // count for k in range(count + 1)]
    spans = list(pairwise(cuts))
    pieces = [[_rows(data, start, end) for data in inputs] for start, end in spans]
    mean = reduction == "mean"
    return MicroBatches(pieces, [Fraction(e - s, rows) if mean else Fraction(1) for s, e in spans])


def pieces_of(inputs: Batch) -> Iterable[tuple[Sequence[Any], float | Fraction]]:
    """Iterate over the pieces of a batch with their weights; a batch may be one piece."""
    if not isinstance(inputs, MicroBatches):
        return [(_inputs(inputs), Fraction(1))]
    return [(_inputs(piece), weight) for piece, weight in inputs.weighted()]


def _inputs(piece: Any) -> Sequence[Any]:
    """Return what a program is given, or refuse what is no list: a tensor would be taken apart."""
    if not is_row(piece):
        raise Rejected(
            "trainer: a batch is a list with an entry for each input of the loss, got "
            f"{type(piece).__name__}"
        )
    return piece


def _extent(data: Any) -> int | None:
    """Return the extent of the first axis; a scalar has none."""
    if isinstance(data, Tensor) and (data.is_nested or data.layout is not torch.strided):
        raise Rejected("split: dense tensors can be cut, and one is sparse or nested")
    shape = getattr(data, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(data) if isinstance(data, (list, tuple)) else None


def _rows(data: Any, start: int, end: int) -> Any:
    return (data.tensor if isinstance(data, Buffer) else data)[start:end]
