"""Twin of spec.ops.flip.

Axes that follow each other are reversed as one, so that most calls are one launch. The output and
the gradient are fresh, contiguous storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import along_axis


def check(x: Tensor, *, axes: Sequence[int] | None = None) -> None:
    """Refuse axes out of range (C1) or repeated (C2)."""
    checks.floats("flip", x)
    checks.axes("flip", x.dim(), axes)


def _reversed(x: Tensor, axes: Sequence[int]) -> Tensor:
    checks.for_kernels(x)
    begins = [axis for axis in axes if axis - 1 not in axes]
    ends = [axis + 1 for axis in axes if axis + 1 not in axes]
    for begin, end in zip(sorted(begins), sorted(ends), strict=True):
        x = along_axis.reverse(x, begin, end)
    return x if axes else pointwise.copy(x, wide=False)


def value(x: Tensor, *, axes: Sequence[int] | None = None) -> tuple[Tensor, Saved]:
    """Reverse the axes; they are saved."""
    turned = checks.axes("flip", x.dim(), axes)
    return _reversed(x, turned), (turned,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Reverse once more."""
    return (_reversed(cotangent, saved[0]) if needs[0] else None,)


def aten_value(x: Tensor, *, axes: Sequence[int] | None = None) -> tuple[Tensor, Saved]:
    """Reverse the axes; they are saved."""
    turned = checks.axes("flip", x.dim(), axes)
    return torch.flip(x, turned).contiguous(), (turned,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Reverse once more."""
    return (torch.flip(cotangent, saved[0]) if needs[0] else None,)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield many rows, one long row, and narrow ones."""
    x = torch.ones(16, 512, dtype=dtype)
    yield (x,), {"axes": (0,)}
    yield (x,), {"axes": (0, 1)}
    yield (x[:, :8],), {"axes": (1,)}


op = Op(
    "flip", check, value, vjp, aten_value, aten_vjp, inputs=("x",), attributes={"axes": None},
)  # fmt: skip
