"""Read off the negative log-probability of each row's label.

    z[i] = -x[i, labels[i]]                 (reduction = "none")

C1  the log-probabilities are a matrix [N, C].
C2  the labels are integers of shape (N,).
C3  every label lies in [0, C) or equals ignore_index.
C4  the reduction is "mean", "sum" or "none".

A row whose label is ignore_index counts as 0, and what no label reads receives exactly 0.
"mean" divides by the number of rows that are not ignored; with no such row, loss and gradient are 0
(CHOICE; PyTorch gives NaN).
The cotangent of reduction "none" is per row.

Reference: PyTorch's nll_loss without class weights.

>>> from spec.tensor import tensor
>>> op(tensor([[-1.0, -2.0], [-3.0, -5.0]]), tensor([1, 0]), reduction="sum")
Tensor(5.0)
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.kinds import linear
from spec.losses import BAD_LABELS, check_loss, count_labels, refuse_labels
from spec.op import AnyTensor, Edge, Type
from spec.scalar import divide, equal, is_zero, kronecker, select, sum_over, zero_like
from spec.shape import Shape
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(
    log_probabilities: Type, labels: Type, *, ignore_index: int = -100, reduction: str = "mean"
) -> Type:
    """Accept a matrix and a label per row (C1, C2, C4)."""
    del ignore_index
    return check_loss("nll_loss", log_probabilities, labels, reduction)


def refuse_indices(x: AnyTensor, labels: AnyTensor, *, ignore_index: int = -100, **_: Any) -> None:
    """Refuse a label that is neither a class nor ignored (C3)."""
    refuse_labels("nll_loss", x, labels, ignore_index)


def value(
    log_probabilities: Tensor[A, Any, Any],
    labels: Tensor[int, Any],
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor[A, *tuple[Any, ...]]:
    """Read off the negative log-probability of each label, then reduce."""

    def row(i: Any) -> Any:
        if log_probabilities.shape[1] == 0:
            return 0
        ignored = equal(labels[i], ignore_index)
        read: Any = log_probabilities[i, select(ignored, 0, labels[i])]
        return select(ignored, zero_like(read), -read)

    if reduction == "none":
        return tabulate(labels.shape, row)
    total, count = sum_over(labels.shape[0], row), count_labels(labels, ignore_index)
    return tabulate((), lambda: total if reduction == "sum" or count == 0 else divide(total, count))


def transpose(
    cotangent: AnyTensor,
    shape: Shape,
    labels: AnyTensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> AnyTensor:
    """Send each row's cotangent, negated and divided by the count, to the row's label."""
    count = count_labels(labels, ignore_index)

    def entry(i: Any, k: Any) -> Any:
        share = cotangent[i] if reduction == "none" else cotangent[()]
        part = divide(share, count) if reduction == "mean" and count != 0 else share
        read, ignored = kronecker(labels[i], k), equal(labels[i], ignore_index)
        received = select(is_zero(read), zero_like(share), -read * part)
        return select(ignored, zero_like(share), received)

    return tabulate(shape, entry)


_NONE = {"reduction": "none"}
_ROWS = [[math.nan, 0.0], [-4.0, -math.inf]]

EDGES = (
    Edge(([[-1.0, -2.0]], [-100]), (0.0,), "CHOICE", "all ignored: the mean loss is 0"),
    Edge(([[-1.0, -2.0]], [-100]), (([[0.0, 0.0]], None),), "CHOICE", "nothing to learn", 1.0),
    Edge((_ROWS, [-100, 0]), ([0.0, 4.0],), "CHOICE", "what is not read counts as 0", None, _NONE),
    Edge(
        (_ROWS, [-100, 0]),
        (([[0.0, 0.0], [-math.inf, 0.0]], None),),
        "CHOICE",
        "what is not read receives exactly 0",
        [math.nan, math.inf],
        _NONE,
    ),
)
REFUSED = BAD_LABELS

op = linear(
    "nll_loss",
    type_rule,
    value,
    transpose,
    index_inputs=(1,),
    refuse_indices=refuse_indices,
    edges=EDGES,
    refused=REFUSED,
)
