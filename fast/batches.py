"""Twin of spec.batches: a batch in pieces, several passes through the program, one update.

Data are cut as they come: lists, arrays, tensors and device buffers, without a copy where the kind
allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from fast.buffer import Buffer
from fast.errors import Rejected


@dataclass(frozen=True)
class MicroBatches:
    """A batch in pieces, of which only one is on the device at a time.

    The loss of the whole is the sum of the pieces' losses by their weights, 1/N each unless given;
    gradients add up likewise, and then one update is made.
    """

    pieces: Sequence[Sequence[Any]]
    weights: Sequence[float | Fraction] | None = None

    def weighted(self) -> Iterator[tuple[Sequence[Any], float | Fraction]]:
        """Iterate over the pieces with their weights."""
        count = len(self.pieces)
        weights = [Fraction(1, max(count, 1))] * count if self.weights is None else self.weights
        if not count or len(weights) != count:
            raise Rejected(
                f"trainer: at least one micro-batch, and a weight for each; got {count} and "
                f"{len(weights)} weights"
            )
        return zip(self.pieces, weights, strict=True)


Batch = Sequence[Any] | MicroBatches
"""One entry per input of the loss, host data or device buffers; or a batch in pieces."""


def split(inputs: Sequence[Any], count: int, reduction: str = "mean") -> MicroBatches:
    """Cut a batch into pieces along the first axis of every input; sizes differ by one at most.

    Of a loss that is a mean over the rows a piece weighs its share of them; of a sum it weighs 1.
    """
    extents = [_extent(data) for data in inputs]
    rows = extents[0] if extents else None
    if len(set(extents)) > 1 or rows is None or not 1 <= count <= rows:
        raise Rejected(
            f"split: the inputs have one extent along their first axis, and it is cut into 1 to "
            f"that many pieces; got the extents {extents} and {count} pieces"
        )
    if reduction not in ("mean", "sum"):
        raise Rejected(f"split: the reduction is 'mean' or 'sum', got {reduction!r}")
    cuts = [rows * k // count for k in range(count + 1)]
    spans = list(pairwise(cuts))
    pieces = [[_rows(data, start, end) for data in inputs] for start, end in spans]
    mean = reduction == "mean"
    return MicroBatches(pieces, [Fraction(e - s, rows) if mean else Fraction(1) for s, e in spans])


def pieces_of(inputs: Batch) -> Iterable[tuple[Sequence[Any], float | Fraction]]:
    """Iterate over the pieces of a batch with their weights; a batch may be one piece."""
    return inputs.weighted() if isinstance(inputs, MicroBatches) else [(inputs, Fraction(1))]


def _extent(data: Any) -> int | None:
    """Return the extent of the first axis; a scalar has none."""
    shape = getattr(data, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(data) if isinstance(data, (list, tuple)) else None


def _rows(data: Any, start: int, end: int) -> Any:
    return (data.tensor if isinstance(data, Buffer) else data)[start:end]
