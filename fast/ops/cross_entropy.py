"""Twin of spec.ops.cross_entropy.

One pass over a row of logits leaves its maximum, its sum of exponentials and its loss, all fp32
(fast.kernels.rows.softmaxes); one program adds the losses up (fast.kernels.losses). A row is a
place of all axes but that of the classes. Smoothing of a row longer than a block takes a second
pass. Saved: the logits, the labels, the weights, those two numbers per row, and what a mean is
divided by; the VJP recomputes the exponentials and divides by their sum once per row.

The ATen twin saves the log-probabilities and exponentiates them again, as torch does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import read_on_host, wide
from fast.device.flags import code_of, word
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.losses import labels as labelled
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise, softmaxes

_CODE = code_of("cross_entropy")

_SIZES = ["rows", "n", "inner", "ignored", "xa", "xn", "xb", "ls", "kept", "spread", "weighted"]
_POINTERS = ["x", "maxima", "sums", "labels", "word", "w"]


@triton.jit
def _lost(x, maximum, log):
    """Return the negative log-probabilities of entries."""
    return log - (x - maximum)


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=["losses", *_POINTERS])
def _value_kernel(
    losses, maxima, sums, x, labels, word, w, rows: tl.int64, n: tl.int32, inner: tl.int64,
    ignored: tl.int64, xa: tl.int64, xn: tl.int64, xb: tl.int64, ls: tl.int64, kept, spread,
    weighted: tl.int32,
    CODE: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = rowwise.starts(row, inner, xa, xb)
    first = rowwise.block(x, start, 0, n, xn, float("-inf"), UNIT, BLOCK)
    maximum, total = softmaxes.statistics(first, x, start, n, xn, UNIT, BLOCK)
    tl.store(maxima + row, maximum, mask=live)
    tl.store(sums + row, total, mask=live)
    label, good = labelled.read_labels(labels, row, live, ls, n, ignored, word, CODE)
    here = tl.load(x + (start + label * xn), mask=good, other=0.0).to(tl.float32)
    log = tl.log(total)
    loss = _lost(here, maximum, log) * labelled.weigh(w, weighted, label, good)
    if spread > 0:
        every = tl.zeros_like(loss)
        for at in range(0, n, BLOCK):
            if at > 0:
                first = rowwise.block(x, start, at, n, xn, float("-inf"), UNIT, BLOCK)
            column = at + tl.arange(0, BLOCK)
            each = _lost(first, maximum[:, None], log[:, None])
            if weighted:
                each = each * rowwise.line(w, at, n, 1, 1, BLOCK)
            every += tl.sum(tl.where((column < n)[None, :], each, 0.0), 1)
        loss = kept * loss + spread * every
    tl.store(losses + row, tl.where(good, loss, 0.0), mask=live)


@triton.jit(do_not_specialize=[*_SIZES, "gs"],
            do_not_specialize_on_alignment=["dx", "g", "over", *_POINTERS])  # fmt: skip
def _vjp_kernel(
    dx, g, over, maxima, sums, x, labels, word, w, rows: tl.int64, n: tl.int32, inner: tl.int64,
    ignored: tl.int64, xa: tl.int64, xn: tl.int64, xb: tl.int64, ls: tl.int64, gs: tl.int64,
    kept, spread, weighted: tl.int32,
    CODE: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = rowwise.starts(row, inner, xa, xb)
    out = rowwise.starts(row, inner, n * inner, 1)
    label, good = labelled.read_labels(labels, row, live, ls, n, ignored, word, CODE)
    share, good = labelled.shared(g, row, gs, over, good)
    maximum = tl.load(maxima + row)[:, None]
    to_label = share * kept * labelled.weigh(w, weighted, label, good)
    to_every = share * spread
    every = tl.zeros((1,), dtype=tl.float32) + n
    if weighted:
        every = tl.zeros((1,), dtype=tl.float32)
        for at in range(0, n, BLOCK):
            every += tl.sum(rowwise.line(w, at, n, 1, 1, BLOCK), 1)
    # The sum of the targets: of one class, it is what is subtracted, so that nothing is left.
    part = tl.div_rn(to_label + to_every * every, tl.load(sums + row))[:, None]
    for at in range(0, n, BLOCK):
        here = rowwise.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        column = at + tl.arange(0, BLOCK)
        here_label = column[None, :] == label[:, None]
        target = to_every[:, None] + tl.zeros_like(here)
        if weighted:
            target = to_every[:, None] * rowwise.line(w, at, n, 1, 1, BLOCK)
        target = target + tl.where(here_label, to_label[:, None], 0.0)
        # What is ignored receives exactly 0, also where its row holds NaN or infinities.
        result = tl.where(good[:, None], tl.exp(here - maximum) * part - target, 0.0)
        rowwise.keep(dx, out, at, n, inner, result, live, UNIT, BLOCK)


def _shares(smoothing: float, classes: int) -> tuple[float, float]:
    """Return by what a loss weighs the label, and by what every class."""
    return 1 - smoothing, smoothing / max(classes, 1)


def check(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> None:
    """Refuse what `nll_loss` refuses (C1 to C4, C6), and a smoothing outside [0, 1] (C5)."""
    if not 0 <= label_smoothing <= 1:
        raise Rejected(f"cross_entropy C5: label_smoothing lies in [0, 1], got {label_smoothing}")
    labelled.check("cross_entropy", logits, labels, ignore_index, reduction, weight, "C6")


def value(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> tuple[Tensor, Saved]:
    """Score logits against labels."""
    x, at = logits, labels.to(torch.int64).reshape(-1)
    checks.for_kernels(x)
    source, weights = rowwise.view(x, 1), labelled.class_weights(weight, x.device)
    rows, (_, n, inner) = labels.numel(), source.shape
    maxima, sums, losses = (rowwise.statistic(source) for _ in range(3))
    shares, meta = _shares(label_smoothing, n), rowwise.tile(source)
    launch(
        _value_kernel, (-(-rows // meta["ROWS"]),), losses, maxima, sums, source, at,
        word(x.device), losses if weights is None else weights, rows, n, inner, ignore_index,
        *source.stride(), at.stride(0), *shares, int(weights is not None), CODE=_CODE, **meta,
    )  # fmt: skip
    z, over = labelled.total(losses, at, n, ignore_index, reduction, weights)
    saved = (x, at, maxima, sums, over, weights, ignore_index, shares, reduction)
    return (z.reshape(labels.shape) if reduction == "none" else z).to(x.dtype), saved


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (softmax(x) - target) g, divided where the loss was."""
    if not needs[0]:
        return None, None
    x, labels, maxima, sums, over, weights, ignored, shares, reduction = saved
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    source, result, g = rowwise.view(x, 1), rowwise.view(dx, 1), cotangent.reshape(-1)
    rows, (_, n, inner) = labels.shape[0], source.shape
    # 32-bit rows are read by whole cache lines as they are.
    meta = rowwise.tile(source, result, wide=x.element_size() == 2)
    if n:
        launch(
            _vjp_kernel, (-(-rows // meta["ROWS"]),), dx, g, over, maxima, sums, source, labels,
            word(x.device), over if weights is None else weights, rows, n, inner, ignored,
            *source.stride(), labels.stride(0), g.stride(0) if reduction == "none" else 0,
            *shares, int(weights is not None), CODE=_CODE, **meta,
        )  # fmt: skip
    return dx, None


def aten_value(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> tuple[Tensor, Saved]:
    """Score logits against labels; the log-probabilities are saved, in the dtype of computation."""
    labels = labelled.aten_labels("cross_entropy", labels, logits.shape[1], ignore_index)
    source = wide(logits)
    weights = None
    if weight is not None:
        weights = labelled.class_weights(weight, source.device, source.dtype)
    logs = torch.log_softmax(source, 1)
    full = False
    shares = _shares(label_smoothing, source.shape[1]) if label_smoothing else None
    if shares is not None:
        z, over = _smoothed(logs, labels, ignore_index, weights, shares, reduction)
    else:
        z, over, full = labelled.aten_losses(logs, labels, ignore_index, reduction, weights)
    saved = (logs, labels, ignore_index, over, weights, shares, reduction, full)
    return z if source is logits else z.to(logits.dtype), saved


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (softmax(x) - target) g, divided where the loss was."""
    if not needs[0]:
        return None, None
    logs, labels, ignored, over, weights, shares, reduction, full = saved
    g = wide(cotangent)
    if shares is not None:
        dz = _smoothed_cotangents(g, logs, labels, ignored, over, weights, shares)
    else:
        dz = labelled.aten_cotangents(g, logs, labels, ignored, reduction, over, weights)
    dx = torch._log_softmax_backward_data(dz, logs, 1, dz.dtype)
    if not full:
        # What does not count receives exactly 0, also where its row holds NaN or infinities.
        out = (labels == ignored) | (over == 0) if reduction == "mean" else labels == ignored
        if not read_on_host(dx) or out.any():
            dx.masked_fill_(out.unsqueeze(1), 0)
    return dx if g is cotangent else dx.to(cotangent.dtype), None


def _smoothed(
    log_probabilities: Tensor,
    labels: Tensor,
    ignored: int,
    weights: labelled.Weights,
    shares: tuple[float, float],
    reduction: str,
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss, and what a row's cotangent is divided by."""
    losses, *_ = labelled.aten_losses(log_probabilities, labels, ignored, "none", weights)
    out, each = labels == ignored, log_probabilities
    if weights is not None:
        each = each * _beside_rows(weights, each)
    every = each.sum(1).masked_fill_(out, 0)
    kept, spread = shares
    losses = losses * kept - every * spread
    if reduction == "none":
        return losses, losses.new_ones(())
    z = losses.sum()
    if reduction == "sum":
        return z, torch.ones_like(z)
    counted = (~out).to(z.dtype)
    if weights is not None and weights.numel():
        counted = weights[labels.masked_fill(out, 0)] * counted
    over = counted.sum()
    return torch.where(over == 0, 0, z / over), over


def _smoothed_cotangents(
    cotangent: Tensor,
    shaped: Tensor,
    labels: Tensor,
    ignored: int,
    over: Tensor,
    weights: labelled.Weights,
    shares: tuple[float, float],
) -> Tensor:
    """Return the cotangent of the log-probabilities under the smoothed loss."""
    share = (cotangent / over).expand(labels.shape).masked_fill(labels == ignored, 0)
    kept, spread = shares
    dz = labelled.aten_cotangents(share * kept, shaped, labels, ignored, "none", over, weights)
    every = share.unsqueeze(1) * spread
    return dz.sub_(every if weights is None else every * _beside_rows(weights, shaped))


def _beside_rows(weights: Tensor, x: Tensor) -> Tensor:
    """Return weights with an axis for each of x but that of the classes."""
    return weights.reshape(-1, *(1 for _ in x.shape[2:]))


MOST_KERNELS = 5
"""In 16 bits: a narrow tile and a wide one each way, and the total of the fp32 losses."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a few classes, and many."""
    for rows, classes in ((3, 7), (64, 1024)):
        yield (torch.ones(rows, classes, dtype=dtype), torch.zeros(rows, dtype=torch.int64)), {}


op = Op(
    "cross_entropy", check, value, vjp, aten_value, aten_vjp,
    inputs=("logits", "labels"), index_inputs=(1,),
    attributes={"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean", "weight": None},
)  # fmt: skip
