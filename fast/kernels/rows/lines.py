"""What pages share whose parameters have the shape of the last axes: rows, lines, and sums of both.

x is seen as [rows, n], and each parameter as a line of n. A gradient of a line is a sum over the
rows: each program adds what its rows give to a line of fp32 partials of its own, and the lines are
added up in order afterwards, so no atomics are needed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.rows.reduce import SUM, reduce

PROGRAMS = 512
"""The most programs that share the rows, which is the most lines of partials of a gradient."""


def check(
    name: str, x: Tensor, eps: float, residual: Tensor | None = None, **parameters: Tensor
) -> None:
    """Refuse x without an axis (C1), parameters of other shapes (C2), and a bad eps (C3).

    And a residual, if there is one, of another shape than x has (C4).
    """
    if x.dim() < 1:
        raise Rejected(f"{name} C1: x has at least one axis, got a scalar")
    first, *others = parameters.values()
    rank = first.dim()
    alike = all(other.shape == first.shape for other in others)
    if not alike or not 0 < rank <= x.dim() or x.shape[-rank:] != first.shape:
        raise Rejected(
            f"{name} C2: {' and '.join(parameters)} {'have' if others else 'has'} the shape of the "
            f"last axes of x, one or more, got {tuple(x.shape)} and "
            f"{' and '.join(str(tuple(given.shape)) for given in parameters.values())}"
        )
    if not 0 < eps < math.inf:
        raise Rejected(f"{name} C3: eps is finite and > 0, got {eps}")
    if residual is not None and residual.shape != x.shape:
        raise Rejected(
            f"{name} C4: residual has the shape of x, got {tuple(residual.shape)} and "
            f"{tuple(x.shape)}"
        )
    checks.floats(name, *(x,) if residual is None else (x, residual), *parameters.values())


def rows(x: Tensor, axes: int) -> Tensor:
    """See x as [rows, n, 1], its last axes as n, by a view where the strides allow it."""
    cut = x.dim() - axes
    return x.reshape(x.shape[:cut].numel(), x.shape[cut:].numel(), 1)


def line(parameter: Tensor) -> Tensor:
    """See a parameter as [1, n, 1], by a view where the strides allow it."""
    return parameter.reshape(1, parameter.numel(), 1)


def summed(partials: Tensor, like: Tensor) -> Tensor:
    """Add up partials [programs, n] in order: the gradient of a parameter, in its dtype."""
    if partials.shape[0] == 1:
        return partials.to(like.dtype).view(like.shape)
    return reduce(SUM, partials, (0,), like.dtype).view(like.shape)


def down(x: Tensor, like: Tensor) -> Tensor:
    """Add up rows by torch, into what has the shape and the dtype of a parameter."""
    return rows(x, like.dim()).sum(0).view(like.shape).to(like.dtype)


def mean(x: Tensor, axes: int, by: Tensor | None = None) -> Tensor:
    """Average the last axes, which stay with an extent of 1; sums are multiplied by `by` before."""
    gone = tuple(range(-axes, 0))
    total = x.sum(gone, keepdim=True)
    if by is not None:
        total.mul_(by)
    # On a device, torch multiplies by the reciprocal of a number, but divides by a tensor.
    count = x.shape[x.dim() - axes :].numel()
    return total.div_(torch.full_like(total, count) if total.is_cuda else count)
