"""The matrix product that matmul, bmm and linear share: one tile of a result for any strides.

A batch is one more stride of each operand; where it is 0, one matrix is read for all of them.
Programs walk the output tiles in groups of eight rows of tiles, so that tiles that run together
share operands in cache. Sums are fp32, in tile order along the inner extent, whatever the inputs;
a bias is added once, last, and a curve may bend the sum, before the one rounding to storage.
A transposed operand is only a pair of strides, so a VJP needs no copy. Where the result has few
tiles and the inner extent is long, programs of their own walk its parts (fast.kernels.split_k).

Which tile is taken for which GPU, dtype and operands says fast.kernels.tiles, and which of them are
copied first, so that they lie as that GPU reads them fastest. Loads are 128 bits
wide where the operands are aligned to 16 bytes, and 32 bits where 16-bit numbers are to 4.
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
from fast.kernels import checks, tiles
from fast.kernels.split_k import add_parts, cut, scratch
from fast.kernels.turned import turned

TF32: ContextVar[bool] = ContextVar("tf32", default=False)
"""Whether products of fp32 inputs may round them to tf32; a session's precision sets it."""

GROUP = 8
_SIZES = ["m", "n", "k", "length", "biased"]
_STRIDES = ["xm", "xk", "yk", "yn"]


@triton.jit
def _multiple(size, UNIT: tl.constexpr):
    return (size // UNIT * UNIT).to(tl.int32)


@triton.jit
def _tile(
    program, z, x, y, b, biased, m, n, k, xm, xk, yk, yn,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    straight=None, FN: tl.constexpr = None,
):  # fmt: skip
    if UNIT:
        # Written as multiples, so that the compiler knows them to be; tiles fit 32-bit offsets.
        # An extent that no load goes along may be any.
        m = m.to(tl.int32) if X_LAST else _multiple(m, UNIT)
        n = _multiple(n, UNIT)
        k = _multiple(k, UNIT) if X_LAST or not Y_LAST else k.to(tl.int32)
        xm, xk = (_multiple(xm, UNIT), 1) if X_LAST else (1, _multiple(xk, UNIT))
        yk, yn = (_multiple(yk, UNIT), 1) if Y_LAST else (1, _multiple(yn, UNIT))
    STEP: tl.constexpr = UNIT * x.dtype.element_ty.primitive_bitwidth // 8
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
            left = tl.multiple_of(left, (1, STEP) if X_LAST else (STEP, 1))
            right = tl.multiple_of(right, (1, STEP) if Y_LAST else (STEP, 1))
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
        entries = b + (first_j + j)
        if UNIT > 1:
            entries = tl.multiple_of(entries, (STEP,))
        bias = tl.load(entries, mask=columns & given, other=0.0)
        total += bias.to(tl.float32)[None, :]
    if FN is None:
        _store(z, total, first_i, first_j, i, j, rows, columns, n, UNIT, STEP)
    else:
        _bend(FN, z, straight, total, first_i, first_j, i, rows, n, UNIT, STEP)


@triton.jit
def _bend(
    FN: tl.constexpr, z, straight, total, first_i, first_j, i, rows, n,
    UNIT: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    if total.shape[1] > 32:
        # Few columns after others: a curve of all of them at once would spill registers.
        HALF: tl.constexpr = total.shape[1] // 2
        near, far = tl.split(total.reshape(total.shape[0], 2, HALF).permute(0, 2, 1))
        _bend(FN, z, straight, near, first_i, first_j, i, rows, n, UNIT, STEP)
        _bend(FN, z, straight, far, first_i, first_j + HALF, i, rows, n, UNIT, STEP)
    else:
        j = tl.arange(0, total.shape[1])
        columns = j < n - first_j
        if straight is not None:
            _store(straight, total, first_i, first_j, i, j, rows, columns, n, UNIT, STEP)
        _store(z, FN(total), first_i, first_j, i, j, rows, columns, n, UNIT, STEP)


@triton.jit
def _store(
    z, total, first_i, first_j, i, j, rows, columns, n, UNIT: tl.constexpr, STEP: tl.constexpr
):
    z += first_i * n + first_j
    place = z + (i[:, None] * n + j[None, :])
    if UNIT > 1:
        place = tl.multiple_of(place, (1, STEP))
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
    xm: tl.int64, xk: tl.int64, yk: tl.int64, yn: tl.int64,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr, PARTS: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    if PARTS:
        x, y, k = _part(x, y, k, length, xk, yk)
        z += tl.program_id(1) * m * n
    _tile(
        tl.program_id(0), z, x, y, b, biased, m, n, k, xm, xk, yk, yn,
        X_LAST, Y_LAST, UNIT, PRECISION, WIDEN, GROUP, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip


@triton.jit(do_not_specialize=["m", "n", "k", *_STRIDES],
            do_not_specialize_on_alignment=["z", "straight", "x", "y", "b"])  # fmt: skip
def _bent_kernel(
    z, straight, x, y, b, m: tl.int64, n: tl.int64, k: tl.int64,
    xm: tl.int64, xk: tl.int64, yk: tl.int64, yn: tl.int64,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FN: tl.constexpr,
):  # fmt: skip
    _tile(
        tl.program_id(0), z, x, y, b, 1, m, n, k, xm, xk, yk, yn,
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
        program, z + batch * m * n, x, y, None, 0, m, n, k, xm, xk, yk, yn,
        X_LAST, Y_LAST, UNIT, PRECISION, WIDEN, GROUP, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip


def product(
    x: Tensor, y: Tensor, tf32: bool = False, bias: Tensor | None = None, stored: bool = True
) -> Tensor:
    """Return x @ y, plus a bias per column, in fresh contiguous storage.

    What is not to be `stored` in the dtype of x is left in fp32, as its sums are.
    """
    checks.for_kernels(x)
    x, y = turned(x, y, tf32)
    (m, k), n = x.shape, y.shape[1]
    z = torch.empty((m, n), dtype=x.dtype if stored else torch.float32, device=x.device)
    count, meta = _tiled(x, y, tf32)
    parts, length = cut(1, m, n, k, tiles.arithmetic(x, tf32))
    to = z if parts == 1 else scratch(z, parts)
    now = None if bias is None or parts > 1 else _in_steps(bias)
    launch(
        _product_kernel, (count, parts),
        to, x, y, to if now is None else now, int(now is not None), m, n, k, length,
        *x.stride(), *y.stride(), PARTS=parts > 1, **meta,
    )  # fmt: skip
    if parts > 1:
        add_parts(z, to, bias)
    return z


def _in_steps(bias: Tensor) -> Tensor:
    """Return a bias that lies one by one from a multiple of 16 bytes on, copied if need be."""
    if bias.is_contiguous() and not bias.data_ptr() % 16:
        return bias
    return bias.clone(memory_format=torch.contiguous_format)


def bent_product(
    x: Tensor, y: Tensor, bias: Tensor, fn: Any, tf32: bool, keep: bool
) -> tuple[Tensor, Tensor | None]:
    """Return fn(x @ y + bias), and x @ y + bias if it is to be kept; the last launch makes both."""
    checks.for_kernels(x)
    x, y = turned(x, y, tf32)
    (m, k), n = x.shape, y.shape[1]
    z = torch.empty((m, n), dtype=x.dtype, device=x.device)
    straight = torch.empty_like(z) if keep else None
    parts, length = cut(1, m, n, k, tiles.arithmetic(x, tf32))
    count, meta = _tiled(x, y, tf32, bent=parts == 1)
    if parts > 1:
        to = scratch(z, parts)
        launch(
            _product_kernel, (count, parts),
            to, x, y, to, 0, m, n, k, length, *x.stride(), *y.stride(), PARTS=True, **meta,
        )  # fmt: skip
        add_parts(z, to, bias, straight, fn)
    else:
        launch(
            _bent_kernel, (count,),
            z, straight, x, y, _in_steps(bias), m, n, k, *x.stride(), *y.stride(), FN=fn,
            **meta,
        )  # fmt: skip
    return z, straight


def batched_product(x: Tensor, y: Tensor, tf32: bool = False) -> Tensor:
    """Return x @ y at each place of a batch, in fresh contiguous storage."""
    checks.for_kernels(x)
    x, y = turned(x, y, tf32)
    (batch, m, k), n = x.shape, y.shape[2]
    z = torch.empty((batch, m, n), dtype=x.dtype, device=x.device)
    count, meta = _tiled(x, y, tf32)
    parts, length = cut(batch, m, n, k, tiles.arithmetic(x, tf32))
    to = z if parts == 1 else scratch(z, parts)
    launch(
        _batch_kernel, (batch * count, parts),
        to, x, y, m, n, k, length, *x.stride(), *y.stride(), PARTS=parts > 1, **meta,
    )  # fmt: skip
    if parts > 1:
        add_parts(z, to)
    return z


def _tiled(x: Tensor, y: Tensor, tf32: bool, bent: bool = False) -> tuple[int, dict[str, Any]]:
    """Return how many tiles a product of two matrices has, and how they are computed."""
    (m, _), n = x.shape[-2:], y.shape[-1]
    _, tile, unit = tiles.chosen(x, y, tf32)
    half = x.dtype in NARROW
    return -(-m // tile.rows) * -(-n // tile.columns), {
        "X_LAST": unit == 0 or x.stride(-1) == 1, "Y_LAST": unit == 0 or y.stride(-1) == 1,
        "UNIT": unit, "PRECISION": "tf32" if tf32 and not half else "ieee",
        # The interpreter multiplies the bits of bf16 numbers.
        "WIDEN": half and ring() == "interpreted",
        "GROUP": GROUP, "BLOCK_M": tile.rows, "BLOCK_N": tile.columns, "BLOCK_K": tile.inner,
        "num_warps": (bent and tile.bent_warps) or tile.warps, "num_stages": tile.stages,
    }  # fmt: skip


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
