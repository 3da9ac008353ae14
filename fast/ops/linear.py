"""Twin of spec.ops.linear.

The tiled product of fast.kernels.product on flattened leading axes, the bias added once in its
epilogue. The VJP is two such products on transposed strides, and the sum of the cotangent's rows.
Saved: x, w, and whether tf32 was allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from fast.device.dtypes import NARROW, computed_in
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Places, Saved
from fast.kernels.product import TF32, aten_product, product
from fast.kernels.rows.reduce import SUM, reduce
from fast.kernels.split_k import LONG


def fitting(name: str, x: Tensor, w: Tensor, b: Tensor) -> None:
    """Refuse, as the op of this name, what is no x [..., in], w [out, in] and b [out]."""
    rows, matrix, bias = x.shape, w.shape, b.shape
    if len(matrix) != 2 or len(bias) != 1 or not rows:
        raise Rejected(
            f"{name} C1: takes x [..., in], w [out, in] and b [out], got shapes "
            f"{tuple(rows)}, {tuple(matrix)} and {tuple(bias)}"
        )
    if rows[-1] != matrix[1]:
        raise Rejected(
            f"{name} C2: the last extent of x is that of w, got {rows[-1]} and {matrix[1]}"
        )
    if bias[0] != matrix[0]:
        raise Rejected(
            f"{name} C3: b has one element per row of w, got {bias[0]} for {matrix[0]} rows"
        )
    checks.floats(name, x, w, b)


check = partial(fitting, "linear")


def value(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Saved]:
    """Multiply by w transposed and add the bias to every row."""
    tf32 = TF32.get()
    z = product(matrix_of(x), w.t(), tf32, bias=b)
    return z.view(*x.shape[:-1], w.shape[0]), (x, w, tf32)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g @ w, g^T @ x, and the sum of the rows of g."""
    x, w, tf32 = saved
    g = matrix_of(cotangent)
    return (
        product(g, w, tf32).view(x.shape) if needs[0] else None,
        product(g.t(), matrix_of(x), tf32) if needs[1] else None,
        reduce(SUM, g, (0,), g.dtype) if needs[2] else None,
    )


def aten_value(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Saved]:
    """Multiply by w transposed and add the bias to every row."""
    tf32 = TF32.get()
    if x.is_cpu and x.dim() == 2 and x.dtype not in NARROW:
        z = functional.linear(x, w)
        z += b
        return z, (x, w, tf32)
    z = aten_product(matrix_of(x), w.t(), tf32, bias=b)
    return z if x.dim() == 2 else z.view(*x.shape[:-1], w.shape[0]), (x, w, tf32)


def aten_vjp(
    saved: Saved, cotangent: Tensor, needs: Sequence[bool], places: Places = (None, None, None)
) -> Gradients:
    """Return g @ w, g^T @ x, and the sum of the rows of g, the last two where a place is given."""
    x, w, tf32 = saved
    g = matrix_of(cotangent)
    dx = dw = db = None
    if needs[0]:
        dx = aten_product(g, w, tf32)
        dx = dx if x.dim() == 2 else dx.view(x.shape)
    if needs[1]:
        dw = aten_product(g.t(), matrix_of(x), tf32, out=places[1])
    if needs[2]:
        if g.dtype in NARROW:
            db = g.sum(0, dtype=computed_in(g.dtype)).to(g.dtype)
        else:
            db = torch.sum(g, 0, out=places[2])
    return dx, dw, db


def matrix_of(x: Tensor) -> Tensor:
    """Flatten the leading axes, by a view where the strides allow it."""
    return x if x.dim() == 2 else x.reshape(x.shape[:-1].numel(), x.shape[-1])


MOST_KERNELS = 48
"""Those of matmul, and two for sums of rows."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield matrices of odd extents, and aligned ones for each tile.

    The later ones have in turn as many inputs, outputs and rows as make parts; of pairs, as many
    rows.
    """
    for size in (45, 48, 50, 128):
        square = torch.ones(size, size, dtype=dtype)
        yield (square, square, torch.ones(size, dtype=dtype)), {}
    for rows, inputs, outputs in (
        (LONG, 5, 5), (5, LONG, 5), (LONG, 6, 6), (LONG, 16, 16), (16, LONG, 16), (16, 16, LONG),
    ):  # fmt: skip
        x, w = torch.ones(rows, inputs, dtype=dtype), torch.ones(outputs, inputs, dtype=dtype)
        yield (x, w, torch.ones(outputs, dtype=dtype)), {}


op = Op(
    "linear", check, value, vjp, aten_value, aten_vjp, inputs=("x", "w", "b"),
    plain=True, aten_writes=True,
)  # fmt: skip
