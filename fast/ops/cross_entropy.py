"""Twin of spec.ops.cross_entropy.

One pass over a row of logits leaves its maximum, its sum of exponentials and its loss, all fp32
(fast.kernels.rowwise); one program adds the losses up (fast.kernels.losses). Smoothing of a
row longer than a block takes a second pass. Saved: the logits, the labels, those two numbers per
row, and the number of rows counted; the VJP recomputes the exponentials and divides by their sum
once per row.

The ATen twin saves the log-probabilities and exponentiates them again, as torch does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.flags import code_of, word
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks, losses, rowwise
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved

_CODE = code_of("cross_entropy")

_SIZES = ["rows", "n", "ignored", "xr", "xn", "ls", "kept", "spread"]
_POINTERS = ["x", "maxima", "sums", "labels", "word"]


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=["losses", *_POINTERS])
def _value_kernel(
    losses, maxima, sums, x, labels, word, rows: tl.int64, n: tl.int32, ignored: tl.int64,
    xr: tl.int64, xn: tl.int64, ls: tl.int64, kept, spread,
    CODE: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = row * xr
    first = rowwise.block(x, start, 0, n, xn, float("-inf"), UNIT, BLOCK)
    maximum, total = rowwise.statistics(first, x, start, n, xn, UNIT, BLOCK)
    tl.store(maxima + row, maximum, mask=live)
    tl.store(sums + row, total, mask=live)
    label, good = losses.read_labels(labels, row, live, ls, n, ignored, word, CODE)
    here = tl.load(x + (start + label * xn), mask=good, other=0.0).to(tl.float32)
    log = tl.log(total)
    loss = log - (here - maximum)
    if spread > 0:
        every = tl.zeros_like(loss)
        for at in range(0, n, BLOCK):
            if at > 0:
                first = rowwise.block(x, start, at, n, xn, float("-inf"), UNIT, BLOCK)
            column = at + tl.arange(0, BLOCK)
            each = log[:, None] - (first - maximum[:, None])
            every += tl.sum(tl.where((column < n)[None, :], each, 0.0), 1)
        loss = kept * loss + spread * every
    tl.store(losses + row, tl.where(good, loss, 0.0), mask=live)


@triton.jit(do_not_specialize=[*_SIZES, "gs"],
            do_not_specialize_on_alignment=["dx", "g", "count", *_POINTERS])  # fmt: skip
def _vjp_kernel(
    dx, g, count, maxima, sums, x, labels, word, rows: tl.int64, n: tl.int32, ignored: tl.int64,
    xr: tl.int64, xn: tl.int64, ls: tl.int64, gs: tl.int64, kept, spread,
    CODE: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    label, good = losses.read_labels(labels, row, live, ls, n, ignored, word, CODE)
    share = tl.div_rn(tl.load(g + row * gs).to(tl.float32), tl.load(count))
    share = tl.where(good, share, 0.0)
    maximum = tl.load(maxima + row)[:, None]
    to_label = share * kept
    to_every = share * spread
    # The sum of the targets: of one class, it is what is subtracted, so that nothing is left.
    over = tl.div_rn(to_label + to_every * n, tl.load(sums + row))[:, None]
    for at in range(0, n, BLOCK):
        here = rowwise.block(x, row * xr, at, n, xn, 0.0, UNIT, BLOCK)
        column = at + tl.arange(0, BLOCK)
        here_label = column[None, :] == label[:, None]
        target = to_every[:, None] + tl.where(here_label, to_label[:, None], 0.0)
        # What is ignored receives exactly 0, also where its row holds NaN or infinities.
        result = tl.where(good[:, None], tl.exp(here - maximum) * over - target, 0.0)
        rowwise.keep(dx, row * n, at, n, 1, result, live, UNIT, BLOCK)


def check(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> None:
    """Refuse what `nll_loss` refuses (C1 to C4), and a smoothing outside [0, 1] (C5)."""
    losses.check("cross_entropy", logits, labels, ignore_index, reduction)
    if not 0 <= label_smoothing <= 1:
        raise Rejected(f"cross_entropy C5: label_smoothing lies in [0, 1], got {label_smoothing}")


def value(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> tuple[Tensor, Saved]:
    """Score logits against labels."""
    x, labels = logits, labels.to(torch.int64)
    checks.for_kernels(x)
    rows, n = x.shape
    source = x[:, :, None]
    maxima, sums, losses = (rowwise.statistic(source) for _ in range(3))
    weights = (1 - label_smoothing, label_smoothing / max(n, 1))
    meta = rowwise.tile(source)
    launch(
        _value_kernel, (-(-rows // meta["ROWS"]),), losses, maxima, sums, x, labels,
        word(x.device), rows, n, ignore_index, *x.stride(), labels.stride(0), *weights,
        CODE=_CODE, **meta,
    )  # fmt: skip
    z, count = losses.total(losses, labels, ignore_index, reduction)
    return z.to(x.dtype), (x, labels, maxima, sums, count, ignore_index, weights, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (softmax(x) - target) g / count."""
    if not needs[0]:
        return None, None
    x, labels, maxima, sums, count, ignored, weights, reduction = saved
    rows, n = x.shape
    dx = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    # 32-bit rows are read by whole cache lines as they are.
    meta = rowwise.tile(x[:, :, None], dx[:, :, None], wide=x.element_size() == 2)
    if n:
        launch(
            _vjp_kernel, (-(-rows // meta["ROWS"]),), dx, cotangent, count, maxima, sums, x,
            labels, word(x.device), rows, n, ignored, *x.stride(), labels.stride(0),
            cotangent.stride(0) if reduction == "none" else 0, *weights, CODE=_CODE, **meta,
        )  # fmt: skip
    return dx, None


def aten_value(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> tuple[Tensor, Saved]:
    """Score logits against labels; the log-probabilities are saved, in the dtype of computation."""
    labels = losses.aten_labels("cross_entropy", labels, logits.shape[1], ignore_index)
    source = wide(logits)
    log_probabilities = torch.log_softmax(source, 1)
    read = (log_probabilities, labels, ignore_index)
    if label_smoothing:
        z, count = _smoothed(*read, label_smoothing, reduction)
    else:
        z, count = losses.aten_losses(*read, reduction)
    saved = (log_probabilities, labels, count, ignore_index, label_smoothing, reduction)
    return z if source is logits else z.to(logits.dtype), saved


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (softmax(x) - target) g / count."""
    if not needs[0]:
        return None, None
    log_probabilities, labels, count, ignored, smoothing, reduction = saved
    g = wide(cotangent)
    if smoothing:
        dz = _smoothed_cotangents(g, log_probabilities, labels, count, ignored, smoothing)
    else:
        dz = losses.aten_cotangents(g, log_probabilities, labels, ignored, reduction, count)
    dx = torch._log_softmax_backward_data(dz, log_probabilities, 1, dz.dtype)
    # What is ignored receives exactly 0, also where its row holds NaN or infinities.
    out = labels == ignored
    if dx.is_cuda or out.any():
        dx.masked_fill_(out[:, None], 0)
    return dx if g is cotangent else dx.to(cotangent.dtype), None


def _smoothed(
    log_probabilities: Tensor, labels: Tensor, ignored: int, smoothing: float, reduction: str
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss, and what a row's cotangent is divided by."""
    losses, _ = losses.aten_losses(log_probabilities, labels, ignored, "none")
    every = log_probabilities.sum(1).masked_fill_(labels == ignored, 0)
    losses = losses * (1 - smoothing) - every * (smoothing / max(log_probabilities.shape[1], 1))
    if reduction == "none":
        return losses, losses.new_ones(())
    z = losses.sum()
    count = (labels != ignored).sum().clamp_(min=1).to(z.dtype)
    return (z / count, count) if reduction == "mean" else (z, torch.ones_like(z))


def _smoothed_cotangents(
    cotangent: Tensor, shaped: Tensor, labels: Tensor, count: Tensor, ignored: int, smoothing: float
) -> Tensor:
    """Return the cotangent of the log-probabilities under the smoothed loss."""
    share = (cotangent / count).expand(labels.shape).masked_fill(labels == ignored, 0)
    to_label = share * (1 - smoothing)
    dz = losses.aten_cotangents(to_label, shaped, labels, ignored, "none", count)
    return dz.sub_(share[:, None] * (smoothing / max(shaped.shape[1], 1)))


MOST_KERNELS = 5
"""In 16 bits: a narrow tile and a wide one each way, and the total of the fp32 losses."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a few classes, and many."""
    for rows, classes in ((3, 7), (64, 1024)):
        yield (torch.ones(rows, classes, dtype=dtype), torch.zeros(rows, dtype=torch.int64)), {}


op = Op(
    "cross_entropy", check, value, vjp, aten_value, aten_vjp,
    inputs=("logits", "labels"), index_inputs=(1,),
    attributes={"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean"},
)  # fmt: skip
