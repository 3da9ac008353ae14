"""Twin of spec.ops.broadcast_to.

The output is fresh storage, not a view with stride 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows.reduce import SUM, reduce


def check(x: Tensor, *, shape: Sequence[int]) -> None:
    """Refuse a shape that x does not broadcast to (C1)."""
    checks.floats("broadcast_to", x)
    target = tuple(shape)
    new = len(target) - x.dim()
    if new < 0 or any(n not in (1, to) for n, to in zip(x.shape, target[new:], strict=True)):
        raise Rejected(
            "broadcast_to C1: aligned right, every extent equals the target's or is 1, "
            f"got {tuple(x.shape)} to {target}"
        )
    if any(extent < 0 for extent in target):
        raise Rejected(f"broadcast_to C1: extents are not negative, got {target}")


def value(x: Tensor, *, shape: Sequence[int]) -> tuple[Tensor, Saved]:
    """Repeat x over the shape."""
    return pointwise.copy(x.expand(tuple(shape)), wide=False), (x.shape,)


def _repeated(source: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    new = len(target) - len(source)
    widened = (new + k for k, n in enumerate(source) if n == 1 and target[new + k] != 1)
    return (*range(new), *widened)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Sum over the axes along which x was repeated."""
    (source,) = saved
    if not needs[0]:
        return (None,)
    axes = _repeated(source, cotangent.shape)
    return (reduce(SUM, cotangent, axes).reshape(source) if axes else cotangent,)


def aten_value(x: Tensor, *, shape: Sequence[int]) -> tuple[Tensor, Saved]:
    """Repeat x over the shape."""
    target = x.expand(tuple(shape))
    return target.clone(memory_format=torch.contiguous_format), (x.shape,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Sum over the axes along which x was repeated."""
    (source,) = saved
    if not needs[0]:
        return (None,)
    axes = _repeated(source, cotangent.shape)
    if not axes:
        return (cotangent,)
    total = cotangent.sum(axes, dtype=computed_in(cotangent.dtype))
    return (total.to(cotangent.dtype).reshape(source),)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a vector repeated over rows, over columns, and over both sides of its axis."""
    x = torch.ones(256, dtype=dtype)
    yield (x,), {"shape": (16, 256)}
    yield (x.reshape(256, 1),), {"shape": (256, 64)}
    yield (x.reshape(256, 1),), {"shape": (4, 256, 64)}


op = Op(
    "broadcast_to", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"shape": REQUIRED},
)  # fmt: skip
