"""Chapter 38. Batches: the examples of a step, whole or in pieces.

A batch is a tensor, or examples one by one, over which a loss is averaged.

Where a batch is too large for one pass, its pieces are run one after the other and their gradients
add up before the one update. That is the same step, if each piece has the right weight.

>>> from spec.tensor import tensor
>>> pieces_of(split([tensor([1.0, 2.0, 3.0])], 2))
[([Tensor([1.0])], Fraction(1, 3)), ([Tensor([2.0, 3.0])], Fraction(2, 3))]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

from spec.op import AnyTensor, checked
from spec.ref import Interpreter, Ref
from spec.refusals import Rejected, called, listed, refuse
from spec.tensor import tabulate
from spec.worlds import is_number

B = TypeVar("B")
Weight = float | Fraction


@dataclass(frozen=True)
class MicroBatches:
    """A batch in pieces: several passes through the program, one update.

    The loss of the whole is the sum of the pieces' losses by their weights, 1/N each unless given;
    gradients add up likewise.
    """

    pieces: Sequence[Sequence[AnyTensor]]
    weights: Sequence[Weight] | None = None


Batch = Sequence[AnyTensor] | MicroBatches
"""One tensor per input of the loss; or a batch in pieces."""


def split(inputs: Sequence[AnyTensor], count: int, reduction: str = "mean") -> MicroBatches:
    """Cut a batch into pieces along the first axis of every input; sizes differ by one at most.

    Of a loss that is a mean over the rows a piece weighs its share of them; of a sum it weighs 1.
    """
    tensors = [checked("split", x) for x in listed("split", "inputs are tensors in a list", inputs)]
    extents = [x.shape[0] if x.shape else None for x in tensors]
    n = extents[0] if extents else None
    if len(set(extents)) > 1 or n is None or type(count) is not int or not 1 <= count <= n:
        rule = "the inputs have one extent along their first axis, cut into 1 to that many pieces"
        raise refuse("split", rule, f"the extents {extents} and {count} pieces")
    if reduction not in ("mean", "sum"):
        raise refuse("split", "the reduction is 'mean' or 'sum'", repr(reduction))
    spans = list(pairwise(n * k // count for k in range(count + 1)))
    pieces = [[_rows(x, start, end) for x in tensors] for start, end in spans]
    mean = reduction == "mean"
    return MicroBatches(pieces, [Fraction(e - s, n) if mean else Fraction(1) for s, e in spans])


def pieces_of(inputs: Batch) -> list[tuple[Sequence[AnyTensor], Weight]]:
    """List the pieces of a batch with their weights; a batch may be one piece."""
    if not isinstance(inputs, MicroBatches):
        return [(inputs, Fraction(1))]
    rule = "at least one micro-batch, and a weight for each"
    pieces = listed("trainer", rule, inputs.pieces)
    count = len(pieces)
    equal = [Fraction(1, count)] * count if count else []
    weights = equal if inputs.weights is None else listed("trainer", rule, inputs.weights)
    if not count or len(weights) != count:
        raise refuse("trainer", rule, f"{count} and {len(weights)} weights")
    for weight in weights:
        if not is_number(weight) or not math.isfinite(weight):
            raise refuse("trainer", "a weight is a finite number", repr(weight))
    return list(zip(pieces, weights, strict=True))


def mean_scalar_over(
    session: Interpreter[Any], tag: str, data: Iterable[B], loss_of: Callable[[B], Ref]
) -> Ref:
    """Add up the losses of all examples, left to right, then scale by 1/N.

    The data are read once, in their order, and neither shuffled nor changed: a list, a tuple, a
    dataset, whatever can be iterated over. Empty data raise Rejected, with the tag in front, and so
    does a loss that is no scalar ref of the session.
    In a graph session, what loss_of records of an example is constant, since leaves come first.
    """
    total: Ref | None = None
    count = 0
    try:
        examples = iter(data)
    except TypeError:
        rule = "data are examples in a list, or what can be gone through"
        raise refuse(tag, rule, type(data).__name__) from None
    for example in examples:
        found = called(tag, "a loss is a function of an example", loss_of, example)
        loss = session.own(tag, found, "a loss is a ref of this session")
        if loss.shape != ():
            raise refuse(tag, "the loss of an example is a scalar", f"shape {loss.shape}")
        total = loss if total is None else total + loss
        count += 1
    if total is None:
        raise Rejected(f"{tag}: empty dataset")
    return total * session.constant(Fraction(1, count), like=total)


def _rows(x: AnyTensor, start: int, end: int) -> AnyTensor:
    def entry(i: int, *rest: int) -> Any:
        return x[(start + i, *rest)]

    return tabulate((end - start, *x.shape[1:]), entry)
