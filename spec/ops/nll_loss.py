"""Read off the negative log-probability of each row's label.

    z[i, k] = -w[label] x[i, label, k],  label = labels[i, k]        (reduction = "none")

C1  the log-probabilities have axes [N, C, ...]: a batch, classes, and any others, or none.
C2  the labels are integers of shape (N, ...).
C3  every label lies in [0, C) or equals ignore_index.
C4  the reduction is "mean", "sum" or "none".
C5  weight is None, or it is C numbers that are finite and not negative; without it each is 1.

A row, of which there is one for every label, counts as 0 where its label is ignore_index, and what
no label reads receives exactly 0. "mean" divides by the weights of the labels that are not ignored,
added up; where that is 0, loss and gradient are 0 (CHOICE; PyTorch gives NaN).
The cotangent of reduction "none" is per row. The weights have no gradient.

Reference: PyTorch's nll_loss.

>>> from spec.tensor import tensor
>>> op(tensor([[-1.0, -2.0], [-3.0, -5.0]]), tensor([1, 0]), reduction="sum")
Tensor(5.0)
>>> op(tensor([[-1.0, -2.0], [-3.0, -5.0]]), tensor([1, 0]), weight=(3.0, 1.0))
Tensor(2.75)
"""

# This page is longer than the guide because what counts, and how much, is said of rows and means.

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.kinds import linear
from spec.losses import (
    LABELS,
    bad_labels,
    check_loss,
    counting,
    divisor,
    weight_of,
)
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.scalar import divide, equal, is_zero, kronecker, select, sum_over, zero_like
from spec.shape import Shape
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(
    log_probabilities: Type,
    labels: Type,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Type:
    """Accept scores and a label per row (C1, C2), a reduction (C4) and weights (C5)."""
    del ignore_index
    return check_loss("nll_loss", log_probabilities, labels, reduction, weight, "C5")


def value(
    log_probabilities: Tensor[A, Any, *tuple[Any, ...]],
    labels: Tensor[int, *tuple[Any, ...]],
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Tensor[A, *tuple[Any, ...]]:
    """Read off the negative log-probability of each label, then reduce."""
    labels = counting(labels, weight, ignore_index, reduction)

    def read(i: Any, *k: Any) -> Any:
        ignored = equal(labels[i, *k], ignore_index)
        return log_probabilities[i, select(ignored, 0, labels[i, *k]), *k]

    def row(*i: Any) -> Any:
        if log_probabilities.shape[1] == 0:
            return 0
        ignored = equal(labels[i], ignore_index)
        lost = -read(*i)
        if weight is not None:
            lost = weight_of(labels[i], weight, ignore_index) * lost
        return select(ignored, zero_like(lost), lost)

    if reduction == "none":
        return tabulate(labels.shape, row)
    total = sum_over(labels.shape, row)
    over = divisor(labels, weight, ignore_index, total) if reduction == "mean" else None
    return tabulate((), lambda: total if over is None else divide(total, over))


def transpose(
    cotangent: AnyTensor,
    shape: Shape,
    labels: AnyTensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> AnyTensor:
    """Send each row's cotangent, negated, weighted and divided, to the row's label."""
    labels = counting(labels, weight, ignore_index, reduction)
    mean = reduction == "mean"
    over = divisor(labels, weight, ignore_index, cotangent[()]) if mean else None

    def entry(i: Any, c: Any, *k: Any) -> Any:
        label = labels[i, *k]
        share = cotangent[i, *k] if reduction == "none" else cotangent[()]
        part = share if over is None else divide(share, over)
        if weight is not None:
            part = weight_of(label, weight, ignore_index) * part
        read, ignored = kronecker(label, c), equal(label, ignore_index)
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
    Edge(
        ([[-1.0, -math.inf], [-4.0, -2.0]], [0, 0]),
        (0.0,),
        "CHOICE",
        "nothing weighs: the mean loss is 0",
        attributes={"weight": (0.0, 1.0)},
    ),
    Edge(
        ([[[-1.0, -3.0], [-2.0, -5.0]]], [[1, 0]]),
        ([[0.5, 6.0]],),
        "IEEE",
        "a label for every place of the last axis",
        attributes={"weight": (2.0, 0.25), **_NONE},
    ),
)
REFUSED = bad_labels("C5")

ELSEWHERE = Elsewhere(
    "torch.nn.functional.nll_loss(log_probabilities, labels, weight=weight, "
    "ignore_index=ignore_index, reduction=reduction)",
    None,
    formula="torch.nan_to_num(called)",
)

op = linear(
    "nll_loss",
    type_rule,
    value,
    transpose,
    index_inputs=(1,),
    index_ranges=(LABELS,),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
