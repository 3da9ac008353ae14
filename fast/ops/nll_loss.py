"""Twin of spec.ops.nll_loss.

One launch reads off a loss per row, in fp32, and one program adds them up (fast.kernels.losses). A
row is a place of all axes but that of the classes. Saved: the labels, the weights, what a mean is
divided by, and nothing of the log-probabilities but their shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.flags import code_of, word
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.losses import labels as labelled
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise

_CODE = code_of("nll_loss")
_BLOCK = 256


_SIZES = ["rows", "n", "inner", "ignored", "xa", "xn", "xb", "ls", "gs", "weighted"]
_POINTERS = ["labels", "word", "w"]


@triton.jit(do_not_specialize=[name for name in _SIZES if name != "gs"],
            do_not_specialize_on_alignment=["losses", "x", *_POINTERS])  # fmt: skip
def _value_kernel(
    losses, x, labels, word, w, rows: tl.int64, n: tl.int64, inner: tl.int64,
    ignored: tl.int64, xa: tl.int64, xn: tl.int64, xb: tl.int64, ls: tl.int64, weighted: tl.int32,
    CODE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    label, good = labelled.read_labels(labels, row, row < rows, ls, n, ignored, word, CODE)
    start = rowwise.starts(row, inner, xa, xb)
    here = tl.load(x + (start + label * xn), mask=good, other=0.0).to(tl.float32)
    weight = labelled.weigh(w, weighted, label, good)
    tl.store(losses + row, tl.where(good, -here * weight, 0.0), mask=row < rows)


@triton.jit(do_not_specialize=[name for name in _SIZES if name[0] not in "xw"],
            do_not_specialize_on_alignment=["dx", "g", "over", *_POINTERS])  # fmt: skip
def _vjp_kernel(
    dx, g, over, labels, word, w, rows: tl.int64, n: tl.int32, inner: tl.int64,
    ignored: tl.int64, gs: tl.int64, ls: tl.int64, CODE: tl.constexpr, WEIGHTED: tl.constexpr,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    label, good = labelled.read_labels(labels, row, live, ls, n, ignored, word, CODE)
    share, good = labelled.shared(g, row, gs, over, good)
    share = (-share * labelled.weigh(w, WEIGHTED, label, good))[:, None]
    out = rowwise.starts(row, inner, n * inner, 1)
    for at in range(0, n, BLOCK):
        column = at + tl.arange(0, BLOCK)
        result = tl.where(column[None, :] == label[:, None], share, 0.0)
        rowwise.keep(dx, out, at, n, inner, result, live, UNIT, BLOCK)


def check(
    log_probabilities: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> None:
    """Refuse all but scores (C1), a label per row (C2, C3), a reduction (C4) and weights (C5)."""
    labelled.check("nll_loss", log_probabilities, labels, ignore_index, reduction, weight, "C5")


def value(
    log_probabilities: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> tuple[Tensor, Saved]:
    """Read off the negative log-probability of each row's label, then reduce."""
    x, at = log_probabilities, labels.to(torch.int64).reshape(-1)
    checks.for_kernels(x)
    source, weights = rowwise.view(x, 1), labelled.class_weights(weight, x.device)
    rows, (_, classes, inner) = labels.numel(), source.shape
    losses = torch.empty(rows, dtype=torch.float32, device=x.device)
    launch(
        _value_kernel, (-(-rows // _BLOCK),), losses, source, at, word(x.device),
        losses if weights is None else weights, rows, classes, inner, ignore_index,
        *source.stride(), at.stride(0), int(weights is not None), CODE=_CODE, BLOCK=_BLOCK,
    )  # fmt: skip
    z, over = labelled.total(losses, at, classes, ignore_index, reduction, weights)
    saved = (x.shape, at, over, weights, ignore_index, reduction)
    return (z.reshape(labels.shape) if reduction == "none" else z).to(x.dtype), saved


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send each row's cotangent, negated, weighted and divided, to the row's label."""
    if not needs[0]:
        return None, None
    shape, labels, over, weights, ignored, reduction = saved
    dx = torch.empty(shape, dtype=cotangent.dtype, device=cotangent.device)
    result, g = rowwise.view(dx, 1), cotangent.reshape(-1)
    _, n, inner = result.shape
    rows, meta = labels.shape[0], rowwise.tile(result)
    if n:
        launch(
            _vjp_kernel, (-(-rows // meta["ROWS"]),), dx, g, over, labels, word(dx.device),
            over if weights is None else weights, rows, n, inner, ignored,
            g.stride(0) if reduction == "none" else 0, labels.stride(0),
            CODE=_CODE, WEIGHTED=weights is not None, **meta,
        )  # fmt: skip
    return dx, None


def aten_value(
    log_probabilities: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> tuple[Tensor, Saved]:
    """Read off the negative log-probability of each row's label, then reduce."""
    x = wide(log_probabilities)
    labels = labelled.aten_labels("nll_loss", labels, x.shape[1], ignore_index)
    weights = labelled.class_weights(weight, x.device, x.dtype)
    z, over, _ = labelled.aten_losses(x, labels, ignore_index, reduction, weights)
    saved = (x.shape, labels, over, weights, ignore_index, reduction)
    return z.to(log_probabilities.dtype), saved


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send each row's cotangent, negated, weighted and divided, to the row's label."""
    if not needs[0]:
        return None, None
    shape, labels, over, weights, ignored, reduction = saved
    g, shaped = wide(cotangent), over.expand(shape)
    dx = labelled.aten_cotangents(g, shaped, labels, ignored, reduction, over, weights)
    return dx.to(cotangent.dtype), None


MOST_KERNELS = 5
"""Each way one for rows, back a wide one and one with weights as well, and the total of losses."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a few classes, without and with weights, and many."""
    for rows, classes, weight in ((3, 7, None), (3, 7, (1.0,) * 7), (64, 1024, None)):
        labels = torch.zeros(rows, dtype=torch.int64)
        yield (torch.zeros(rows, classes, dtype=dtype), labels), {"weight": weight}


op = Op(
    "nll_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("log_probabilities", "labels"), index_inputs=(1,),
    attributes={"ignore_index": -100, "reduction": "mean", "weight": None},
)  # fmt: skip
