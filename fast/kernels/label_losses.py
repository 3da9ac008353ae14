"""What the losses that read labels share: their checks, and the sum or mean over rows.

A row's loss is one fp32 number. One program adds them up in a fixed order, counts the labels that
are not ignored, and divides by that count; where all are ignored, by one, so that the loss is 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fast.device.bridge import INTEGERS
from fast.device.flags import flag_bad, guard
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
"""The reductions, by the number that torch's kernels know them by."""

_BLOCK = 2048
_forward = torch.ops.aten.nll_loss_forward.default
_backward = torch.ops.aten.nll_loss_backward.default


@triton.jit
def read_labels(labels, row, inside, step, classes, ignored, word, CODE: tl.constexpr):
    """Return each row's label, and which rows have a class to read; flag what is neither."""
    label = tl.load(labels + row * step, mask=inside, other=0)
    asked = inside & (label != ignored)
    bad = asked & ((label < 0) | (label >= classes))
    flag_bad(word, label, bad, CODE)
    return label, asked & (label >= 0) & (label < classes)


@triton.jit(do_not_specialize=["rows", "step", "ignored", "divide"],
            do_not_specialize_on_alignment=["loss", "count", "losses", "labels"])  # fmt: skip
def _total_kernel(
    loss, count, losses, labels, rows: tl.int64, step: tl.int64, ignored: tl.int64,
    divide: tl.int32, BLOCK: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    counted = tl.zeros((BLOCK,), dtype=tl.int32)
    for at in range(0, rows, BLOCK):
        row = at + tl.arange(0, BLOCK).to(tl.int64)
        total += tl.load(losses + row, mask=row < rows, other=0.0)
        label = tl.load(labels + row * step, mask=row < rows, other=ignored)
        counted += (label != ignored).to(tl.int32)
    number = tl.where(divide != 0, tl.maximum(tl.sum(counted, 0), 1), 1).to(tl.float32)
    tl.store(count, number)
    tl.store(loss, tl.div_rn(tl.sum(total, 0), number))


def total(losses: Tensor, labels: Tensor, ignored: int, reduction: str) -> tuple[Tensor, Tensor]:
    """Reduce fp32 losses per row; return the loss, and what a row's cotangent is divided by."""
    count = torch.ones((), dtype=torch.float32, device=losses.device)
    if reduction == "none":
        return losses, count
    loss = torch.empty_like(count)
    launch(
        _total_kernel, (1,), loss, count, losses, labels, losses.shape[0], labels.stride(0),
        ignored, int(reduction == "mean"), BLOCK=_BLOCK, num_warps=8,
    )  # fmt: skip
    return loss, count


def check(op: str, x: Tensor, labels: Tensor, ignored: int, reduction: str) -> None:
    """Refuse all but a matrix (C1), a label per row (C2) in range (C3), and a reduction (C4)."""
    shape = x.shape
    if len(shape) != 2:
        raise Rejected(f"{op} C1: the first input is a matrix [N, C], got shape {tuple(shape)}")
    if labels.dtype not in INTEGERS or labels.shape != shape[:1]:
        raise Rejected(
            f"{op} C2: the labels are integers of shape ({shape[0]},), "
            f"got {labels.dtype} of shape {tuple(labels.shape)}"
        )
    if reduction not in REDUCTIONS:
        raise Rejected(f"{op} C4: the reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    checks.floats(op, x)
    checks.indices(f"{op} C3", labels, shape[1], ignored)


def aten_labels(op: str, labels: Tensor, classes: int, ignored: int) -> Tensor:
    """Return int64 labels that torch's kernels may read: on a device, a bad one is ignored."""
    if labels.dtype is not torch.int64:
        labels = labels.to(torch.int64)
    if labels.is_cuda:
        _, bad = guard(op, labels.masked_fill(labels == ignored, 0), max(classes, 1))
        labels = labels if bad is None else labels.masked_fill(bad, ignored)
    return labels


def aten_losses(
    log_probabilities: Tensor, labels: Tensor, ignored: int, reduction: str
) -> tuple[Tensor, Tensor]:
    """Read off the labels by torch's kernel; return the loss, and the number of rows it counts."""
    loss, count = _forward(log_probabilities, labels, None, REDUCTIONS[reduction], ignored)
    if reduction == "mean":
        if loss.is_cuda:
            loss = torch.where(count == 0, 0, loss)
        elif not count:
            loss = torch.zeros_like(loss)
    return loss, count


def aten_cotangents(
    cotangent: Tensor, shaped: Tensor, labels: Tensor, ignored: int, reduction: str, count: Tensor
) -> Tensor:
    """Return the cotangent of what has `shaped`'s shape and `aten_losses` read off."""
    if not shaped.numel():
        # What torch runs on dual tensors looks for a label among no classes.
        return torch.zeros_like(shaped)
    code = REDUCTIONS[reduction]
    return _backward(cotangent, shaped, labels, None, code, ignored, count)
