"""Twin of spec.ops.argmax.

One launch: every lane remembers the largest entry that it has met, and where; at the end of the
slice the first of those that are as large as any is the place. A slice is not cut into chunks, so a
few very long ones are slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows.reduce import INTEGERS, row_offset, walk
from fast.ops.max import widened

Places = tuple[tuple[Tensor], Saved]


@triton.jit(do_not_specialize=INTEGERS, do_not_specialize_on_alignment=["z", "x"])
def _kernel(
    z, x, rows: tl.int64, n1: tl.int64, n2: tl.int64, s0: tl.int64, s1: tl.int64, s2: tl.int64,
    m0: tl.int64, m1: tl.int64, t0: tl.int64, t1: tl.int64,
    LEAST: tl.constexpr, AXIS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    base = row_offset(tl.minimum(row, rows - 1), n1, n2, s0, s1, s2)
    base = tl.expand_dims(base, AXIS)
    lane = tl.expand_dims(tl.arange(0, BLOCK_R), 1 - AXIS)
    SHAPE: tl.constexpr = [BLOCK_R, BLOCK_K] if AXIS == 0 else [BLOCK_K, BLOCK_R]
    most = tl.full(SHAPE, float("-inf"), tl.float32)
    # How many entries are left from a place on: the first of several has the most, and none is 0.
    left = tl.full(SHAPE, 0, tl.int64)
    at = m1 * 0
    while at < m1:
        r1 = at + lane
        value = tl.load(x + (base + r1 * t1), mask=r1 < m1, other=0).to(tl.float32)
        if LEAST:
            value = -value
        larger = (value > most) | (left == 0) | ((value != value) & (most == most))
        larger = larger & (r1 < m1)
        most = tl.where(larger, value, most)
        left = tl.where(larger, m1 - r1, left)
        at += BLOCK_R
    nan = most != most
    undefined = tl.expand_dims(tl.max(nan.to(tl.int32), AXIS), AXIS) > 0
    largest = tl.expand_dims(tl.max(tl.where(nan, float("-inf"), most), AXIS), AXIS)
    found = (undefined & nan) | ((undefined == 0) & (most == largest))
    place = m1 - tl.max(tl.where(found, left, 0), AXIS)
    tl.store(z + row, place, mask=row < rows)


def check(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> None:
    """Refuse an axis out of range (C1), or one without entries (C2)."""
    check_for("argmax", x, axis)


def check_for(name: str, x: Tensor, axis: int | None) -> None:
    """Refuse what `check` does, by an op's name."""
    checks.floats(name, x)
    if axis is not None:
        checks.axis(f"{name} C1", x.dim(), axis)
    if (x.numel() if axis is None else x.shape[axis]) == 0:
        came = f"axis={axis!r} of {tuple(x.shape)}"
        raise Rejected(f"{name} C2: what is searched is not empty, got {came}")


def value(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Places:
    """Find the place of the largest; nothing is saved."""
    return places(x, axis, keepdims, least=False)


def places(x: Tensor, axis: int | None, keepdims: bool, *, least: bool) -> Places:
    """Find the first place of the largest along an axis, or of the least, as int64."""
    checks.for_kernels(x)
    gone = tuple(range(x.dim())) if axis is None else (axis % x.dim(),)
    slices = walk(x.reshape(-1), (0,)) if axis is None else walk(x, gone)
    shape = [n for k, n in enumerate(x.shape) if k not in gone]
    z = torch.empty(shape, dtype=torch.int64, device=x.device)
    if z.numel():
        block_k, block_r = slices.tile
        # Of a wider tile of columns, places of 64 bits do not fit the registers.
        block_r //= 2 if slices.columns else 1
        launch(
            _kernel, (-(-slices.rows // block_k),), z, slices.x, *slices.integers, LEAST=least,
            AXIS=0 if slices.columns else 1, BLOCK_K=block_k, BLOCK_R=block_r, num_warps=8,
        )  # fmt: skip
    return (z.reshape(widened(x, gone)) if keepdims else z,), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return nothing: places have no cotangent."""
    return (None,)


def aten_value(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Places:
    """Find the place of the largest; nothing is saved."""
    return (torch.argmax(x, axis, keepdims),), ()


aten_vjp = vjp


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield slices along either axis: a kernel has the form of rows and that of columns."""
    yield (torch.zeros(4, 1000, dtype=dtype),), {"axis": 1}
    yield (torch.zeros(1000, 64, dtype=dtype),), {"axis": 0}


op = Op(
    "argmax", check, value, vjp, aten_value, aten_vjp, inputs=("x",),
    attributes={"axis": None, "keepdims": False}, stops_gradients=True, indices=(0,),
)  # fmt: skip
