"""Normalize groups of channels to mean 0 and variance 1, then scale and shift channels.

    mu[i, j]   = mean of x[i, c, ...] over the channels c of group j and all further axes
    var[i, j]  = mean of (x[i, c, ...] - mu[i, j])^2 over the same
    z[i, c, k] = gamma[c] * (x[i, c, k] - mu[i, j]) / sqrt(var[i, j] + eps) + beta[c]

C1  x has axes [N, C, ...]: a batch, channels, and any others, or none.
C2  groups is an integer >= 1 that divides C: group j has the j-th C / groups channels.
C3  gamma and beta have the shape (C,).
C4  eps is finite and > 0.

With as many groups as channels it is the instance norm, which a session has under that name.
The variance is the population variance, formed from the centred entries; eps is inside the root.
Of a group of one entry the result is beta, and dx and dgamma are exactly 0.
The page always has gamma and beta. A session without them fills in ones and zeros.

Reference: Wu and He, 2018, section 3.1; Ulyanov, Vedaldi and Lempitsky, 2016; PyTorch's group_norm.

>>> from spec.tensor import tensor
>>> op(tensor([[3.0, -3.0, 15.0, 9.0]]), tensor([1.0] * 4), tensor([0.0] * 4), groups=2, eps=7.0)
Tensor([[0.75, -0.75, 0.75, -0.75]])
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.div import op as div
from spec.ops.mean import op as mean
from spec.ops.mul import op as mul
from spec.ops.reshape import op as reshape
from spec.ops.sqrt import op as sqrt
from spec.ops.square import op as square
from spec.ops.sub import op as sub
from spec.refusals import Miss
from spec.shape import size


def type_rule(x: Type, gamma: Type, beta: Type, *, groups: int, eps: float = 1e-5) -> Type:
    """Accept channels (C1) in equal groups (C2), a gamma and a beta of each (C3), an eps (C4)."""
    if len(x.shape) < 2:
        raise refuse("group_norm C1", "x has axes [N, C, ...]", x)
    channels = x.shape[1]
    if type(groups) is not int or groups < 1 or channels % groups:
        rule = "groups is an integer >= 1 that divides the number of channels"
        raise refuse("group_norm C2", rule, f"groups={groups!r} for {channels} channels")
    if gamma.shape != (channels,) or beta.shape != (channels,):
        rule = f"gamma and beta have the shape ({channels},)"
        raise refuse("group_norm C3", rule, f"gamma {gamma}, beta {beta}")
    if not 0 < eps < math.inf:
        raise refuse("group_norm C4", "eps is finite and > 0", eps)
    return x


def program(ops: Any, x: Any, gamma: Any, beta: Any, *, groups: int, eps: float = 1e-5) -> Any:
    """See each group as a row, normalize it, and scale and shift the channels."""
    if size(x.shape) == 0:
        return x
    batch, channels, *others = x.shape
    rows = (batch, groups, size((channels // groups, *others)))
    row = ops.reshape(x, shape=rows)
    middle = ops.mean(row, axes=(2,), keepdims=True)
    centred = ops.sub(row, ops.broadcast_to(middle, shape=rows))
    variance = ops.mean(ops.square(centred), axes=(2,), keepdims=True)
    deviation = ops.sqrt(ops.add(variance, ops.constant(eps, variance.shape, like=x)))
    normal = ops.div(centred, ops.broadcast_to(deviation, shape=rows))

    def of_channels(parameter: Any) -> Any:
        column = ops.reshape(parameter, shape=(channels, *(1 for _ in others)))
        return ops.broadcast_to(column, shape=x.shape)

    scaled = ops.mul(ops.reshape(normal, shape=x.shape), of_channels(gamma))
    return ops.add(scaled, of_channels(beta))


_ONE, _TWO, _ROW, _PAIR = {"groups": 1}, {"groups": 2}, [[1.0, 2.0, 3.0]], [1.0, 2.0]
_SINGLE, _LESS = (([[4.0, 7.0], [one, -3.0]], [3.0, 5.0], [0.5, 2.0]) for one in (1e4, 9.0))
_BACK, _G = (([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0], [3.0, 5.0]),), [[1.0, 1.0], [2.0, 4.0]]
_FLAT = ([[[6144.0] * 16] * 4, [[3.0] * 16] * 4], [2.0] * 4, [0.25, 0.5, 0.75, 1.0])
_BETA = [[0.25] * 16, [0.5] * 16, [0.75] * 16, [1.0] * 16]

EDGES = (
    Edge(_SINGLE, ([[0.5, 2.0]] * 2,), "IEEE", "a group of one entry gives beta", None, _TWO),
    Edge(_LESS, _BACK, "IEEE", "of groups of one entry, dx and dgamma are exactly 0", _G, _TWO),
    Edge(_FLAT, ([_BETA] * 2,), "IEEE", "constant groups", None, _TWO),
    Edge(([[], []], [], []), ([[], []],), "IEEE", "nothing stays nothing", None, _TWO),
)

REFUSED = (
    Miss("C1", ([1.0], [1.0], [1.0]), _ONE),
    *(Miss("C2", (_ROW, *_ROW, *_ROW), {"groups": count}) for count in (2, 0, -1, True, 1.0)),
    Miss("C3", ([_PAIR], [1.0], _PAIR), _ONE),
    Miss("C3", ([_PAIR], _PAIR, [1.0]), _ONE),
    Miss("C3", ([_PAIR], _PAIR, [_PAIR]), _ONE),
    Miss("C4", ([_PAIR], _PAIR, _PAIR), {**_ONE, "eps": 0.0}),
    Miss("C4", ([_PAIR], _PAIR, _PAIR), {**_ONE, "eps": -1e-5}),
    Miss("C4", ([_PAIR], _PAIR, _PAIR), {**_ONE, "eps": math.inf}),
    Miss("C4", ([_PAIR], _PAIR, _PAIR), {**_ONE, "eps": math.nan}),
)

TRIED = {"eps": (1e-5, 1e-3, 1e-8, 1.0)}
_CALL = "group_norm(x, groups, gamma, beta, eps=eps)"
ELSEWHERE = Elsewhere(f"torch.nn.functional.{_CALL}", None, formula=f"torch.{_CALL}")

op = composite(
    "group_norm",
    type_rule,
    program,
    (reshape, mean, broadcast_to, sub, square, add, sqrt, div, mul),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
