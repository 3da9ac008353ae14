"""Twin of spec.ops.add_layer_norm.

The kernels are those of fast.ops.layer_norm, which add the residual as they read a row: one launch
makes both results, and the one over dx adds the cotangent of the sum before it rounds. In fp32 the
sum is saved, for it is what was normalized; in 16 bits it has been rounded, so x and the residual
are saved, and added up again. Per row, in fp32, the mean and the root of variance + eps are saved.

A result z to which no cotangent came has one of zeros, so that gamma and beta are reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import lines, residuals
from fast.kernels.rows.residuals import Pair
from fast.ops import layer_norm


def check(x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-5) -> None:
    """Refuse no axis (C1), other parameters (C2), a bad eps (C3) and another residual (C4)."""
    lines.check("add_layer_norm", x, eps, residual, gamma=gamma, beta=beta)


def value(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-5
) -> tuple[Pair, Saved]:
    """Add, and normalize the sum."""
    z, summed, means, roots = layer_norm.normalized(x, residual, gamma, beta, eps)
    return (z, summed), (*residuals.kept(x, residual, summed), gamma, means, roots)


def vjp(saved: Saved, cotangents: tuple[Tensor | None, ...], needs: Sequence[bool]) -> Gradients:
    """Return dx, which is that of the residual too, dgamma and dbeta."""
    if not any(needs):
        return None, None, None, None
    x, residual, gamma, means, roots = saved
    g, h = residuals.handed(x, cotangents[0]), cotangents[1]
    found = layer_norm.pulled(x, residual, gamma, means, roots, g, h, any(needs[2:]))
    return residuals.for_both(found, needs)


def aten_value(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-5
) -> tuple[Pair, Saved]:
    """Add, and normalize the sum."""
    source = residuals.again(x, residual)
    z, (_, _, mean, root) = layer_norm.aten_value(source, gamma, beta, eps=eps)
    summed = source.to(x.dtype)
    return (z.to(x.dtype), summed), (*residuals.kept(x, residual, summed), gamma, mean, root)


def aten_vjp(
    saved: Saved, cotangents: tuple[Tensor | None, ...], needs: Sequence[bool]
) -> Gradients:
    """Return dx, which is that of the residual too, dgamma and dbeta, each where it is needed."""
    x, residual, gamma, mean, root = saved
    source = residuals.again(x, residual)
    g, asked = residuals.handed(x, cotangents[0]), (any(needs[:2]), *needs[2:])
    dx, *affine = layer_norm.aten_vjp((source, gamma, mean, root), g, asked)
    return residuals.for_both((residuals.joined(dx, cotangents[1], x.dtype), *affine), needs)


MOST_KERNELS = 7
"""In 16 bits: a narrow tile and a wide one forward; back as well, with a cotangent of the sum and
without; and the sum of the fp32 partials."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows for the narrow tile, and rows for the wide one."""
    for rows, n in ((3, 7), (64, 1024)):
        line, x = torch.ones(n, dtype=dtype), torch.ones(rows, n, dtype=dtype)
        yield (x, torch.ones_like(x), line, line), {}


op = Op(
    "add_layer_norm", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "residual", "gamma", "beta"), attributes={"eps": 1e-5}, results=2,
)  # fmt: skip
