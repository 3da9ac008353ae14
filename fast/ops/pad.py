"""Twin of spec.ops.pad.

One launch for each axis that grows, of which the last writes the output. The gradient is a view of
the cotangent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows import along_axis


def check(x: Tensor, *, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> None:
    """Refuse widths for other axes (C1) or negative ones (C2), and a value without end (C3)."""
    checks.floats("pad", x)
    if len(before) != x.dim() or len(after) != x.dim():
        raise Rejected(
            f"pad C1: before and after have one entry for each of the {x.dim()} axes, "
            f"got {tuple(before)} and {tuple(after)}"
        )
    if any(type(n) is not int or n < 0 for n in (*before, *after)):
        raise Rejected(
            "pad C2: every entry of before and after is an integer >= 0, "
            f"got {tuple(before)} and {tuple(after)}"
        )
    checks.finite("pad C3", value=value)


def value(
    x: Tensor, *, before: Sequence[int], after: Sequence[int], value: float = 0.0
) -> tuple[Tensor, Saved]:
    """Put the number around x, along one axis after the other."""
    checks.for_kernels(x)
    saved, z = (tuple(before), x.shape), x
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        if first or last:
            extent = first + z.shape[axis] + last
            wide = along_axis.fresh(z, axis, extent)
            along_axis.place(wide, z, axis, first, 0, extent, value)
            z = wide
    return (pointwise.copy(x, wide=False) if z is x else z), saved


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Cut x's part out of the cotangent; it is a view."""
    if not needs[0]:
        return (None,)
    for axis, (first, extent) in enumerate(zip(*saved, strict=True)):
        cotangent = cotangent.narrow(axis, first, extent)
    return (cotangent,)


def aten_value(
    x: Tensor, *, before: Sequence[int], after: Sequence[int], value: float = 0.0
) -> tuple[Tensor, Saved]:
    """Put the number around x."""
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    z = torch.full(shape, value, dtype=x.dtype, device=x.device)
    saved = (tuple(before), x.shape)
    vjp(saved, z, (True,))[0].copy_(x)
    return z, saved


aten_vjp = vjp


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows that grow at both ends, few long rows, narrow ones, and nothing to do."""
    x = torch.ones(16, 512, dtype=dtype)
    yield (x,), {"before": (1, 2), "after": (1, 3), "value": 0.5}
    yield (x[:1],), {"before": (1, 0), "after": (0, 0), "value": 0.5}
    yield (x[:, :8],), {"before": (0, 2), "after": (0, 2)}
    yield (x,), {"before": (0, 0), "after": (0, 0)}


op = Op(
    "pad", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"before": REQUIRED, "after": REQUIRED, "value": 0.0},
)  # fmt: skip
