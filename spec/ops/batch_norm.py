"""Normalize each channel over the batch, and keep running statistics of what came.

    n           = number of entries of x[:, c, ...]
    mu[c], v[c] = mean of x[i, c, k] over i and k, and of (x[i, c, k] - mu[c])^2
    running_mean'[c] = (1 - momentum) running_mean[c] + momentum mu[c]
    running_var'[c]  = (1 - momentum) running_var[c] + momentum v[c] n / (n - 1)
    z[i, c, k]  = gamma[c] * (x[i, c, k] - mu[c]) / sqrt(v[c] + eps) + beta[c]

Where not training, mu and v are the running statistics, which stay as they were.

C1  x has axes [N, C, ...]: a batch, channels, and any others, or none.
C2  gamma, beta, running_mean and running_var have the shape (C,).
C3  in training a channel has two entries or more.
C4  momentum is a number in [0, 1].
C5  eps is finite and > 0.

The normal form divides by the population variance, formed from the centred entries; the running
variance takes the unbiased one. The running statistics are constants to every derivative: neither
they nor what becomes of them has a gradient.

Reference: Ioffe and Szegedy, 2015, algorithms 1 and 2; PyTorch's batch_norm.

>>> from spec.tensor import tensor
>>> one, zero = tensor([1.0]), tensor([0.0])
>>> op(tensor([[3.0], [-3.0]]), one, zero, zero, one, eps=7.0)
Tensor([0.75, -0.75, 0.0, 2.7])
"""

# This file is longer than the guide because it is two modes of one op, and has three results.

from __future__ import annotations

import math
from typing import Any

from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.detach import op as detach
from spec.ops.div import op as div
from spec.ops.mul import op as mul
from spec.ops.reshape import op as reshape
from spec.ops.scale import op as scale
from spec.ops.sqrt import op as sqrt
from spec.ops.square import op as square
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_
from spec.refusals import Miss
from spec.several import several
from spec.shape import size
from spec.worlds import is_number


def types(
    x: Type,
    gamma: Type,
    beta: Type,
    running_mean: Type,
    running_var: Type,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> dict[str, Type]:
    """Accept channels (C1), four numbers of each (C2), entries to average (C3) and C4, C5."""
    if len(x.shape) < 2:
        raise refuse("batch_norm C1", "x has axes [N, C, ...]", x)
    batch, channels, *others = x.shape
    given = (gamma, beta, running_mean, running_var)
    if any(one.shape != (channels,) for one in given):
        rule = f"gamma, beta, running_mean and running_var have the shape ({channels},)"
        raise refuse("batch_norm C2", rule, ", ".join(map(str, given)))
    if training and size((batch, *others)) < 2:
        raise refuse("batch_norm C3", "in training a channel has two entries or more", x)
    if not (is_number(momentum) and 0 <= momentum <= 1):
        raise refuse("batch_norm C4", "momentum is a number in [0, 1]", momentum)
    if not 0 < eps < math.inf:
        raise refuse("batch_norm C5", "eps is finite and > 0", eps)
    return {"z": x, "running_mean": running_mean, "running_var": running_var}


def program(
    ops: Any,
    x: Any,
    gamma: Any,
    beta: Any,
    running_mean: Any,
    running_var: Any,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    """Centre each channel, divide by the root of a variance, scale and shift."""
    batch, channels, *others = x.shape
    entries, line, axes = size((batch, *others)), (channels,), (0, *range(2, len(x.shape)))

    def in_all(one: Any) -> Any:
        column = ops.reshape(one, shape=(channels, *(1 for _ in others)))
        return ops.broadcast_to(column, shape=x.shape)

    def averaged(total: Any, number: int) -> Any:
        return ops.div(total, ops.constant(number, line, like=x))

    def moved(running: Any, statistic: Any) -> Any:
        kept = ops.scale(running, c=1 - momentum)
        return ops.detach(ops.add(kept, ops.scale(statistic, c=momentum)))

    mean, variance = ops.detach(running_mean), ops.detach(running_var)
    left = mean, variance
    if training:
        mean = averaged(ops.sum(x, axes=axes), entries)
    centred = ops.sub(x, in_all(mean))
    if training:
        squares = ops.sum(ops.square(centred), axes=axes)
        variance = averaged(squares, entries)
        left = moved(running_mean, mean), moved(running_var, averaged(squares, entries - 1))
    root = ops.sqrt(ops.add(variance, ops.constant(eps, line, like=x)))
    normal = ops.div(centred, in_all(root))
    return ops.add(ops.mul(normal, in_all(gamma)), in_all(beta)), *left


_LINES = ([2.0], [0.5], [1.0], [4.0])
_PAIR, _FLAT = [[3.0], [-3.0]], [[[6144.0] * 8]] * 2
_NOT, _SEVEN = {"training": False, "eps": 5.0}, {"eps": 7.0, "momentum": 0.5}
_GIVEN = {**_NOT, "momentum": 0.25}

EDGES = (
    Edge((_PAIR, *_LINES), ([2.0, -1.0, 0.5, 11.0],), "IEEE", "a batch of two", None, _SEVEN),
    Edge(
        (_FLAT, *_LINES),
        ([0.5] * 16 + [6144.0, 0.0],),
        "IEEE",
        "a constant channel gives beta, and is kept whole by a momentum of 1",
        attributes={"momentum": 1},
    ),
    Edge(([[4.0]], *_LINES), ([2.5, 1.0, 4.0],), "IEEE", "statistics that are given", None, _GIVEN),
    Edge(
        ([[4.0]], *_LINES),
        (([[2.0]], [3.0], [3.0], [0.0], [0.0]),),
        "CHOICE",
        "to them nothing passes",
        [3.0, math.inf, math.nan],
        _NOT,
    ),
    Edge(([[], []], [], [], [], []), ([],), "IEEE", "no channels", None, _NOT),
)

_LINE = ([1.0],) * 4
REFUSED = (
    Miss("C1", ([1.0, 2.0], *_LINE)),
    *(Miss("C2", (_PAIR, *_LINE[:k], [1.0, 2.0], *_LINE[k + 1 :])) for k in range(4)),
    Miss("C2", (_PAIR, *_LINE[:3], [[1.0]])),
    Miss("C3", ([[1.0]], *_LINE)),
    *(Miss("C4", (_PAIR, *_LINE), {"momentum": m}) for m in (-0.1, 1.5, math.nan, None, True)),
    *(Miss("C5", (_PAIR, *_LINE), {"eps": eps}) for eps in (0.0, -1e-5, math.inf, math.nan)),
)

TRIED = {
    "eps": (1e-5, 1e-3, 1e-8, 1.0),
    "momentum": (0.1, 0.0, 1.0, 0.5),
    "training": (True, False),
}
_REST = "training, momentum, eps"
_MADE = (
    "torch.ops.aten._native_batch_norm_legit_functional"
    f"(x, gamma, beta, running_mean, running_var, {_REST})"
)
ELSEWHERE = Elsewhere(
    f"torch.nn.functional.batch_norm(x, running_mean, running_var, gamma, beta, {_REST})",
    None,
    formula=f"torch.cat([{_MADE}[0].flatten(), *{_MADE}[3:]])",
)

op = several(
    "batch_norm",
    types,
    program,
    (sum_, div, reshape, broadcast_to, sub, square, scale, add, detach, sqrt, mul),
    buffers=(3, 4),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
