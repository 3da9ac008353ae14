"""Chapter 13. Losses: what those share that compare two tensors, and those that read labels.

A loss of pairs scores each entry of two tensors, and reduces the scores.
A label is the index of a class; a row whose label equals ignore_index takes no part in the loss.

>>> from spec.tensor import tensor
>>> divisor(tensor([2, -100, 0]), (0.5, 1.0, 4.0), ignore_index=-100, like=Fraction(0))
Fraction(9, 2)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any

from spec.kinds import UNEQUAL, pointwise, same_shape
from spec.op import AnyTensor, IndexRange, Op, Type, refuse
from spec.refusals import Miss
from spec.scalar import Extent, equal, lift, select, sum_over
from spec.shape import Shape, size
from spec.tensor import tabulate, zip_map

REDUCTIONS = ("mean", "sum", "none")


def check_pair(
    name: str, x: Type, y: Type, reduction: str, reductions: tuple[str, ...] = REDUCTIONS
) -> Type:
    """Accept two tensors of one shape (C1) and a reduction (C2) of something (C3)."""
    same_shape(name, x, y)
    if reduction not in reductions:
        raise refuse(f"{name} C2", f"the reduction is one of {reductions}", repr(reduction))
    if reduction == "mean" and size(x.shape) == 0:
        raise refuse(f"{name} C3", 'for "mean", there is at least one entry', x)
    return x if reduction == "none" else Type(())


BAD_PAIRS = (
    *UNEQUAL,
    *(Miss("C2", ([1.0], [1.0]), {"reduction": other}) for other in ("average", None)),
    Miss("C3", ([], [])),
    Miss("C3", ([[], []], [[], []]), {"reduction": "mean"}),
)
"""What check_pair refuses."""


def reduced(ops: Any, losses: Any, reduction: str) -> Any:
    """Reduce the losses of all entries, by the pages `sum` and `mean`."""
    if reduction == "none":
        return losses
    return ops.mean(losses) if reduction == "mean" else ops.sum(losses)


def scores(
    loss: Callable[..., Any],
    partials: Callable[..., tuple[Any, ...]],
    *,
    absorbing: bool = False,
    tried: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
) -> Op:
    """Make the step of a program that scores pairs: the loss of two numbers, and its partials."""

    def value(x: AnyTensor, y: AnyTensor, **attributes: Any) -> AnyTensor:
        return zip_map(partial(loss, **attributes), x, y)

    # What an op takes is read off the signature of its value.
    value.__signature__ = inspect.signature(loss)  # type: ignore[attr-defined]

    def type_rule(x: Type, y: Type, **_: Any) -> Type:
        return same_shape("scores", x, y)

    return pointwise("scores", type_rule, value, partials, absorbing=absorbing, tried=tried)


Weights = tuple[float, ...]
"""A weight for each class."""


def check_loss(
    name: str, x: Type, labels: Type, reduction: str, weight: Weights | None, last: str
) -> Type:
    """Accept scores (C1), a label per row (C2), a reduction (C4) and weights (the last label)."""
    if len(x.shape) < 2:
        raise refuse(f"{name} C1", "the first input has axes [N, C, ...]", x)
    rows = (*x.shape[:1], *x.shape[2:])
    if not labels.index or labels.shape != rows:
        raise refuse(f"{name} C2", f"the labels are integers of shape {rows}", labels)
    if reduction not in REDUCTIONS:
        raise refuse(f"{name} C4", f"the reduction is one of {REDUCTIONS}", repr(reduction))
    if weight is not None:
        classes, named = x.shape[1], f"{name} {last}"
        if len(weight) != classes or not all(0 <= w < math.inf for w in weight):
            rule = f"there are {classes} weights, all of them finite and not negative"
            raise refuse(named, rule, weight)
    return Type(rows if reduction == "none" else ())


def _classes(x: Type, labels: Type, **_: Any) -> tuple[Extent, Extent]:
    return 0, x.shape[1] - 1


LABELS = IndexRange("C3", _classes, also=("ignore_index",), called="label")
"""The classes of the first input, and what stands for no class."""


_ROWS = [[1.0, 2.0], [3.0, 4.0]]
_BAD_WEIGHTS = ((1.0,), (1.0, 2.0, 3.0), (1.0, -1.0), (1.0, math.inf), (math.nan, 1.0))


def bad_labels(last: str) -> tuple[Miss, ...]:
    """Return what check_loss refuses, and labels that are none (C3)."""
    return (
        Miss("C1", ([1.0, 2.0], [0, 1])),
        Miss("C2", ([[[1.0]]], [0])),
        Miss("C2", (_ROWS, [0])),
        Miss("C2", (_ROWS, [[0, 1]])),
        Miss("C2", (_ROWS, [0.0, 1.0])),
        Miss("C2", (_ROWS, [True, False])),
        Miss("C3", (_ROWS, [0, 2])),
        Miss("C3", (_ROWS, [-1, 0])),
        Miss("C3", (_ROWS, [0, -100]), {"ignore_index": -1}),
        *(Miss("C4", (_ROWS, [0, 1]), {"reduction": other}) for other in ("average", None)),
        *(Miss(last, (_ROWS, [0, 1]), {"weight": weight}) for weight in _BAD_WEIGHTS),
    )


def weight_of(label: Any, weight: Weights | None, ignore_index: int) -> Any:
    """Return the exact weight of a label, 0 where it is ignored; without weights each has 1."""
    ignored = equal(label, ignore_index)
    if weight is None:
        return select(ignored, 0, 1)
    return select(ignored, 0, Fraction((*weight, 0)[select(ignored, len(weight), label)]))


def by_class(weight: Weights, shape: Shape) -> AnyTensor:
    """Return the exact weights of the classes, throughout scores of a shape."""

    exact: Any = tuple(map(Fraction, weight))

    def entry(row: Any, c: Any, *rest: Any) -> Any:
        return exact[c]

    return tabulate((*shape,), entry)


def divisor(labels: AnyTensor, weight: Weights | None, ignore_index: int, like: Any) -> Any:
    """Return what a mean divides by: the weights of all labels, in like's world.

    Without weights that is a number of rows. None stands for 0: nothing counts.
    """

    def term(*row: Any) -> Any:
        found = weight_of(labels[row], weight, ignore_index)
        return found if weight is None else lift(like, Fraction(found))

    if weight is not None and not _weighs(labels, weight, ignore_index):
        return None
    total = sum_over(labels.shape, term)
    return None if weight is None and total == 0 else total


def _weighs(labels: AnyTensor, weight: Weights, ignore_index: int) -> bool:
    return any(weight_of(label, weight, ignore_index) for label in labels.data)


def counting(
    labels: AnyTensor, weight: Weights | None, ignore_index: int, reduction: str
) -> AnyTensor:
    """Return the labels, all of them ignored where a mean would divide by weights that are 0."""
    if weight is None or reduction != "mean" or _weighs(labels, weight, ignore_index):
        return labels
    return labels.map(lambda _: ignore_index)


def entries_ignored(labels: AnyTensor, shape: Shape, ignore_index: int) -> AnyTensor:
    """Return a mask of the scores: true throughout the rows that are ignored."""

    def ignored(row: Any, _: Any, *rest: Any) -> Any:
        return equal(labels[row, *rest], ignore_index)

    return tabulate((*shape,), ignored)


def in_one_class(labels: AnyTensor, ignore_index: int) -> AnyTensor:
    """Return the labels of rows that have one class, 0; ignored rows are marked by -1."""
    return labels.map(lambda label: select(equal(label, ignore_index), -1, 0))
