"""Twin of spec.ops.add_rms_norm.

The kernels are those of fast.ops.rms_norm, which add the residual as they read a row: one launch
makes both results, and the one over dx adds the cotangent of the sum before it rounds. In fp32 the
sum is saved, for it is what was normalized; in 16 bits it has been rounded, so x and the residual
are saved, and added up again. Per row, in fp32, one over the root is saved.

A result z to which no cotangent came has one of zeros, so that gamma is reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import lines, residuals
from fast.kernels.rows.residuals import Pair
from fast.ops import rms_norm


def check(x: Tensor, residual: Tensor, gamma: Tensor, *, eps: float = 2**-23) -> None:
    """Refuse no axis (C1), another gamma (C2), a bad eps (C3) and another residual (C4)."""
    lines.check("add_rms_norm", x, eps, residual, gamma=gamma)


def value(x: Tensor, residual: Tensor, gamma: Tensor, *, eps: float = 2**-23) -> tuple[Pair, Saved]:
    """Add, and normalize the sum."""
    z, summed, overs = rms_norm.normalized(x, residual, gamma, eps)
    return (z, summed), (*residuals.kept(x, residual, summed), gamma, overs)


def vjp(saved: Saved, cotangents: tuple[Tensor | None, ...], needs: Sequence[bool]) -> Gradients:
    """Return dx, which is that of the residual too, and dgamma."""
    if not any(needs):
        return None, None, None
    x, residual, gamma, overs = saved
    g, h = residuals.handed(x, cotangents[0]), cotangents[1]
    dx, partials = rms_norm.pulled(x, residual, gamma, overs, g, h)
    dgamma = lines.summed(partials, gamma) if needs[2] else None
    return residuals.for_both((dx, dgamma), needs)


def aten_value(
    x: Tensor, residual: Tensor, gamma: Tensor, *, eps: float = 2**-23
) -> tuple[Pair, Saved]:
    """Add, and normalize the sum."""
    source = residuals.again(x, residual)
    z, (_, _, over) = rms_norm.aten_value(source, gamma, eps=eps)
    summed = source.to(x.dtype)
    return (z.to(x.dtype), summed), (*residuals.kept(x, residual, summed), gamma, over)


def aten_vjp(
    saved: Saved, cotangents: tuple[Tensor | None, ...], needs: Sequence[bool]
) -> Gradients:
    """Return dx, which is that of the residual too, and dgamma, each where it is needed."""
    x, residual, gamma, over = saved
    source = residuals.again(x, residual)
    g, asked = residuals.handed(x, cotangents[0]), (any(needs[:2]), needs[2])
    dx, dgamma = rms_norm.aten_vjp((source, gamma, over), g, asked)
    return residuals.for_both((residuals.joined(dx, cotangents[1], x.dtype), dgamma), needs)


MOST_KERNELS = 7
"""In 16 bits: a narrow tile and a wide one forward; back as well, with a cotangent of the sum and
without; and the sum of the fp32 partials."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows for the narrow tile, and rows for the wide one."""
    for rows, n in ((3, 7), (64, 1024)):
        x = torch.ones(rows, n, dtype=dtype)
        yield (x, torch.ones_like(x), torch.ones(n, dtype=dtype)), {}


op = Op(
    "add_rms_norm", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "residual", "gamma"), attributes={"eps": 2**-23}, results=2,
)  # fmt: skip
