"""Twin of spec.ops.matmul.

Tiled (fast.kernels.product), with fp32 sums in tile order and one rounding to storage; a long inner
axis is summed in parts (fast.kernels.split_k). The VJP is the same kernel on transposed strides.
Saved: x, y, and whether tf32 was allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.product import TF32, aten_product, product
from fast.kernels.split_k import LONG


def check(x: Tensor, y: Tensor) -> None:
    """Refuse anything but two matrices whose inner extents are equal."""
    if x.dim() != 2 or y.dim() != 2:
        raise Rejected(
            "matmul C1: both inputs have two axes; a vector v is a column as v[:, None], a row as "
            f"v[None]; got shapes {tuple(x.shape)}, {tuple(y.shape)}"
        )
    if x.shape[1] != y.shape[0]:
        raise Rejected(
            f"matmul C2: the inner extents are equal, got {tuple(x.shape)} @ {tuple(y.shape)}; "
            f"y would have {x.shape[1]} rows"
        )
    checks.floats("matmul", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Contract the last axis of x with the first of y."""
    return product(x, y, TF32.get()), (x, y, TF32.get())


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g @ y^T and x^T @ g."""
    x, y, tf32 = saved
    return (
        product(cotangent, y.t(), tf32) if needs[0] else None,
        product(x.t(), cotangent, tf32) if needs[1] else None,
    )


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Contract the last axis of x with the first of y."""
    return aten_product(x, y, TF32.get()), (x, y, TF32.get())


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g @ y^T and x^T @ g."""
    x, y, tf32 = saved
    return (
        aten_product(cotangent, y.t(), tf32) if needs[0] else None,
        aten_product(x.t(), cotangent, tf32) if needs[1] else None,
    )


MOST_KERNELS = 46
"""In fp32: one for operands with any strides, and for others each order of two operands in two
tiles, for the whole inner axis and for parts of it, and in the large tile, all in IEEE arithmetic
and in tf32; and two that add the sums of parts. In 16 bits there are four tiles, and one
arithmetic."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield matrices of odd extents, and aligned ones for each tile.

    The later ones have an inner axis of parts, in each order; of all tiles but one, once.
    """
    for size in (45, 48, 50, 128):
        yield (torch.ones(size, size, dtype=dtype), torch.ones(size, size, dtype=dtype)), {}
    thin, even, few = (torch.ones(LONG, size, dtype=dtype) for size in (5, 6, 16))
    yield (few[:, ::3].t(), few[:, ::3]), {}
    yield (thin.t(), thin), {}
    yield (even.t(), even), {}
    yield (few.t(), few), {}
    yield (few.t().contiguous(), few), {}
    yield (few.t().contiguous(), few.t().contiguous().t()), {}


op = Op("matmul", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"), plain=True)
