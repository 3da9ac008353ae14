"""Twin of spec.ops.bmm.

Tiled as matmul (fast.kernels.product), with one more stride for the batch: an operand whose batch
was broadcast by a stride of 0 is read as it is. The VJP is the same kernel on transposed strides.
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
from fast.kernels.product import TF32, aten_batched_product, batched_product
from fast.kernels.split_k import LONG


def check(x: Tensor, y: Tensor) -> None:
    """Refuse anything but two batches of matrices, of one length, whose inner extents are equal."""
    came = f"got {tuple(x.shape)} @ {tuple(y.shape)}"
    if x.dim() != 3 or y.dim() != 3:
        raise Rejected(
            f"bmm C1: both inputs have three axes; a session's matmul takes other ranks; {came}"
        )
    if x.shape[0] != y.shape[0]:
        raise Rejected(
            f"bmm C2: the batch extents are equal, {came}; a session's matmul broadcasts them"
        )
    if x.shape[2] != y.shape[1]:
        raise Rejected(
            f"bmm C3: the inner extents are equal, {came}; y would have {x.shape[2]} rows"
        )
    checks.floats("bmm", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Contract the last axis of x with the middle one of y, at each place of the batch."""
    return batched_product(x, y, TF32.get()), (x, y, TF32.get())


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g @ y^T and x^T @ g at each place."""
    x, y, tf32 = saved
    return (
        batched_product(cotangent, y.transpose(1, 2), tf32) if needs[0] else None,
        batched_product(x.transpose(1, 2), cotangent, tf32) if needs[1] else None,
    )


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Contract the last axis of x with the middle one of y, at each place of the batch."""
    return aten_batched_product(x, y, TF32.get()), (x, y, TF32.get())


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g @ y^T and x^T @ g at each place."""
    x, y, tf32 = saved
    return (
        aten_batched_product(cotangent, y.transpose(1, 2), tf32) if needs[0] else None,
        aten_batched_product(x.transpose(1, 2), cotangent, tf32) if needs[1] else None,
    )


MOST_KERNELS = 46
"""Those of matmul, with a batch."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield matrices of odd extents, and aligned ones for each tile.

    The later ones have an inner axis of parts, in each order; of all tiles but one, once.
    """
    for size in (45, 48, 50, 128):
        yield (torch.ones(2, size, size, dtype=dtype), torch.ones(2, size, size, dtype=dtype)), {}
    thin, even, few = (torch.ones(1, LONG, size, dtype=dtype) for size in (5, 6, 16))
    yield (few[..., ::3].mT, few[..., ::3]), {}
    yield (thin.mT, thin), {}
    yield (even.mT, even), {}
    yield (few.mT, few), {}
    yield (few.mT.contiguous(), few), {}
    yield (few.mT.contiguous(), few.mT.contiguous().mT), {}


op = Op("bmm", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"), plain=True)
