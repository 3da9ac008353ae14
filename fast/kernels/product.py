"""The matrix product that matmul and linear share: one tiled kernel for any strides.

Programs walk the output tiles in groups of eight rows of tiles, so that tiles that run together
share operands in cache. Sums are fp32, in tile order along the inner extent, whatever the inputs;
a bias is added once, last, before the one rounding to storage. A transposed operand is only a pair
of strides, so a VJP needs no copy.

Two tiles: the large one for operands that are aligned and fill it, the small one for all others.
Loads are 128 bits wide where the operands are aligned, in either tile.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import NARROW, wide
from fast.device.launch import launch
from fast.device.mode import ring, tl, triton
from fast.kernels import checks

TF32: ContextVar[bool] = ContextVar("tf32", default=False)
"""Whether products of fp32 inputs may round them to tf32; a session's precision sets it."""

GROUP = 8
WIDEST = 2**23
"""The largest extent and stride for which offsets inside a large tile fit 32 bits."""

# (rows, columns, inner extent, warps) of a tile, by the arithmetic of a product.
_LARGE = {"ieee": (128, 64, 16, 8), "tf32": (128, 128, 32, 8), "half": (128, 128, 64, 8)}
_SMALL = {"ieee": (64, 64, 16, 4), "tf32": (64, 64, 32, 4), "half": (64, 64, 32, 4)}
# Pointers to single elements, of 64 bits each, would fill the registers of four warps.
_UNALIGNED = {"ieee": (64, 64, 16, 4), "tf32": (64, 64, 32, 8), "half": (64, 64, 32, 8)}
_SIZES = ["m", "n", "k", "biased"]
_STRIDES = ["xm", "xk", "yk", "yn", "bn"]


@triton.jit
def _multiple(size, UNIT: tl.constexpr):
    return (size // UNIT * UNIT).to(tl.int32)


@triton.jit(do_not_specialize=[*_SIZES, *_STRIDES],
            do_not_specialize_on_alignment=["z", "x", "y", "b"])  # fmt: skip
def _product_kernel(
    z, x, y, b, biased: tl.int32, m: tl.int64, n: tl.int64, k: tl.int64,
    xm: tl.int64, xk: tl.int64, yk: tl.int64, yn: tl.int64, bn: tl.int64,
    X_LAST: tl.constexpr, Y_LAST: tl.constexpr, UNIT: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    if UNIT > 1:
        # Written as multiples, so that the compiler knows them to be; tiles fit 32-bit offsets.
        m, n, k = _multiple(m, UNIT), _multiple(n, UNIT), _multiple(k, UNIT)
        xm, xk = (_multiple(xm, UNIT), 1) if X_LAST else (1, _multiple(xk, UNIT))
        yk, yn = (_multiple(yk, UNIT), 1) if Y_LAST else (1, _multiple(yn, UNIT))
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = tl.program_id(0) // (GROUP * tiles_n)
    inside = tl.program_id(0) % (GROUP * tiles_n)
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
    # A condition of biased alone is a scalar, which triton 3.9's interpreter spreads as an int32.
    given = tl.full((BLOCK_N,), biased, tl.int32) != 0
    bias = tl.load(b + (first_j + j) * bn, mask=columns & given, other=0.0)
    total += bias.to(tl.float32)[None, :]
    z += first_i * n + first_j
    place = z + (i[:, None] * n + j[None, :])
    if UNIT > 1:
        place = tl.multiple_of(place, (1, 16))
    tl.store(place, total.to(z.dtype.element_ty), mask=rows[:, None] & columns[None, :])


def product(x: Tensor, y: Tensor, tf32: bool = False, bias: Tensor | None = None) -> Tensor:
    """Return x @ y, plus a bias per column, in fresh contiguous storage."""
    checks.for_kernels(x)
    (m, k), n = x.shape, y.shape[1]
    z = torch.empty((m, n), dtype=x.dtype, device=x.device)
    unit = 16 // x.element_size() if _aligned(x, y) else 1
    kind = "half" if x.dtype in NARROW else "tf32" if tf32 else "ieee"
    tiles = _UNALIGNED if unit == 1 else _LARGE if _fills(m, n, k) else _SMALL
    block_m, block_n, block_k, warps = tiles[kind]
    meta: dict[str, Any] = {
        "X_LAST": unit == 1 or x.stride(1) == 1, "Y_LAST": unit == 1 or y.stride(1) == 1,
        "UNIT": unit, "PRECISION": "tf32" if kind == "tf32" else "ieee",
        # The interpreter multiplies the bits of bf16 numbers.
        "WIDEN": kind == "half" and ring() == "interpreted",
        "GROUP": GROUP, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k,
        "num_warps": warps, "num_stages": 3,
    }  # fmt: skip
    launch(
        _product_kernel, (-(-m // block_m) * -(-n // block_n),),
        z, x, y, z if bias is None else bias, int(bias is not None), m, n, k,
        *x.stride(), *y.stride(), 0 if bias is None else bias.stride(0), **meta,
    )  # fmt: skip
    return z


def _fills(m: int, n: int, k: int) -> bool:
    """Say whether both operands are long enough for the large tile."""
    return m >= 128 and n >= 128 and k >= 64


def _aligned(x: Tensor, y: Tensor) -> bool:
    """Say whether both operands lie in steps of 16 bytes along an axis, in reach of 32 bits."""
    (m, k), n = x.shape, y.shape[1]
    unit = 16 // x.element_size()
    for operand in (x, y):
        strides = sorted(operand.stride())
        if strides[0] != 1 or strides[1] % unit or strides[1] > WIDEST:
            return False
    multiples = not (m % unit or n % unit or k % unit)
    return multiples and max(m, n, k) <= WIDEST and not (x.data_ptr() % 16 or y.data_ptr() % 16)


def aten_product(
    x: Tensor,
    y: Tensor,
    tf32: bool = False,
    bias: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return x @ y, plus a bias per column, by torch's own product with sums in fp32 or wider.

    The bias is added last: `addmm` may start its sums from it, which costs as many roundings of a
    large bias as there are terms. On a CPU, a product in fp32 or fp64 is written to `out`.
    """
    if x.is_cuda:
        z = _cuda_product(x, y, tf32)
    elif x.dtype in NARROW:
        z = torch.mm(wide(x), wide(y))
    else:
        z = torch.mm(x, y, out=out)
    if bias is not None:
        z += bias
    return z if z.dtype is x.dtype else z.to(x.dtype)


def _cuda_product(x: Tensor, y: Tensor, tf32: bool) -> Tensor:
    if x.dtype in NARROW:
        return torch.mm(x, y, out_dtype=torch.float32)
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "tf32" if tf32 else "ieee"
    try:
        return torch.mm(x, y)
    finally:
        settings.fp32_precision = before
