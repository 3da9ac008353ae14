"""What losses that read labels share: a row's loss is one fp32 number.

One program adds them up in a fixed order, counts the labels that are not ignored, or adds up their
weights, and divides by that; where it is 0, the loss is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from fast.device.bridge import INTEGERS
from fast.device.dtypes import read_on_host
from fast.device.flags import flag_bad, guard
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.checks import REDUCTIONS

_BLOCK = 2048
_forward = torch.ops.aten.nll_loss_forward.default
_backward = torch.ops.aten.nll_loss_backward.default
_forward2d = torch.ops.aten.nll_loss2d_forward.default
_backward2d = torch.ops.aten.nll_loss2d_backward.default

COUNTABLE = 2**24
"""Up to how many rows fp32, in which torch counts them, tells all of them from all but one."""

Weights = Tensor | None
"""A weight for each class, in one contiguous tensor."""


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


def total(
    losses: Tensor, labels: Tensor, classes: int, ignored: int, reduction: str, weights: Weights
) -> tuple[Tensor, Tensor]:
    """Reduce fp32 losses per row; return the loss, and what a row's cotangent is divided by.

    That is 0 where nothing counts: then no row receives anything.
    """
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


def check(
    op: str,
    x: Tensor,
    labels: Tensor,
    ignored: int,
    reduction: str,
    weight: Sequence[float] | None,
    last: str,
) -> None:
    """Refuse all but scores (C1), labels (C2, C3), a reduction (C4), and weights (the last)."""
    shape = x.shape
    if len(shape) < 2:
        raise Rejected(f"{op} C1: the first input has axes [N, C, ...], got shape {tuple(shape)}")
    number, classes, *inner = shape
    rows = (number, *inner)
    if labels.dtype not in INTEGERS or labels.shape != rows:
        raise Rejected(
            f"{op} C2: the labels are integers of shape {rows}, "
            f"got {labels.dtype} of shape {tuple(labels.shape)}"
        )
    if reduction not in REDUCTIONS:
        raise Rejected(f"{op} C4: the reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    if weight is not None and (
        len(weight) != classes or not all(0 <= w < math.inf for w in weight)
    ):
        raise Rejected(
            f"{op} {last}: there are {classes} weights, all of them finite and not negative, "
            f"got {tuple(weight)}"
        )
    checks.floats(op, x)
    checks.indices(f"{op} C3", labels, classes, ignored)


def class_weights(
    weight: Sequence[float] | None, device: torch.device, dtype: torch.dtype = torch.float32
) -> Weights:
    """Put weights on a device; there they are kept, as what is captured copies nothing from it."""
    if weight is None:
        return None
    if device.type == "cpu":
        return torch.tensor([float(one) for one in weight], dtype=dtype)
    return _kept(tuple(map(float, weight)), device, dtype)


@lru_cache(maxsize=64)
def _kept(weight: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(weight, dtype=dtype, device=device)


def aten_labels(op: str, labels: Tensor, classes: int, ignored: int) -> Tensor:
    """Return int64 labels that torch's kernels may read: on a device, a bad one is ignored."""
    if labels.dtype is not torch.int64:
        labels = labels.to(torch.int64)
    if labels.is_cuda:
        _, bad = guard(op, labels.masked_fill(labels == ignored, 0), max(classes, 1))
        labels = labels if bad is None else labels.masked_fill(bad, ignored)
    return labels


def aten_losses(
    log_probabilities: Tensor,
    labels: Tensor,
    ignored: int,
    reduction: str,
    weights: Weights = None,
) -> tuple[Tensor, Tensor, bool]:
    """Read off the labels by torch's kernel.

    Return the loss, the weight that it counts, and whether every row is known to count: that is
    known of a mean on a CPU, which asks how many rows count.
    """
    x, at, forward = log_probabilities, labels, _forward
    if x.dim() > 2:
        x, forward = _as_images(x), _forward2d
        at = labels.reshape(*x.shape[:1], *x.shape[2:])
    loss, over = forward(x, at, weights, REDUCTIONS[reduction], ignored)
    if reduction == "none":
        return loss.reshape(labels.shape), over, False
    if reduction != "mean":
        return loss, over, False
    if not read_on_host(loss):
        return torch.where(over == 0, 0, loss), over, False
    count = over.item()
    if not count:
        loss = torch.zeros_like(loss)
    return loss, over, weights is None and count == labels.numel() <= COUNTABLE


def aten_cotangents(
    cotangent: Tensor, shaped: Tensor, labels: Tensor, ignored: int, reduction: str, over: Tensor,
    weights: Weights = None,
) -> Tensor:  # fmt: skip
    """Return the cotangent of what has `shaped`'s shape and `aten_losses` read off."""
    if not shaped.numel():
        # What torch runs on dual tensors looks for a label among no classes.
        return torch.zeros_like(shaped)
    code, backward = REDUCTIONS[reduction], _backward
    x = shaped
    if x.dim() > 2:
        x, backward = _as_images(x), _backward2d
        labels = labels.reshape(*x.shape[:1], *x.shape[2:])
        cotangent = cotangent.reshape(labels.shape) if reduction == "none" else cotangent
    dx = backward(cotangent, x, labels, weights, code, ignored, over)
    dx = dx if x is shaped else dx.reshape(shaped.shape)
    return dx if weights is None or reduction != "mean" else torch.where(over == 0, 0, dx)


def _as_images(x: Tensor) -> Tensor:
    """See scores of any rank as those of images, for which torch has kernels."""
    return x.reshape(*x.shape[:2], x.shape[2:].numel(), 1).contiguous()
