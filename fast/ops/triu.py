"""Twin of spec.ops.triu.

What is not kept is not read either. The output and the gradient are fresh, contiguous storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import along_axis


def check(x: Tensor, *, diagonal: int = 0) -> None:
    """Refuse what has no rows and columns (C1), and a diagonal that is no integer (C2)."""
    checks.triangle("triu", x, diagonal)


def value(x: Tensor, *, diagonal: int = 0) -> tuple[Tensor, Saved]:
    """Copy the upper triangle; the diagonal is saved."""
    checks.for_kernels(x)
    return along_axis.triangle(x, diagonal, upper=True), (diagonal,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Keep the same of the cotangent."""
    return (along_axis.triangle(cotangent, saved[0], upper=True) if needs[0] else None,)


def aten_value(x: Tensor, *, diagonal: int = 0) -> tuple[Tensor, Saved]:
    """Copy the upper triangle; the diagonal is saved."""
    within = checks.within(diagonal, x.shape)
    return torch.triu(x, within).contiguous(), (within,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Keep the same of the cotangent."""
    return (torch.triu(cotangent, saved[0]) if needs[0] else None,)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield wide matrices and narrow ones."""
    x = torch.ones(2, 16, 512, dtype=dtype)
    yield (x,), {"diagonal": 1}
    yield (x[:, :, :8],), {"diagonal": -1}


op = Op(
    "triu", check, value, vjp, aten_value, aten_vjp, inputs=("x",), attributes={"diagonal": 0},
)  # fmt: skip
