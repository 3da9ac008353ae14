"""Twin of spec.ops.stack.

One launch per input writes its part of the output. The gradients are views of the cotangent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows import along_axis


def check(*xs: Tensor, axis: int) -> None:
    """Refuse no inputs (C1), a place for an axis (C2), or shapes that differ (C3)."""
    if not xs:
        raise Rejected("stack C1: there is at least one input, got none")
    checks.floats("stack", *xs)
    first = xs[0].shape
    checks.axis("stack C2", len(first) + 1, axis)
    for x in xs[1:]:
        if x.shape != first:
            raise Rejected(
                f"stack C3: all shapes are equal, got {tuple(first)} and {tuple(x.shape)}"
            )


def value(*xs: Tensor, axis: int) -> tuple[Tensor, Saved]:
    """Copy the inputs, each to its place on the new axis."""
    checks.for_kernels(xs[0])
    at = axis % (xs[0].dim() + 1)
    z = along_axis.fresh(xs[0].unsqueeze(at), at, len(xs))
    for k, x in enumerate(xs):
        along_axis.place(z, x.unsqueeze(at), at, k, k, k + 1)
    return z, (at,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Cut the cotangent apart; the parts are views."""
    parts = cotangent.unbind(saved[0])
    return tuple(part if need else None for part, need in zip(parts, needs, strict=True))


def aten_value(*xs: Tensor, axis: int) -> tuple[Tensor, Saved]:
    """Copy the inputs, each to its place on the new axis."""
    at = axis % (xs[0].dim() + 1)
    return torch.stack(xs, at), (at,)


aten_vjp = vjp


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield many rows, few long rows, and narrow ones."""
    x = torch.ones(16, 512, dtype=dtype)
    yield (x, x), {"axis": 1}
    yield (x, x), {"axis": 0}
    yield (x, x), {"axis": 2}


op = Op(
    "stack", check, value, vjp, aten_value, aten_vjp,
    inputs=("xs",), variadic=True, attributes={"axis": REQUIRED},
)  # fmt: skip
