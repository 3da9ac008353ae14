"""Twin of spec.ops.reshape.

The output is fresh storage; the gradient is a view of the cotangent where its strides allow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved


def check(x: Tensor, *, shape: Sequence[int]) -> None:
    """Refuse negative extents (C2) and another size (C1)."""
    checks.floats("reshape", x)
    target = tuple(shape)
    checks.extents("reshape C2", target)
    if prod(target) != x.numel():
        raise Rejected(
            f"reshape C1: both shapes have the same size, got {tuple(x.shape)} with {x.numel()} "
            f"entries to {target} with {prod(target)}"
        )


def value(x: Tensor, *, shape: Sequence[int]) -> tuple[Tensor, Saved]:
    """Copy the entries of x, in row-major order, under the new shape."""
    return pointwise.copy(x).view(tuple(shape)), (x.shape,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Read the cotangent under the input's shape."""
    if not needs[0]:
        return (None,)
    rows = cotangent if cotangent.is_contiguous() else pointwise.copy(cotangent)
    return (rows.view(saved[0]),)


def aten_value(x: Tensor, *, shape: Sequence[int]) -> tuple[Tensor, Saved]:
    """Copy the entries of x, in row-major order, under the new shape."""
    return x.clone(memory_format=torch.contiguous_format).view(tuple(shape)), (x.shape,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Read the cotangent under the input's shape."""
    return (cotangent.reshape(saved[0]) if needs[0] else None,)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a contiguous and a strided input."""
    x = torch.ones(16, 64, dtype=dtype)
    yield (x,), {"shape": (1024,)}
    yield (x.T,), {"shape": (8, 128)}


op = Op(
    "reshape", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"shape": REQUIRED},
)  # fmt: skip
