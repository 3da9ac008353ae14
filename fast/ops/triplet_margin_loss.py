"""Twin of spec.ops.triplet_margin_loss.

One pass over the rows measures up to three distances, the largest magnitudes so far scaling the
squares, and one writes the gradients; the order is no constant of the kernels. Saved: the inputs
and the distances, in fp32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.checks import REDUCTIONS
from fast.kernels.examples import Example
from fast.kernels.losses import pairs as paired
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise
from fast.kernels.rows.reduce import SUM, reduce
from fast.ops.norm import scale_of, scaled_root, shared, signed

NAME = "triplet_margin_loss"
_STRIDES = ["aa", "an", "pa", "pn", "na", "nn"]


@triton.jit
def _apart(x, y, w, row, at, n, eps, aa, an, pa, pn, na, nn, BLOCK: tl.constexpr):
    """Return how the entries of a block lie apart: the near, the far, and the other two."""
    a = rowwise.block(x, row * aa, at, n, an, 0.0, 1, BLOCK)
    p = rowwise.block(y, row * pa, at, n, pn, 0.0, 1, BLOCK)
    q = rowwise.block(w, row * na, at, n, nn, 0.0, 1, BLOCK)
    return (a - p) + eps, (a - q) + eps, (p - q) + eps


@triton.jit
def _lengthened(m, squares, sizes, d, inside):
    """Return largest magnitudes, sums of squares by their squares, and sums, with a block more."""
    a = tl.where(inside, tl.abs(d), 0.0)
    larger = tl.maximum(m, tl.max(a, 1))
    over = scale_of(larger)
    shrunk = tl.div_rn(scale_of(m), over)
    part = tl.div_rn(a, over[:, None])
    # Where nothing was added so far, a first magnitude divides nothing.
    before = tl.where(m > 0.0, squares * (shrunk * shrunk), squares)
    return larger, before + tl.sum(part * part, 1), sizes + tl.sum(a, 1)


@triton.jit
def _length(m, squares, sizes, order):
    return tl.where(order == 1, sizes, scale_of(m) * tl.sqrt_rn(squares))


@triton.jit
def _less(u, v):
    """Say where u is smaller than v; written so, a NaN survives."""
    return (u < v) | (u != u)


@triton.jit
def _part(u, v):
    """Return what u receives as the smaller of two distances, a half of each that are equal."""
    return tl.where(u == v, 0.5, tl.where(_less(u, v), 1.0, 0.0))


@triton.jit(do_not_specialize=["rows", "n", "order", "swap", *_STRIDES],
            do_not_specialize_on_alignment=["z", "lengths", "x", "y", "w"])  # fmt: skip
def _value_kernel(
    z, lengths, x, y, w, rows: tl.int64, n: tl.int32, order: tl.int32, swap: tl.int32,
    margin: tl.float32, eps: tl.float32,
    aa: tl.int64, an: tl.int64, pa: tl.int64, pn: tl.int64, na: tl.int64, nn: tl.int64,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    m0 = tl.zeros((ROWS,), tl.float32)
    m1, m2, s0, s1, s2, t0, t1, t2 = m0, m0, m0, m0, m0, m0, m0, m0
    for at in range(0, n, BLOCK):
        inside = (at + tl.arange(0, BLOCK) < n)[None, :]
        near_by, far_by, by = _apart(x, y, w, row, at, n, eps, aa, an, pa, pn, na, nn, BLOCK)
        m0, s0, t0 = _lengthened(m0, s0, t0, near_by, inside)
        m1, s1, t1 = _lengthened(m1, s1, t1, far_by, inside)
        m2, s2, t2 = _lengthened(m2, s2, t2, by, inside)
    near, far = _length(m0, s0, t0, order), _length(m1, s1, t1, order)
    other = _length(m2, s2, t2, order)
    tl.store(lengths + row, near, mask=live)
    tl.store(lengths + rows + row, far, mask=live)
    tl.store(lengths + 2 * rows + row, other, mask=live)
    far = tl.where((swap != 0) & _less(other, far), other, far)
    lacking = (near - far) + margin
    tl.store(z + row, tl.where(lacking < 0, 0.0, lacking).to(z.dtype.element_ty), mask=live)


@triton.jit
def _sent_back(d, length, share, order):
    """Return what a distance sends to its rows: nothing without a sign, or where it is 0."""
    return tl.where(order == 1, signed(d, share), shared(d, share, length))


@triton.jit(
    do_not_specialize=["needs", "rows", "n", "order", "swap", "step", *_STRIDES],
    do_not_specialize_on_alignment=["dx", "dy", "dw", "lengths", "x", "y", "w", "g"],
)
def _vjp_kernel(
    dx, dy, dw, needs, lengths, x, y, w, g, rows: tl.int64, n: tl.int32,
    order: tl.int32, swap: tl.int32, margin: tl.float32, eps: tl.float32,
    step: tl.int64, divisor: tl.float32,
    aa: tl.int64, an: tl.int64, pa: tl.int64, pn: tl.int64, na: tl.int64, nn: tl.int64,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    near, far = tl.load(lengths + row), tl.load(lengths + rows + row)
    other = tl.load(lengths + 2 * rows + row)
    share = tl.div_rn(tl.load(g + row * step).to(tl.float32), divisor)
    first = tl.where(swap != 0, _part(far, other), 1.0)
    second = tl.where(swap != 0, _part(other, far), 0.0)
    least = tl.where(second > first, other, far)
    share = tl.where((near - least) + margin >= 0, share, 0.0)
    # What does not count sends nothing, of an infinite share either.
    left = tl.where(first == 0.0, 0.0, first * share)[:, None]
    right = tl.where(second == 0.0, 0.0, second * share)[:, None]
    share = share[:, None]
    for at in range(0, n, BLOCK):
        near_by, far_by, by = _apart(x, y, w, row, at, n, eps, aa, an, pa, pn, na, nn, BLOCK)
        to_p = _sent_back(near_by, near[:, None], share, order)
        to_n = _sent_back(far_by, far[:, None], left, order)
        between = _sent_back(by, other[:, None], right, order)
        # A distance that is not asked for sends nothing, also where it is no number.
        between = tl.where(swap != 0, between, 0.0)
        if needs & 1:
            rowwise.keep(dx, row * n, at, n, 1, to_p - to_n, live, 1, BLOCK)
        if needs & 2:
            rowwise.keep(dy, row * n, at, n, 1, to_p * -1.0 - between, live, 1, BLOCK)
        if needs & 4:
            rowwise.keep(dw, row * n, at, n, 1, to_n + between, live, 1, BLOCK)


def check(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> None:
    """Refuse other shapes (C1, C3), a wrong reduction (C2), order (C4) or number (C5)."""
    checks.pair(NAME, anchor, positive)
    checks.pair(NAME, anchor, negative)
    if not anchor.dim():
        raise Rejected(f"{NAME} C3: the rank is at least 1, got shape ()")
    if isinstance(p, bool) or p not in (1, 2):
        raise Rejected(f"{NAME} C4: p is 1 or 2, got {p!r}")
    if not (0 < margin < math.inf and abs(eps) < math.inf):
        raise Rejected(
            f"{NAME} C5: the margin is finite and positive; eps is finite; got {margin} and {eps}"
        )
    rows = anchor.shape[:-1]
    if reduction not in REDUCTIONS or (reduction == "mean" and rows.numel() == 0):
        among = list(REDUCTIONS)
        raise Rejected(
            f"{NAME} C2: the reduction is one of {among}, 'mean' of at least one row, "
            f"got {reduction!r} for rows of shape {tuple(rows)}"
        )


def value(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> tuple[Tensor, Saved]:
    """Add up what the distances lack to the margin, or keep it."""
    checks.for_kernels(anchor)
    lead, n = anchor.shape[:-1], anchor.shape[-1]
    rows, options = lead.numel(), (p, int(swap), float(margin), float(eps))
    lengths = torch.empty(3, rows, dtype=torch.float32, device=anchor.device)
    kept = anchor.dtype if reduction == "none" else torch.float32
    each = torch.empty(rows, dtype=kept, device=anchor.device)
    sources = [x.reshape(rows, n) for x in (anchor, positive, negative)]
    if rows:
        launch(
            _value_kernel, (-(-rows // rowwise.NARROW["ROWS"]),), each, lengths, *sources, rows, n,
            *options, *(s for x in sources for s in x.stride()), **rowwise.NARROW,
        )  # fmt: skip
    saved = (anchor, positive, negative, lengths, options, reduction)
    if reduction == "none":
        return each.reshape(lead), saved
    divisor = paired.divisor(each, reduction)
    return reduce(SUM, each, (0,), anchor.dtype, wide=False, divisor=divisor), saved


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return what each distance sends back to its rows, divided where the loss was."""
    *inputs, lengths, options, reduction = saved
    x = inputs[0]
    rows, n = lengths.shape[1], x.shape[-1]
    found = [torch.empty(x.shape, dtype=x.dtype, device=x.device) if k else None for k in needs]
    some = next((z for z in found if z is not None), None)
    if some is None or not x.numel():
        return tuple(found)
    sources = [y.reshape(rows, n) for y in inputs]
    divisor = float(paired.divisor(lengths[0], reduction))
    launch(
        _vjp_kernel, (-(-rows // rowwise.NARROW["ROWS"]),),
        *(some if z is None else z for z in found), needs[0] + 2 * needs[1] + 4 * needs[2],
        lengths, *sources, cotangent.contiguous(), rows, n, *options,
        int(reduction == "none"), divisor, *(s for y in sources for s in y.stride()),
        **rowwise.NARROW,
    )  # fmt: skip
    return tuple(found)


def _lengths(x: Tensor, y: Tensor, p: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return how rows lie apart, and how far."""
    d = (x - y).add_(eps)
    sizes = d.abs()
    if p == 1 or not d.shape[-1]:
        return d, sizes.sum(-1)
    return d, scaled_root(sizes, (-1,)).squeeze(-1)


def aten_value(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> tuple[Tensor, Saved]:
    """Add up what the distances lack to the margin, or keep it."""
    a, b, c = wide(anchor), wide(positive), wide(negative)
    near, far = _lengths(a, b, p, eps)[1], _lengths(a, c, p, eps)[1]
    if swap:
        far = torch.minimum(far, _lengths(b, c, p, eps)[1])
    each = (near - far).add_(margin).clamp_(min=0)
    saved = (anchor, positive, negative, p, swap, margin, eps, reduction)
    return paired.aten_reduced(each, reduction, anchor.dtype), saved


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return what each distance sends back to its rows, divided where the loss was."""
    *inputs, p, swap, margin, eps, reduction = saved
    a, b, c = map(wide, inputs)
    (near_by, near), (far_by, far) = _lengths(a, b, p, eps), _lengths(a, c, p, eps)
    share = paired.aten_share(cotangent, near, reduction).expand_as(near)
    parts, least = (torch.ones_like(near),), far
    if swap:
        by, other = _lengths(b, c, p, eps)
        least, tie = torch.minimum(far, other), far == other
        parts = tuple(
            torch.where(tie, 0.5, ((u < v) | u.isnan()).to(near.dtype))
            for u, v in ((far, other), (other, far))
        )
    share = torch.where((near - least).add_(margin) >= 0, share, 0.0)
    to_p = _sent(near_by, near, share, p)
    # What does not count sends nothing, of an infinite share either.
    shares = [torch.where(part == 0, 0.0, share * part) for part in parts]
    to_n = _sent(far_by, far, shares[0], p)
    between = _sent(by, other, shares[1], p) if swap else torch.zeros_like(to_n)
    found = (to_p - to_n, -to_p - between, to_n + between)
    return tuple(z.to(inputs[0].dtype) if k else None for z, k in zip(found, needs, strict=True))


def _sent(d: Tensor, length: Tensor, share: Tensor, p: int) -> Tensor:
    """Return what a distance sends to its rows: nothing without a sign, or where it is 0."""
    length, share = length.unsqueeze(-1), share.unsqueeze(-1)
    if p == 1:
        return torch.where(d < 0, -share, torch.where(d > 0, share, 0.0))
    empty = length == 0
    return (d / length.masked_fill(empty, 1.0) * share).masked_fill(empty, 0.0)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows of more than a block, for each reduction."""
    x = torch.ones(8, 260, dtype=dtype)
    for reduction in ("none", "mean"):
        yield (x, x, x), {"reduction": reduction}


op = Op(
    NAME, check, value, vjp, aten_value, aten_vjp, inputs=("anchor", "positive", "negative"),
    attributes={"margin": 1.0, "p": 2, "eps": 1e-6, "swap": False, "reduction": "mean"},
)  # fmt: skip
