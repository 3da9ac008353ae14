"""Twin of spec.ops.concat.

One launch per input writes its part of the output. The gradients are views of the cotangent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows import along_axis


def check(*xs: Tensor, axis: int) -> None:
    """Refuse no inputs (C1), an axis (C2), or shapes that differ elsewhere (C3)."""
    if not xs:
        raise Rejected("concat C1: there is at least one input, got none")
    checks.floats("concat", *xs)
    first = xs[0].shape
    at = checks.axis("concat C2", len(first), axis)
    before, behind = first[:at], first[at + 1 :]
    for x in xs[1:]:
        shape = x.shape
        # One that ends before the axis may agree on both sides of it.
        if len(shape) <= at or shape[:at] != before or shape[at + 1 :] != behind:
            raise Rejected(
                f"concat C3: the shapes differ along axis {at} only, "
                f"got {tuple(first)} and {tuple(shape)}"
            )


def value(*xs: Tensor, axis: int) -> tuple[Tensor, Saved]:
    """Copy the inputs, one behind the other."""
    checks.for_kernels(xs[0])
    at = axis % xs[0].dim()
    extents = [x.shape[at] for x in xs]
    *starts, total = accumulate(extents, initial=0)
    z = along_axis.fresh(xs[0], at, total)
    for x, start, extent in zip(xs, starts, extents, strict=True):
        along_axis.place(z, x, at, start, start, start + extent)
    return z, (at, extents)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Cut the cotangent apart; the parts are views."""
    at, extents = saved
    parts = torch.split(cotangent, extents, at)
    return tuple(part if need else None for part, need in zip(parts, needs, strict=True))


def aten_value(*xs: Tensor, axis: int) -> tuple[Tensor, Saved]:
    """Copy the inputs, one behind the other."""
    at = axis % xs[0].dim()
    return torch.cat(xs, at), (at, [x.shape[at] for x in xs])


aten_vjp = vjp


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield many rows, few long rows, and narrow ones."""
    x = torch.ones(16, 512, dtype=dtype)
    yield (x, x[:, 1:]), {"axis": 1}
    yield (x[:2], x[:1]), {"axis": 0}
    yield (x[:, :8],), {"axis": 1}


op = Op(
    "concat", check, value, vjp, aten_value, aten_vjp,
    inputs=("xs",), variadic=True, attributes={"axis": REQUIRED},
)  # fmt: skip
