"""Twin of spec.ops.nll_loss.

One launch reads off a loss per row, in fp32, and one program adds them up
(fast.kernels.losses). Saved: the labels and the number of rows counted, and nothing of the
log-probabilities but their shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.flags import code_of, word
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks, losses, rowwise
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved

_CODE = code_of("nll_loss")
_BLOCK = 256


@triton.jit(do_not_specialize=["rows", "classes", "ignored", "xr", "xc", "ls"],
            do_not_specialize_on_alignment=["losses", "x", "labels", "word"])  # fmt: skip
def _value_kernel(
    losses, x, labels, word, rows: tl.int64, classes: tl.int64, ignored: tl.int64,
    xr: tl.int64, xc: tl.int64, ls: tl.int64, CODE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    label, good = losses.read_labels(labels, row, row < rows, ls, classes, ignored, word, CODE)
    here = tl.load(x + (row * xr + label * xc), mask=good, other=0.0).to(tl.float32)
    tl.store(losses + row, tl.where(good, -here, 0.0), mask=row < rows)


@triton.jit(do_not_specialize=["rows", "n", "ignored", "gs", "ls"],
            do_not_specialize_on_alignment=["dx", "g", "count", "labels", "word"])  # fmt: skip
def _vjp_kernel(
    dx, g, count, labels, word, rows: tl.int64, n: tl.int32, ignored: tl.int64,
    gs: tl.int64, ls: tl.int64,
    CODE: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    label, good = losses.read_labels(labels, row, live, ls, n, ignored, word, CODE)
    share = tl.div_rn(tl.load(g + row * gs).to(tl.float32), tl.load(count))
    share = tl.where(good, -share, 0.0)[:, None]
    for at in range(0, n, BLOCK):
        column = at + tl.arange(0, BLOCK)
        result = tl.where(column[None, :] == label[:, None], share, 0.0)
        rowwise.keep(dx, row * n, at, n, 1, result, live, UNIT, BLOCK)


def check(
    log_probabilities: Tensor, labels: Tensor, *, ignore_index: int = -100, reduction: str = "mean"
) -> None:
    """Refuse all but a matrix (C1), a label per row (C2) in range (C3), and a reduction (C4)."""
    losses.check("nll_loss", log_probabilities, labels, ignore_index, reduction)


def value(
    log_probabilities: Tensor, labels: Tensor, *, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Read off the negative log-probability of each row's label, then reduce."""
    x, labels = log_probabilities, labels.to(torch.int64)
    checks.for_kernels(x)
    rows, classes = x.shape
    losses = torch.empty(rows, dtype=torch.float32, device=x.device)
    launch(
        _value_kernel, (-(-rows // _BLOCK),), losses, x, labels, word(x.device), rows, classes,
        ignore_index, *x.stride(), labels.stride(0), CODE=_CODE, BLOCK=_BLOCK,
    )  # fmt: skip
    z, count = losses.total(losses, labels, ignore_index, reduction)
    return z.to(x.dtype), (x.shape, labels, count, ignore_index, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send each row's cotangent, negated and divided by the count, to the row's label."""
    if not needs[0]:
        return None, None
    (rows, n), labels, count, ignored, reduction = saved
    dx = torch.empty((rows, n), dtype=cotangent.dtype, device=cotangent.device)
    meta = rowwise.tile(dx[:, :, None])
    if n:
        launch(
            _vjp_kernel, (-(-rows // meta["ROWS"]),), dx, cotangent, count, labels,
            word(dx.device), rows, n, ignored, cotangent.stride(0) if reduction == "none" else 0,
            labels.stride(0), CODE=_CODE, **meta,
        )  # fmt: skip
    return dx, None


def aten_value(
    log_probabilities: Tensor, labels: Tensor, *, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Read off the negative log-probability of each row's label, then reduce."""
    x = log_probabilities
    labels = losses.aten_labels("nll_loss", labels, x.shape[1], ignore_index)
    z, count = losses.aten_losses(wide(x), labels, ignore_index, reduction)
    return z.to(x.dtype), (x.shape, labels, count, ignore_index, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send each row's cotangent, negated and divided by the count, to the row's label."""
    if not needs[0]:
        return None, None
    shape, labels, count, ignored, reduction = saved
    g = wide(cotangent)
    shaped = count.expand(shape)
    dx = losses.aten_cotangents(g, shaped, labels, ignored, reduction, count)
    return dx.to(cotangent.dtype), None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a few classes, and many."""
    for rows, classes in ((3, 7), (64, 1024)):
        yield (torch.zeros(rows, classes, dtype=dtype), torch.zeros(rows, dtype=torch.int64)), {}


op = Op(
    "nll_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("log_probabilities", "labels"), index_inputs=(1,),
    attributes={"ignore_index": -100, "reduction": "mean"},
)  # fmt: skip
