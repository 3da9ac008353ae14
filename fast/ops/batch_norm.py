"""Twin of spec.ops.batch_norm.

The running statistics are buffers of a session, in fp32 also beside 16 bits, which the op updates;
its one result is z.

A program owns some channels and a chunk of the tiles of [samples, channels, entries] that these
have. Where all is one tile it stays in registers, and there is one launch. Else there are three:
the sums of each chunk, the squares of their distances from the mean, and the result. Each program
of the next launch adds up the chunks itself, in their order. How many chunks there are follows
from the shape alone. Saved: x, gamma, and per channel, in fp32, the mean and the root of
variance + eps.

The VJP is one launch or two, in the same way: the sums of each chunk, and dx. No atomics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in, wide
from fast.device.integers import is_number
from fast.device.launch import launch
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows.batchwise import (
    plan,
    shares_kernel,
    sharing,
    sums_kernel,
    value_kernel,
    vjp_kernel,
)
from fast.kernels.rows.channels import added, column, seen


def check(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> None:
    """Refuse what breaks C1 to C5 of the page, and running statistics of another dtype."""
    if x.dim() < 2:
        raise Rejected(f"batch_norm C1: x has axes [N, C, ...], got shape {tuple(x.shape)}")
    channels, given = x.shape[1], (gamma, beta, running_mean, running_var)
    if any(one.shape != (channels,) for one in given):
        raise Rejected(
            f"batch_norm C2: gamma, beta, running_mean and running_var have the shape "
            f"({channels},), got {', '.join(str(tuple(one.shape)) for one in given)}"
        )
    if training and x.shape[0] * x.shape[2:].numel() < 2:
        raise Rejected(
            "batch_norm C3: in training a channel has two entries or more, got shape "
            f"{tuple(x.shape)}"
        )
    if not (is_number(momentum) and 0 <= momentum <= 1):
        raise Rejected(f"batch_norm C4: momentum is a number in [0, 1], got {momentum!r}")
    if not 0 < eps < math.inf:
        raise Rejected(f"batch_norm C5: eps is finite and > 0, got {eps}")
    checks.floats("batch_norm", x, gamma, beta)
    kept_in = (x.dtype, computed_in(x.dtype))
    for name, held in (("running_mean", running_mean), ("running_var", running_var)):
        if held.dtype not in kept_in or held.device != x.device:
            raise Rejected(
                f"batch_norm: {name} is {' or '.join(map(str, dict.fromkeys(kept_in)))} on "
                f"{x.device} beside x, got {held.dtype} on {held.device}"
            )


def value(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[tuple[Tensor | None, ...], Saved]:
    """Centre each channel, divide by the root of its variance, scale and shift."""
    checks.for_kernels(x)
    source, z = seen(x), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    held = running_mean.contiguous(), running_var.contiguous()
    means, roots = (torch.empty(x.shape[1], device=x.device) for _ in range(2))
    moved = tuple(map(torch.empty_like, held))
    if not x.numel():
        means.zero_(), roots.fill_(1.0)
        return (z, *(held if training else (None, None))), (x, gamma, means, roots, training)
    meta, grid, sizes = plan(source, z.view(source.shape))
    alone, where = grid[0] == 1, (*sizes, *source.stride())
    sums = squares = means
    if training and not alone:
        sums, squares = torch.empty((2, grid[0], x.shape[1]), device=x.device).unbind()
        launch(sums_kernel, grid, sums, sums, source, *where, CENTRED=False, **meta)
        launch(sums_kernel, grid, squares, sums, source, *where, CENTRED=True, **meta)
    launch(
        value_kernel, grid, z, means, roots, *moved, source, gamma, beta, *held, sums, squares,
        *where, gamma.stride(0), beta.stride(0), eps, 1 - momentum, momentum,
        TRAINING=training, ALONE=alone, **meta,
    )  # fmt: skip
    return (z, *(moved if training else (None, None))), (x, gamma, means, roots, training)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx, dgamma and dbeta; all are computed if any is needed."""
    if not any(needs):
        return (None,) * 5
    x, gamma, means, roots, training = saved
    source, g = seen(x), seen(cotangent)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dgamma, dbeta = (torch.zeros_like(means, dtype=x.dtype) for _ in range(2))
    if x.numel():
        meta, grid, sizes = plan(source, g, dx.view(source.shape))
        alone, shares = grid[0] == 1, means
        where = (*sizes, *source.stride(), *g.stride(), gamma.stride(0))
        given = source, g, gamma, means, roots
        if not alone:
            shares = torch.empty((4, grid[0], x.shape[1]), device=x.device)
            launch(shares_kernel, grid, shares, *given, *where, **sharing(meta))
        launch(
            vjp_kernel, grid, dx, dgamma, dbeta, *given, shares, *where,
            TRAINING=training, ALONE=alone, **meta,
        )  # fmt: skip
    found = dx, dgamma, dbeta
    return *(one if need else None for one, need in zip(found, needs, strict=False)), None, None


def aten_value(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[tuple[Tensor | None, ...], Saved]:
    """Centre each channel, divide by the root of its variance, scale and shift.

    torch's own kernel forms x scale + shift, which cancels where the mean is large.
    """
    source, entries = wide(x), x.shape[0] * x.shape[2:].numel()
    mean, variance, moved = wide(running_mean), wide(running_var), (None, None)
    if training:
        mean = _over(added(source), entries)
    z = source - column(mean, x)
    if training:
        spread = added(z.square())
        variance = _over(spread, entries)
        moved = (
            _moved(running_mean, mean, momentum),
            _moved(running_var, _over(spread, entries - 1), momentum),
        )
    root = (variance + eps).sqrt_()
    z = z.div_(column(root, x)).mul_(column(gamma, x)).add_(column(beta, x))
    return (z.to(x.dtype), *moved), (x, gamma, mean, root, training)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx, dgamma and dbeta, each where it is needed."""
    x, gamma, mean, root, training = saved
    g, entries = wide(cotangent), x.shape[0] * x.shape[2:].numel()
    dx = dgamma = dbeta = None
    normal = (wide(x) - column(mean, x)).div_(column(root, x)) if any(needs[:2]) else None
    if needs[0]:
        dx = (g * column(gamma, x)).mul_(column(root.reciprocal(), x))
        if training:
            assert normal is not None
            along = _over(added(dx * normal), entries)
            dx = dx.sub(column(_over(added(dx), entries), x))
            dx = dx.addcmul_(normal, column(along, x), value=-1)
        dx = dx.to(x.dtype)
    if normal is not None and needs[1]:
        dgamma = added(g * normal).to(gamma.dtype)
    if needs[2]:
        dbeta = added(g).to(gamma.dtype)
    return dx, dgamma, dbeta, None, None


def _moved(running: Tensor, statistic: Tensor, momentum: float) -> Tensor:
    return (wide(running) * (1 - momentum) + statistic * momentum).to(running.dtype)


def _over(total: Tensor, count: int) -> Tensor:
    """Divide sums by a number."""
    # On a device, torch multiplies by the reciprocal of a number, but divides by a tensor.
    return total / (torch.full_like(total, count) if total.is_cuda else count)


MOST_KERNELS = 33
"""For channels of many entries that are aligned, of some and of few: the result of one tile, of
many and of given statistics, the sums and the squares; dx of the same three, and its sums."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield one tile and many, of many entries, of some and of few, and given statistics."""
    line, held = torch.ones(3, dtype=dtype), torch.ones(3, dtype=computed_in(dtype))
    for shape in ((1, 3, 1024), (3, 3, 1024), (3, 3, 33), (9, 3, 33), (5, 3, 1), (65, 3, 1)):
        x = torch.ones(shape, dtype=dtype)
        yield (x, line, line, held, held), {}
        yield (x, line, line, held, held), {"training": False}


op = Op(
    "batch_norm", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "gamma", "beta", "running_mean", "running_var"), buffers=(3, 4),
    attributes={"training": True, "momentum": 0.1, "eps": 1e-5},
)  # fmt: skip
