"""Losses that read labels: a row's loss is one fp32 number.

A row is a place of all axes but that of the classes. One program adds the losses up in a fixed
order, counts the labels that are not ignored, or adds up their weights, and divides by that; where
it is 0, the loss is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from fast.device.bridge import INTEGERS
from fast.device.flags import flag_bad, guard
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.losses.paired import REDUCTIONS

COUNTED = 2**24
"""Up to here torch's count of rows is exact, also where it is a number of fp32."""

_BLOCK = 2048
_forward = torch.ops.aten.nll_loss_forward.default
_backward = torch.ops.aten.nll_loss_backward.default
_forward2d = torch.ops.aten.nll_loss2d_forward.default
_backward2d = torch.ops.aten.nll_loss2d_backward.default


class Target(NamedTuple):
    """What a loss is asked for beside its scores; a page saves the fields one by one.

    `weights` are one for each class, in one contiguous tensor, or None.
    """

    labels: Tensor
    ignored: int
    reduction: str
    weights: Tensor | None


@triton.jit
def read_labels(labels, row, inside, step, classes, ignored, word, CODE: tl.constexpr):
    """Return each row's label, and which rows have a class to read; flag what is neither."""
    label = tl.load(labels + row * step, mask=inside, other=0)
    asked = inside & (label != ignored)
    bad = asked & ((label < 0) | (label >= classes))
    flag_bad(word, label, bad, CODE)
    return label, asked & (label >= 0) & (label < classes)


@triton.jit
def weigh(w, weighted, label, good):
    """Return the weight of each row's label, 1 where there are no weights."""
    weight = tl.full(label.shape, 1.0, dtype=tl.float32)
    if weighted:
        weight = tl.load(w + label, mask=good, other=0.0)
    return weight


@triton.jit
def shared(g, row, step, over, good):
    """Return each row's share of the cotangent, 0 for what does not count, and what does."""
    share = tl.load(g + row * step).to(tl.float32)
    number = tl.full(row.shape, 0.0, tl.float32) + tl.load(over)
    good = good & (number != 0)
    return tl.where(good, tl.div_rn(share, tl.where(good, number, 1.0)), 0.0), good


_TOTALLED = ["rows", "step", "classes", "ignored", "divide", "weighted"]


@triton.jit(do_not_specialize=_TOTALLED,
            do_not_specialize_on_alignment=["loss", "over", "losses", "labels", "w"])  # fmt: skip
def _total_kernel(
    loss, over, losses, labels, w, rows: tl.int64, step: tl.int64, classes: tl.int64,
    ignored: tl.int64, divide: tl.int32, weighted: tl.int32, BLOCK: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    counted = tl.zeros((BLOCK,), dtype=tl.int32)
    weight = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, rows, BLOCK):
        row = at + tl.arange(0, BLOCK).to(tl.int64)
        total += tl.load(losses + row, mask=row < rows, other=0.0)
        label = tl.load(labels + row * step, mask=row < rows, other=ignored)
        counted += (label != ignored).to(tl.int32)
        if weighted:
            good = (label != ignored) & (label >= 0) & (label < classes)
            weight += tl.load(w + label, mask=good, other=0.0)
    number = tl.sum(counted, 0).to(tl.float32)
    if weighted:
        number = tl.sum(weight, 0)
    number = tl.where(divide != 0, number, 1.0)
    tl.store(over, number)
    # Where nothing counts, the loss is 0, whatever was multiplied by weights of 0.
    result = tl.div_rn(tl.sum(total, 0), tl.where(number == 0, 1.0, number))
    tl.store(loss, tl.where(number == 0, 0.0, result))


def total(losses: Tensor, classes: int, target: Target) -> tuple[Tensor, Tensor]:
    """Reduce fp32 losses per row; return the loss, and what a row's cotangent is divided by.

    That is 0 where nothing counts: then no row receives anything.
    """
    labels, ignored, reduction, weights = target
    over = torch.ones((), dtype=torch.float32, device=losses.device)
    if reduction == "none":
        return losses, over
    loss = torch.empty_like(over)
    launch(
        _total_kernel, (1,), loss, over, losses, labels, losses if weights is None else weights,
        losses.shape[0], labels.stride(0), classes, ignored, int(reduction == "mean"),
        int(weights is not None), BLOCK=_BLOCK, num_warps=8,
    )  # fmt: skip
    return loss, over


def check(op: str, x: Tensor, labels: Tensor, ignored: int, reduction: str) -> None:
    """Refuse all but scores (C1), labels (C2, C3) and a reduction (C4)."""
    shape = x.shape
    if len(shape) < 2:
        raise Rejected(f"{op} C1: the first input has axes [N, C, ...], got shape {tuple(shape)}")
    rows = (*shape[:1], *shape[2:])
    if labels.dtype not in INTEGERS or tuple(labels.shape) != rows:
        raise Rejected(
            f"{op} C2: the labels are integers of shape {rows}, "
            f"got {labels.dtype} of shape {tuple(labels.shape)}"
        )
    if reduction not in REDUCTIONS:
        raise Rejected(f"{op} C4: the reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    checks.floats(op, x)
    checks.indices(f"{op} C3", labels, shape[1], ignored)


def check_weights(label: str, x: Tensor, weight: Sequence[float]) -> None:
    """Refuse weights that are not one for each class, finite and not negative."""
    classes = x.shape[1] if x.dim() > 1 else len(weight)
    if len(weight) != classes or not all(0 <= w < math.inf for w in weight):
        raise Rejected(
            f"{label}: there are {classes} weights, all of them finite and not negative, "
            f"got {tuple(weight)}"
        )


def class_weights(
    weight: Sequence[float] | None, device: torch.device, dtype: torch.dtype = torch.float32
) -> Tensor | None:
    """Put weights on a device; there they are kept, as what is captured copies nothing from it."""
    if weight is None:
        return None
    if device.type == "cpu":
        return torch.tensor(weight, dtype=dtype)
    return _kept(tuple(weight), device, dtype)


@lru_cache(maxsize=64)
def _kept(weight: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(weight, dtype=dtype, device=device)


def aten_target(
    op: str,
    x: Tensor,
    labels: Tensor,
    ignored: int,
    reduction: str,
    weight: Sequence[float] | None,
) -> Target:
    """Return what torch's kernels may read: int64 labels; on a device, a bad one is ignored."""
    if labels.dtype is not torch.int64:
        labels = labels.to(torch.int64)
    if labels.is_cuda:
        _, bad = guard(op, labels.masked_fill(labels == ignored, 0), max(x.shape[1], 1))
        labels = labels if bad is None else labels.masked_fill(bad, ignored)
    weights = None if weight is None else class_weights(weight, x.device, x.dtype)
    return Target(labels, ignored, reduction, weights)


def aten_losses(log_probabilities: Tensor, target: Target) -> tuple[Tensor, Tensor, bool]:
    """Read off the labels by torch's kernel; return the loss, and the weight that it counts.

    The last of three says whether every row is known to count, which a host knows of a reduction.
    """
    labels, ignored, reduction, weights = target
    x, at, forward = log_probabilities, labels, _forward
    if x.dim() > 2:
        x, forward = _as_images(x), _forward2d
        at = labels.reshape(*x.shape[:1], *x.shape[2:])
    loss, over = forward(x, at, weights, REDUCTIONS[reduction], ignored)
    if reduction == "none":
        return loss.reshape(labels.shape), over, False
    if loss.is_cuda:
        return torch.where(over == 0, 0, loss) if reduction == "mean" else loss, over, False
    counted = over.item()
    if reduction == "mean" and not counted:
        loss = torch.zeros_like(loss)
    return loss, over, weights is None and counted == labels.numel() <= COUNTED


def aten_cotangents(cotangent: Tensor, shaped: Tensor, target: Target, over: Tensor) -> Tensor:
    """Return the cotangent of what has `shaped`'s shape and `aten_losses` read off."""
    if not shaped.numel():
        # What torch runs on dual tensors looks for a label among no classes.
        return torch.zeros_like(shaped)
    labels, ignored, reduction, weights = target
    code = REDUCTIONS[reduction]
    if shaped.dim() == 2:
        dx = _backward(cotangent, shaped, labels, weights, code, ignored, over)
    else:
        x = _as_images(shaped)
        labels = labels.reshape(*x.shape[:1], *x.shape[2:])
        g = cotangent.reshape(labels.shape) if reduction == "none" else cotangent
        dx = _backward2d(g, x, labels, weights, code, ignored, over).reshape(shaped.shape)
    return dx if weights is None or reduction != "mean" else torch.where(over == 0, 0, dx)


def _as_images(x: Tensor) -> Tensor:
    """See scores of any rank as those of images, for which torch has kernels."""
    return x.reshape(*x.shape[:2], x.shape[2:].numel(), 1).contiguous()
