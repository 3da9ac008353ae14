"""Twin of spec.ops.permute.

The output is fresh, contiguous storage; the gradient is a view of the cotangent.
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


def check(x: Tensor, *, axes: Sequence[int]) -> None:
    """Refuse axes that are not a permutation (C1)."""
    checks.floats("permute", x)
    rank = x.dim()
    whole = all(isinstance(axis, int) and -rank <= axis < rank for axis in axes)
    if not whole or sorted(axis % rank for axis in axes) != list(range(rank)):
        raise Rejected(
            f"permute C1: axes names each of the {rank} axes exactly once, got {tuple(axes)}"
        )


def value(x: Tensor, *, axes: Sequence[int]) -> tuple[Tensor, Saved]:
    """Copy x with its axes in the new order."""
    return pointwise.copy(x.permute(tuple(axes))), (tuple(axes),)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Permute back."""
    if not needs[0]:
        return (None,)
    order = [axis % cotangent.dim() for axis in saved[0]]
    back = sorted(range(len(order)), key=order.__getitem__)
    return (cotangent.permute(back),)


def aten_value(x: Tensor, *, axes: Sequence[int]) -> tuple[Tensor, Saved]:
    """Copy x with its axes in the new order."""
    return x.permute(tuple(axes)).clone(memory_format=torch.contiguous_format), (tuple(axes),)


aten_vjp = vjp


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a matrix to transpose, and one to leave as it is."""
    x = torch.ones(16, 64, dtype=dtype)
    yield (x,), {"axes": (1, 0)}
    yield (x,), {"axes": (0, 1)}


op = Op(
    "permute", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": REQUIRED},
)  # fmt: skip
