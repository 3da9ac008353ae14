"""Twin of spec.ops.flatten.

The output is fresh storage; the gradient is a view of the cotangent where its strides allow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved


def check(x: Tensor, *, start: int = 0, end: int = -1) -> None:
    """Refuse axes out of range (C1), or in the opposite order (C2)."""
    checks.floats("flatten", x)
    rank = max(x.dim(), 1)
    first = checks.axis("flatten C1", rank, start)
    if first > checks.axis("flatten C1", rank, end):
        raise Rejected(f"flatten C2: start is not behind end, got {start} and {end}")


def _flat(shape: torch.Size, start: int, end: int) -> tuple[int, ...]:
    rank = max(len(shape), 1)
    first, behind = start % rank, end % rank + 1
    return (*shape[:first], shape[first:behind].numel(), *shape[behind:])


def value(x: Tensor, *, start: int = 0, end: int = -1) -> tuple[Tensor, Saved]:
    """Copy the entries of x, in row-major order, under the shape with fewer axes."""
    return pointwise.copy(x).view(_flat(x.shape, start, end)), (x.shape,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Read the cotangent under the input's shape."""
    if not needs[0]:
        return (None,)
    rows = cotangent if cotangent.is_contiguous() else pointwise.copy(cotangent)
    return (rows.view(saved[0]),)


def aten_value(x: Tensor, *, start: int = 0, end: int = -1) -> tuple[Tensor, Saved]:
    """Copy the entries of x, in row-major order, under the shape with fewer axes."""
    rows = x.clone(memory_format=torch.contiguous_format)
    return rows.view(_flat(x.shape, start, end)), (x.shape,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Read the cotangent under the input's shape."""
    return (cotangent.reshape(saved[0]) if needs[0] else None,)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a contiguous and a strided input."""
    x = torch.ones(16, 64, dtype=dtype)
    yield (x,), {}
    yield (x.T,), {}


op = Op(
    "flatten", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"start": 0, "end": -1},
)  # fmt: skip
