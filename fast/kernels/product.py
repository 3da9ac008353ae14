"""The matrix product that matmul, bmm and linear share: one tile of a result for any strides.

A batch is one more stride of each operand; where it is 0, one matrix is read for all of them.
Programs walk the output tiles in groups of eight rows of tiles, so that tiles that run together
share operands in cache. Sums are fp32, in tile order along the inner extent, whatever the inputs;
a bias is added once, last, and a curve may bend the sum, before the one rounding to storage.
A transposed operand is only a pair of strides, so a VJP needs no copy. Where the result has few
tiles and the inner extent is long, programs of their own walk its parts (fast.kernels.split_k).

Two tiles: the large one for operands that are aligned and fill it, the small one for all others.
Loads are 128 bits wide where the operands are aligned, in either tile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import NARROW, wide
from fast.device.launch import launch
from fast.device.mode import ring, tl, triton
from fast.kernels import checks
from fast.kernels.split_k import add_parts, cut, scratch

TF32: ContextVar[bool] = ContextVar("tf32", default=False)
"""Whether products of fp32 inputs may round them to tf32; a session's precision sets it."""

GROUP = 8
WIDEST = 2**23
"""The largest extent and stride for which offsets inside a large tile fit 32 bits."""

# (rows, columns, inner extent, warps) of a tile, by the arithmetic of a product.
_LARGE = {"ieee": (128, 64, 16, 8), "tf32": (128, 128, 32, 8), "half": (128, 128, 64, 8)}
_SMALL = {"ieee": (64, 64, 16, 4), "tf32": (64, 64, 32, 4), "half": (64, 64, 32, 4)}
# With the place of a batch, 64 x 64 numbers in IEEE arithmetic would spill registers.
_SMALL_IN_BATCH = {**_SMALL, "ieee": (64, 32, 16, 4)}
# Pointers to single elements, of 64 bits each, would fill the registers of four warps.
_UNALIGNED = {"ieee": (64, 64, 16, 4), "tf32": (64, 64, 32, 8), "half": (64, 64, 32, 8)}
_SIZES = ["m", "n", "k", "length", "biased"]
_STRIDES = ["xm", "xk", "yk", "yn", "bn"]


@triton.jit
def _multiple(size, UNIT: tl.constexpr):
    return (size // UNIT * UNIT).to(tl.int32)


@triton.jit
def _tile(
    program, z, x, y, b, biased, m, n, k, xm, xk, yk, yn, bn,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    straight=None, FN: tl.constexpr = None,
):  # fmt: skip
    if UNIT > 1:
        # Written as multiples, so that the compiler knows them to be; tiles fit 32-bit offsets.
        # An extent that no load goes along may be any.
        m = m.to(tl.int32) if X_LAST else _multiple(m, UNIT)
        n = _multiple(n, UNIT)
        k = _multiple(k, UNIT) if X_LAST or not Y_LAST else k.to(tl.int32)
        xm, xk = (_multiple(xm, UNIT), 1) if X_LAST else (1, _multiple(xk, UNIT))
        yk, yn = (_multiple(yk, UNIT), 1) if Y_LAST else (1, _multiple(yn, UNIT))
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP * tiles_n)
    inside = program % (GROUP * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP, GROUP)
    first_i = (group * GROUP + inside % height).to(tl.int64) * BLOCK_M
    first_j = (inside // height).to(tl.int64) * BLOCK_N
    i = tl.arange(0, BLOCK_M)
    j = tl.arange(0, BLOCK_N)
    p = tl.arange(0, BLOCK_K)
    rows = i < m - first_i
    columns = j < n - first_j
    x += first_i * xm
    y += first_j * yn
    x_tile = i[:, None] * xm + p[None, :] * xk
    y_tile = p[:, None] * yk + j[None, :] * yn
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = p < k - start
        left = x + x_tile
        right = y + y_tile
        if UNIT > 1:
            left = tl.multiple_of(left, (1, 16) if X_LAST else (16, 1))
            right = tl.multiple_of(right, (1, 16) if Y_LAST else (16, 1))
        left = tl.load(left, mask=rows[:, None] & inner[None, :], other=0.0)
        right = tl.load(right, mask=inner[:, None] & columns[None, :], other=0.0)
        if WIDEN:
            left = left.to(tl.float32)
            right = right.to(tl.float32)
        total = tl.dot(left, right, total, input_precision=PRECISION)
        x += BLOCK_K * xk
        y += BLOCK_K * yk
    if b is not None:
        # A condition of biased alone is a scalar, which triton 3.9's interpreter spreads as an
        # int32.
        given = tl.full((BLOCK_N,), biased, tl.int32) != 0
        bias = tl.load(b + (first_j + j) * bn, mask=columns & given, other=0.0)
        total += bias.to(tl.float32)[None, :]
    if FN is None:
        _store(z, total, first_i, first_j, i, j, rows, columns, n, UNIT)
    else:
        _bend(FN, z, straight, total, first_i, first_j, i, rows, n, UNIT)


@triton.jit
def _bend(FN: tl.constexpr, z, straight, total, first_i, first_j, i, rows, n, UNIT: tl.constexpr):
    if total.shape[1] > 32:
        # Few columns after others: a curve of all of them at once would spill registers.
        HALF: tl.constexpr = total.shape[1] // 2
        near, far = tl.split(total.reshape(total.shape[0], 2, HALF).permute(0, 2, 1))
        _bend(FN, z, straight, near, first_i, first_j, i, rows, n, UNIT)
        _bend(FN, z, straight, far, first_i, first_j + HALF, i, rows, n, UNIT)
    else:
        j = tl.arange(0, total.shape[1])
        columns = j < n - first_j
        if straight is not None:
            _store(straight, total, first_i, first_j, i, j, rows, columns, n, UNIT)
        _store(z, FN(total), first_i, first_j, i, j, rows, columns, n, UNIT)


@triton.jit
def _store(z, total, first_i, first_j, i, j, rows, columns, n, UNIT: tl.constexpr):
    z += first_i * n + first_j
    place = z + (i[:, None] * n + j[None, :])
    if UNIT > 1:
        place = tl.multiple_of(place, (1, 16))
    tl.store(place, total.to(z.dtype.element_ty), mask=rows[:, None] & columns[None, :])


@triton.jit
def _part(x, y, k, length, xk, yk):
    """Return where this program's part of the inner axis begins in x and y, and how long it is."""
    begin = tl.program_id(1) * length
    return x + begin * xk, y + begin * yk, tl.minimum(k - begin, length)


@triton.jit(do_not_specialize=[*_SIZES, *_STRIDES],
            do_not_specialize_on_alignment=["z", "x", "y", "b"])  # fmt: skip
def _product_kernel(
    z, x, y, b, biased: tl.int32, m: tl.int64, n: tl.int64, k: tl.int64, length: tl.int64,
    xm: tl.int64, xk: tl.int64, yk: tl.int64, yn: tl.int64, bn: tl.int64,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr, PARTS: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    if PARTS:
        x, y, k = _part(x, y, k, length, xk, yk)
        z += tl.program_id(1) * m * n
    _tile(
        tl.program_id(0), z, x, y, b, biased, m, n, k, xm, xk, yk, yn, bn,
        X_LAST, Y_LAST, UNIT, PRECISION, WIDEN, GROUP, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip


@triton.jit(do_not_specialize=["m", "n", "k", *_STRIDES],
            do_not_specialize_on_alignment=["z", "straight", "x", "y", "b"])  # fmt: skip
def _bent_kernel(
    z, straight, x, y, b, m: tl.int64, n: tl.int64, k: tl.int64,
    xm: tl.int64, xk: tl.int64, yk: tl.int64, yn: tl.int64, bn: tl.int64,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FN: tl.constexpr,
):  # fmt: skip
    _tile(
        tl.program_id(0), z, x, y, b, 1, m, n, k, xm, xk, yk, yn, bn,
        X_LAST, Y_LAST, UNIT, PRECISION, WIDEN, GROUP, BLOCK_M, BLOCK_N, BLOCK_K, straight, FN,
    )  # fmt: skip


@triton.jit(do_not_specialize=["m", "n", "k", "length", "xb", "xm", "xk", "yb", "yk", "yn"],
            do_not_specialize_on_alignment=["z", "x", "y"])  # fmt: skip
def _batch_kernel(
    z, x, y, m: tl.int64, n: tl.int64, k: tl.int64, length: tl.int64,
    xb: tl.int64, xm: tl.int64, xk: tl.int64, yb: tl.int64, yk: tl.int64, yn: tl.int64,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr, PARTS: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    batch = tl.program_id(0) // tiles
    program = (tl.program_id(0) % tiles).to(tl.int32)
    x += batch * xb
    y += batch * yb
    if PARTS:
        x, y, k = _part(x, y, k, length, xk, yk)
        batch = batch * tl.num_programs(1) + tl.program_id(1)
    _tile(
        program, z + batch * m * n, x, y, None, 0, m, n, k, xm, xk, yk, yn, 0,
        X_LAST, Y_LAST, UNIT, PRECISION, WIDEN, GROUP, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip


def product(x: Tensor, y: Tensor, tf32: bool = False, bias: Tensor | None = None) -> Tensor:
    """Return x @ y, plus a bias per column, in fresh contiguous storage."""
    checks.for_kernels(x)
    (m, k), n = x.shape, y.shape[1]
    z = torch.empty((m, n), dtype=x.dtype, device=x.device)
    tiles, meta = _tiled(x, y, tf32)
    parts, length = cut(1, m, n, k)
    to = z if parts == 1 else scratch(z, parts)
    now = bias if parts == 1 else None
    launch(
        _product_kernel, (tiles, parts),
        to, x, y, to if now is None else now, int(now is not None), m, n, k, length,
        *x.stride(), *y.stride(), 0 if now is None else now.stride(0), PARTS=parts > 1, **meta,
    )  # fmt: skip
    if parts > 1:
        add_parts(z, to, bias)
    return z


def bent_product(
    x: Tensor, y: Tensor, bias: Tensor, fn: Any, tf32: bool, keep: bool
) -> tuple[Tensor, Tensor | None]:
    """Return fn(x @ y + bias), and x @ y + bias if it is to be kept; the last launch makes both."""
    checks.for_kernels(x)
    (m, k), n = x.shape, y.shape[1]
    z = torch.empty((m, n), dtype=x.dtype, device=x.device)
    straight = torch.empty_like(z) if keep else None
    tiles, meta = _tiled(x, y, tf32)
    parts, length = cut(1, m, n, k)
    if parts > 1:
        to = scratch(z, parts)
        launch(
            _product_kernel, (tiles, parts),
            to, x, y, to, 0, m, n, k, length, *x.stride(), *y.stride(), 0, PARTS=True, **meta,
        )  # fmt: skip
        add_parts(z, to, bias, straight, fn)
    else:
        launch(
            _bent_kernel, (tiles,),
            z, straight, x, y, bias, m, n, k, *x.stride(), *y.stride(), *bias.stride(),
            FN=fn, **meta,
        )  # fmt: skip
    return z, straight


def batched_product(x: Tensor, y: Tensor, tf32: bool = False) -> Tensor:
    """Return x @ y at each place of a batch, in fresh contiguous storage."""
    checks.for_kernels(x)
    (batch, m, k), n = x.shape, y.shape[2]
    z = torch.empty((batch, m, n), dtype=x.dtype, device=x.device)
    tiles, meta = _tiled(x, y, tf32)
    parts, length = cut(batch, m, n, k)
    to = z if parts == 1 else scratch(z, parts)
    launch(
        _batch_kernel, (batch * tiles, parts),
        to, x, y, m, n, k, length, *x.stride(), *y.stride(), PARTS=parts > 1, **meta,
    )  # fmt: skip
    if parts > 1:
        add_parts(z, to)
    return z


def _tiled(x: Tensor, y: Tensor, tf32: bool) -> tuple[int, dict[str, Any]]:
    """Return how many tiles a product of two matrices has, and how they are computed."""
    (m, k), n = x.shape[-2:], y.shape[-1]
    unit = 16 // x.element_size() if _aligned(x, y) else 1
    kind = "half" if x.dtype in NARROW else "tf32" if tf32 else "ieee"
    small = _SMALL if x.dim() == 2 else _SMALL_IN_BATCH
    tiles = _UNALIGNED if unit == 1 else _LARGE if _fills(m, n, k) else small
    block_m, block_n, block_k, warps = tiles[kind]
    return -(-m // block_m) * -(-n // block_n), {
        "X_LAST": unit == 1 or x.stride(-1) == 1, "Y_LAST": unit == 1 or y.stride(-1) == 1,
        "UNIT": unit, "PRECISION": "tf32" if kind == "tf32" else "ieee",
        # The interpreter multiplies the bits of bf16 numbers.
        "WIDEN": kind == "half" and ring() == "interpreted",
        "GROUP": GROUP, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k,
        "num_warps": warps, "num_stages": 3,
    }  # fmt: skip


def _fills(m: int, n: int, k: int) -> bool:
    """Say whether both operands are long enough for the large tile."""
    return m >= 128 and n >= 128 and k >= 64


def _aligned(x: Tensor, y: Tensor) -> bool:
    """Say whether both operands lie in steps of 16 bytes along an axis, in reach of 32 bits.

    The extents along which loads and stores go are then whole steps.
    """
    (m, k), n = x.shape[-2:], y.shape[-1]
    unit = 16 // x.element_size()
    for operand in (x, y):
        *outer, row, column = operand.stride()
        strides = sorted((row, column))
        if strides[0] != 1 or strides[1] % unit or strides[1] > WIDEST:
            return False
        if any(step % unit for step in outer):
            return False
    along = (k if x.stride(-1) == 1 else m, n if y.stride(-1) == 1 else k, n)
    multiples = not any(extent % unit for extent in along)
    return multiples and max(m, n, k) <= WIDEST and not (x.data_ptr() % 16 or y.data_ptr() % 16)


def aten_product(
    x: Tensor, y: Tensor, tf32: bool = False, bias: Tensor | None = None,
    out: Tensor | None = None, stored: bool = True,
) -> Tensor:  # fmt: skip
    """Return x @ y, plus a bias per column, by torch's own product with sums in fp32 or wider.

    The bias is added last: `addmm` may start its sums from it, which costs as many roundings of a
    large bias as there are terms. On a CPU, a product in fp32 or fp64 is written to `out`.
    What is not to be `stored` is left as wide as the sums.
    """
    if x.is_cuda:
        z = _cuda_product(torch.mm, x, y, tf32)
    elif x.dtype in NARROW:
        z = torch.mm(wide(x), wide(y))
    else:
        z = torch.mm(x, y, out=out)
    if bias is not None:
        z += bias
    return z.to(x.dtype) if stored and z.dtype is not x.dtype else z


def aten_batched_product(x: Tensor, y: Tensor, tf32: bool = False) -> Tensor:
    """Return x @ y at each place of a batch, by torch's own product with sums in fp32 or wider."""
    if x.is_cuda:
        z = _cuda_product(torch.bmm, x, y, tf32)
    elif x.dtype in NARROW:
        z = torch.bmm(_widened(x), _widened(y))
    else:
        z = torch.bmm(x, y)
    return z if z.dtype is x.dtype else z.to(x.dtype)


def _widened(x: Tensor) -> Tensor:
    """Widen a batch, of which one matrix that is repeated stays one."""
    return wide(x) if x.stride(0) else wide(x[:1]).expand(x.shape)


def _cuda_product(multiply: Callable[..., Tensor], x: Tensor, y: Tensor, tf32: bool) -> Tensor:
    if x.dtype in NARROW:
        return multiply(x, y, out_dtype=torch.float32)
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "tf32" if tf32 else "ieee"
    try:
        return multiply(x, y)
    finally:
        settings.fp32_precision = before
