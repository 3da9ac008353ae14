"""The forms of what normalizes groups of channels (group_norm_kernel.cpp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from equivalence.backends.torch.forms.passing import Gradients, Step, as_they_are, page, stored
from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from spec.op import AnyTensor
from spec.shape import size


def _grouped(ops: Any, x: Any, groups: int) -> Any:
    """See x as rows of a group each."""
    batch, channels, *others = x.shape
    return ops.reshape(x, shape=(batch, groups, size((channels // groups, *others))))


def _middle(ops: Any, x: Any, *, groups: int) -> Any:
    return ops.mean(_grouped(ops, x, groups), axes=(2,), keepdims=True)


def _rate(ops: Any, x: Any, *, groups: int, eps: float) -> Any:
    row = _grouped(ops, x, groups)
    centred = ops.sub(row, ops.broadcast_to(_middle(ops, x, groups=groups), shape=row.shape))
    variance = ops.mean(ops.square(centred), axes=(2,), keepdims=True)
    one, shift = (ops.constant(value, variance.shape, like=x) for value in (1, eps))
    return ops.div(one, ops.sqrt(ops.add(variance, shift)))


def _of_channels(ops: Any, statistic: Any, x: Any) -> Any:
    """Repeat what a group has for each of its channels: [N, C]."""
    batch, channels = x.shape[:2]
    wide = (batch, statistic.shape[1], channels // statistic.shape[1])
    return ops.reshape(ops.broadcast_to(statistic, shape=wide), shape=(batch, channels))


def _in_all(ops: Any, line: Any, x: Any) -> Any:
    """Repeat what a channel of a sample has, [N, C], for all of its entries."""
    column = (*x.shape[:2], *(1 for _ in x.shape[2:]))
    return ops.broadcast_to(ops.reshape(line, shape=column), shape=x.shape)


def _value(ops: Any, x: Any, gamma: Any, beta: Any, *, groups: int, eps: float = 1e-5) -> Any:
    """Return x scale + shift, the shift being beta - mean scale."""
    if not size(x.shape):
        return x
    line = x.shape[:2]
    mean = _of_channels(ops, _middle(ops, x, groups=groups), x)
    rate = _of_channels(ops, _rate(ops, x, groups=groups, eps=eps), x)
    scale = ops.mul(rate, ops.broadcast_to(gamma, shape=line))
    shift = ops.sub(ops.broadcast_to(beta, shape=line), ops.mul(mean, scale))
    return ops.add(ops.mul(x, _in_all(ops, scale, x)), _in_all(ops, shift, x))


def _over_entries(ops: Any, x: Any) -> Any:
    """Add up the entries of each channel of each sample: [N, C]."""
    return ops.sum(ops.reshape(x, shape=(*x.shape[:2], size(x.shape[2:]))), axes=(2,))


def _by_x(ops: Any, x: Any, gamma: Any, g: Any, mean: Any, a: Any) -> Any:
    """Follow the kernel: b = (mean db - ds) a^3 / n and c = -b mean - a db / n."""
    line = ops.broadcast_to(gamma, shape=x.shape[:2])
    ds, db = (
        ops.sum(_grouped(ops, ops.mul(part, line), mean.shape[1]), axes=(2,), keepdims=True)
        for part in (_over_entries(ops, ops.mul(g, x)), _over_entries(ops, g))
    )
    n = ops.constant(size(x.shape[1:]) // mean.shape[1], mean.shape, like=x)
    cube = ops.mul(ops.mul(a, a), a)
    b = ops.div(ops.mul(ops.sub(ops.mul(db, mean), ds), cube), n)
    c = ops.add(ops.mul(b, mean), ops.div(ops.mul(db, a), n))
    first = ops.mul(_in_all(ops, ops.mul(_of_channels(ops, a, x), line), x), g)
    second = ops.mul(_in_all(ops, _of_channels(ops, b, x), x), x)
    return ops.sub(ops.add(first, second), _in_all(ops, _of_channels(ops, c, x), x))


def _by_gamma(ops: Any, x: Any, g: Any, mean: Any, a: Any) -> Any:
    """Add up (ds - db mean) a over the samples, whose parts cancel."""
    ds, db = _over_entries(ops, ops.mul(g, x)), _over_entries(ops, g)
    moved = ops.sub(ds, ops.mul(db, _of_channels(ops, mean, x)))
    return ops.sum(ops.mul(moved, _of_channels(ops, a, x)), axes=(0,))


_STEPS = tuple(
    OPS[name]
    for name in (
        *("add", "sub", "mul", "div", "square", "sqrt", "sum", "mean", "broadcast_to", "reshape"),
    )
)
_VALUE, _MIDDLE, _RATE, _BY_X, _BY_GAMMA = (
    page(program, _STEPS) for program in (_value, _middle, _rate, _by_x, _by_gamma)
)


def _gradients(
    store: Step,
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    groups: int,
    eps: float = 1e-5,
) -> Gradients:
    """Form the gradients from a mean and a rate that are stored in between."""
    x, gamma, _ = inputs
    if not size(x.shape):
        return None, None, None
    mean, a = store(_MIDDLE(x, groups=groups)), store(_RATE(x, groups=groups, eps=eps))
    of_beta = OPS["group_norm"].vjp(inputs, cotangent, groups=groups, eps=eps)[2]
    return _BY_X(x, gamma, cotangent, mean, a), _BY_GAMMA(x, cotangent, mean, a), of_beta


GROUPS: Mapping[str, tuple[Form, ...]] = {
    "group_norm": (Form("x scale + shift", _VALUE, partial(_gradients, as_they_are)),),
}
"""By op: the programs that torch follows at every dtype."""

GROUPS_FROM_STORAGE = Form("x scale + shift", _VALUE, partial(_gradients, stored))
"""The same where numbers have 16 bits, and so have the mean and the rate that it keeps."""
