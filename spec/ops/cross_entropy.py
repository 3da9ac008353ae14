"""Score logits against labels: the negative log-probability of each label.

    z[i] = -log_softmax(x)[i, labels[i]]                            (reduction = "none")

C1  the logits have axes [N, C, ...]: a batch, classes, and any others, or none.
C2  the labels are integers of shape (N, ...).
C3  every label lies in [0, C) or equals ignore_index.
C4  the reduction is "mean", "sum" or "none".
C5  label_smoothing lies in [0, 1].
C6  weight is None, or it is C numbers that are finite and not negative; without it each is 1.

With label_smoothing s the loss is (1 - s) times the above, weighted by the label, plus s times its
mean over all labels, each with its own weight. Reductions are those of `nll_loss`, and so is what
they divide by, and so are ignored rows, which may hold NaN or infinities.

Reference: PyTorch's cross_entropy with labels; Szegedy et al., 2016, for the smoothing.

>>> from spec.tensor import tensor
>>> op(tensor([[0.0, -1000.0], [-3000.0, 0.0]]), tensor([1, 0]))
Tensor(2000.0)
"""

# This page is longer than the guide because smoothing, weights and what is ignored all meet here.

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from spec.composite import composite
from spec.losses import (
    LABELS,
    bad_labels,
    by_class,
    check_loss,
    counting,
    divisor,
    entries_ignored,
    in_one_class,
)
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.div import op as div
from spec.ops.log_softmax import op as log_softmax
from spec.ops.mul import op as mul
from spec.ops.nll_loss import op as nll_loss
from spec.ops.sum import op as sum_
from spec.ops.where import op as where
from spec.refusals import Miss


def type_rule(
    logits: Type,
    labels: Type,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Type:
    """Accept logits, a label per row, a reduction (C1, C2, C4), smoothing (C5), weights (C6)."""
    del ignore_index
    if not 0 <= label_smoothing <= 1:
        raise refuse("cross_entropy C5", "label_smoothing lies in [0, 1]", label_smoothing)
    return check_loss("cross_entropy", logits, labels, reduction, weight, "C6")


def program(
    ops: Any,
    logits: Any,
    labels: AnyTensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Any:
    """Take log-probabilities of what is not ignored and read off the labels, or all of them."""
    labels = counting(labels, weight, ignore_index, reduction)
    ignored = entries_ignored(labels, logits.shape, ignore_index)
    nothing = ops.constant(0, logits.shape, like=logits)
    log_probabilities = ops.log_softmax(ops.where(ignored, nothing, logits), axis=1)
    read: dict[str, Any] = {"ignore_index": ignore_index, "weight": weight}
    exact = ops.nll_loss(log_probabilities, labels, reduction=reduction, **read)
    classes = logits.shape[1]
    if label_smoothing == 0 or classes == 0:
        return exact
    # The only class of a column of row sums is 0, so ignored rows need a mark that is no class.
    each = log_probabilities
    if weight is not None:
        each = ops.mul(each, by_class(weight, logits.shape))
    every, rows = ops.sum(each, axes=(1,), keepdims=True), in_one_class(labels, ignore_index)
    weighed = weight is not None and reduction == "mean"
    smooth = ops.nll_loss(every, rows, ignore_index=-1, reduction="sum" if weighed else reduction)
    if weighed and divisor(labels, weight, ignore_index, Fraction(0)) is not None:
        # What each label loses where every score is -1 is its weight.
        ones = ops.constant(-1, logits.shape, like=logits)
        smooth = ops.div(smooth, ops.nll_loss(ones, labels, reduction="sum", **read))
    part = Fraction(label_smoothing)
    kept = ops.mul(exact, ops.constant(1 - part, exact.shape, like=logits))
    return ops.add(kept, ops.mul(smooth, ops.constant(part / classes, exact.shape, like=logits)))


_FIRST = [[-0.5, 0.5], [0.0, 0.0]], None

EDGES = (
    Edge(([[1.0, math.nan]], [-100]), (0.0,), "CHOICE", "all ignored: the mean loss is 0"),
    Edge(([[1.0, math.nan]], [-100]), (([[0.0, 0.0]], None),), "CHOICE", "nothing to learn", 1.0),
    Edge(([[2.0, 2.0], [math.inf] * 2], [0, -100]), (_FIRST,), "CHOICE", "the others get 0", 1.0),
    Edge(([[5.0]], [0]), (0.0, -0.0), "IEEE", "one class is certain"),
    Edge(([[5.0]], [0]), (([[0.0]], None), ([[-0.0]], None)), "IEEE", "no gradient", 1.0),
    Edge(
        ([[0.0, -1024.0], [math.nan, math.inf]], [1, 0]),
        ([768.0, 0.0],),
        "CHOICE",
        "smoothing reads every class of the rows that are not ignored",
        attributes={"ignore_index": 0, "label_smoothing": 0.5, "reduction": "none"},
    ),
    Edge(([[0.0, -math.inf]], [0]), (0.0, -0.0), "IEEE", "an impossible class costs nothing"),
    Edge(
        ([[0.0, math.nan], [2.0, 2.0]], [0, 0]),
        (([[0.0, 0.0], [0.0, 0.0]], None),),
        "CHOICE",
        "nothing weighs: nothing to learn",
        1.0,
        {"weight": (0.0, 1.0), "label_smoothing": 0.5},
    ),
    Edge(
        ([[[0.0, -1024.0], [-1024.0, 0.0]]], [[1, 0]]),
        ([[256.0, 2048.0]],),
        "IEEE",
        "a label for every place of the last axis",
        attributes={"weight": (2.0, 0.25), "reduction": "none"},
    ),
)

REFUSED = (
    *bad_labels("C6"),
    *(Miss("C5", ([[1.0]], [0]), {"label_smoothing": s}) for s in (-0.1, 1.1, 1.5, math.nan)),
)

TRIED = {"label_smoothing": (0.0, 0.1, 1.0, 0.25)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.cross_entropy(logits, labels, weight=weight, "
    "ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)",
    None,
    formula="torch.nan_to_num(called)",
)

op = composite(
    "cross_entropy",
    type_rule,
    program,
    (where, log_softmax, nll_loss, sum_, add, mul, div),
    index_inputs=(1,),
    index_ranges=(LABELS,),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
