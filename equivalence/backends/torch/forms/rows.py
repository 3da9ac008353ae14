"""The forms of reductions, and of what reduces rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from equivalence.backends.torch.forms.passing import page
from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from equivalence.worlds.storage import narrowly, saved
from spec.axes import kept_index, reduction, split_axes
from spec.kinds import linear, same_shape
from spec.op import AnyTensor, Type
from spec.scalar import (
    absolute,
    divide,
    exp,
    is_zero,
    select,
    sqrt,
    square,
    sum_over,
    zero_like,
)
from spec.several import JOIN, unpacked
from spec.shape import size
from spec.tensor import tabulate, zip_map

Gradients = tuple[AnyTensor | None, ...]


def _layer_norm_from_storage(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, eps: float = 1e-5
) -> Gradients:
    """Follow torch's kernel for 16 bits (layer_norm_kernel.cpp, LayerNormBackward...Internal).

    It reads the mean and a = 1 / sqrt(var + eps) as they were stored, in the format of storage, and
    adds up the shares of gamma and beta in that format as well.
    """
    x, gamma, _ = inputs
    if not size(x.shape):
        return None, None, None
    axes = _axes_of(gamma)
    mean = OPS["mean"].value(x, axes=axes, keepdims=True)
    statistics = mean.map(saved), _RATE(x, axes=axes, eps=eps).map(saved)
    return (
        _BY_X(x, gamma, cotangent, *statistics),
        _over_rows(_BY_GAMMA(x, cotangent, *statistics), axes),
        _over_rows(cotangent, axes),
    )


def _axes_of(gamma: Any) -> tuple[int, ...]:
    """Return the last axes, those of gamma."""
    return tuple(range(-len(gamma.shape), 0))


def _over_rows(share: AnyTensor, axes: tuple[int, ...]) -> AnyTensor:
    """Add up the shares of all rows in the format of storage."""
    rows, _ = split_axes(share.rank, axes)
    if not rows:
        return share
    total, magnitudes = (OPS["sum"].value(t, axes=rows) for t in (share, share.map(absolute)))
    count = math.prod(share.shape[: len(rows)])
    return zip_map(lambda t, m: narrowly(t, m, count), total, magnitudes)


def _rate(ops: Any, x: Any, *, axes: tuple[int, ...], eps: float) -> Any:
    mean = ops.mean(x, axes=axes, keepdims=True)
    centred = ops.sub(x, ops.broadcast_to(mean, shape=x.shape))
    variance = ops.mean(ops.square(centred), axes=axes, keepdims=True)
    one, shift = (ops.constant(value, variance.shape, like=x) for value in (1, eps))
    return ops.div(one, ops.sqrt(ops.add(variance, shift)))


def _by_x(ops: Any, x: Any, gamma: Any, g: Any, mean: Any, a: Any) -> Any:
    """Follow the kernel: b = (mean db - ds) a^3 / n and c = -b mean - a db / n."""
    scaled, axes = ops.mul(g, ops.broadcast_to(gamma, shape=x.shape)), _axes_of(gamma)
    ds = ops.sum(ops.mul(scaled, x), axes=axes, keepdims=True)
    db = ops.sum(scaled, axes=axes, keepdims=True)
    n = ops.constant(size(gamma.shape), mean.shape, like=x)
    cube = ops.mul(ops.mul(a, a), a)
    b = ops.div(ops.mul(ops.sub(ops.mul(db, mean), ds), cube), n)
    c = ops.add(ops.mul(b, mean), ops.div(ops.mul(db, a), n))
    first = ops.mul(ops.broadcast_to(a, shape=x.shape), scaled)
    second = ops.mul(ops.broadcast_to(b, shape=x.shape), x)
    return ops.sub(ops.add(first, second), ops.broadcast_to(c, shape=x.shape))


def _by_gamma(ops: Any, x: Any, g: Any, mean: Any, a: Any) -> Any:
    """Multiply the cotangent by x a - mean a, whose parts cancel."""
    scaled = ops.mul(x, ops.broadcast_to(a, shape=x.shape))
    moved = ops.sub(scaled, ops.broadcast_to(ops.mul(mean, a), shape=x.shape))
    return ops.mul(g, moved)


_STEPS = tuple(
    OPS[name]
    for name in ("add", "sub", "mul", "div", "square", "sqrt", "sum", "mean", "broadcast_to")
)
_RATE, _BY_X, _BY_GAMMA = (page(program, _STEPS) for program in (_rate, _by_x, _by_gamma))

LAYER_NORM_FROM_STORAGE = Form("a g gamma + b x + c", vjp=_layer_norm_from_storage)
"""The gradients of layer_norm as torch forms them on a CPU, in 16 bits."""


def _summed(x: AnyTensor, residual: AnyTensor) -> AnyTensor:
    """Return the sum as torch stores it, and reads it again."""
    return zip_map(lambda a, b: saved(a + b), x, residual)


def _add_layer_norm_value(
    x: AnyTensor, residual: AnyTensor, gamma: AnyTensor, beta: AnyTensor, *, eps: float = 1e-5
) -> AnyTensor:
    """Normalize the sum as it was stored."""
    summed = _summed(x, residual)
    joined: AnyTensor = JOIN.value(OPS["layer_norm"].value(summed, gamma, beta, eps=eps), summed)
    return joined


def _add_layer_norm_from_storage(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, eps: float = 1e-5
) -> Gradients:
    """Add the cotangent of the sum to what layer_norm's kernel has stored."""
    x, residual, gamma, beta = inputs
    g, h = unpacked(cotangent, {"z": Type(x.shape), "summed": Type(x.shape)}).values()
    found = _layer_norm_from_storage((_summed(x, residual), gamma, beta), g, eps=eps)
    if found[0] is None:
        return None, None, None, None
    dx: AnyTensor = zip_map(lambda a, b: saved(a) + b, found[0], h)
    return dx, dx, *found[1:]


ADD_LAYER_NORM_FROM_STORAGE = Form(
    "layer_norm of a stored sum", _add_layer_norm_value, _add_layer_norm_from_storage
)
"""The sum, its layer_norm and the gradients as torch forms them on a CPU, in 16 bits."""


def _logsumexp_by_the_result(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    axes: tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Gradients:
    """Return g e^(x - z), in which z was rounded (FunctionsManual.cpp, logsumexp_backward)."""
    (x,) = inputs
    z = OPS["logsumexp"].value(x, axes=axes)
    kept, _ = split_axes(x.rank, axes)

    def share(*i: Any) -> Any:
        power = exp(x[i] - z[kept_index(i, kept, False)])
        return cotangent[kept_index(i, kept, keepdims)] * power

    return (tabulate(x.shape, share),)


def _norm_unscaled(
    x: AnyTensor,
    *,
    ord: int = 2,
    axes: tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> AnyTensor:
    """Return the root of the sum of the squares, which may overflow (ReduceOpsKernel.cpp)."""
    parts = x.map(absolute if ord == 1 else square)
    total: AnyTensor = reduction(sum_over, parts, axes, keepdims)
    return total if ord == 1 else total.map(sqrt)


def _norm_by_the_unscaled(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    ord: int = 2,
    axes: tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Gradients:
    """Return g (x / z), but 0 where z is (FunctionsManual.cpp, norm_backward)."""
    (x,) = inputs
    if ord == 1:
        return OPS["norm"].vjp(inputs, cotangent, ord=1, axes=axes, keepdims=keepdims)
    z, (kept, _) = _norm_unscaled(x, axes=axes, keepdims=keepdims), split_axes(x.rank, axes)

    def back(*i: Any) -> Any:
        at = kept_index(i, kept, keepdims)
        nothing = is_zero(z[at])
        share = cotangent[at] * divide(x[i], select(nothing, 1, z[at]))
        return select(nothing, zero_like(share), share)

    return (tabulate(x.shape, back),)


UNSCALED = replace(OPS["norm"], value=_norm_unscaled, vjp=_norm_by_the_unscaled)
"""The page of norm, of entries that are squared as they are."""


def _norm_from_storage(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    ord: int = 2,
    axes: tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Gradients:
    """Return g (x / z), in which z and the quotient were stored (norm_backward)."""
    (x,) = inputs
    if ord == 1:
        return OPS["norm"].vjp(inputs, cotangent, ord=1, axes=axes, keepdims=keepdims)
    z = _norm_unscaled(x, axes=axes, keepdims=keepdims).map(saved)
    kept, _ = split_axes(x.rank, axes)

    def back(*i: Any) -> Any:
        at = kept_index(i, kept, keepdims)
        nothing = is_zero(z[at])
        share = cotangent[at] * saved(divide(x[i], select(nothing, 1, z[at])))
        return select(nothing, zero_like(share), share)

    return (tabulate(x.shape, back),)


NORM_FROM_STORAGE = replace(UNSCALED, vjp=_norm_from_storage)
"""The same where numbers have 16 bits: it adds squares up in 32, and stores what it finds."""

STORED = linear(
    "stored", partial(same_shape, "stored"), lambda x: x.map(saved), lambda g, shape: g.map(saved)
)
"""Store numbers, and on the way back cotangents, and read them again."""

HANDED_ON = linear("stored", partial(same_shape, "stored"), lambda x: x, lambda g, shape: g)
"""The same where storage rounds nothing."""

ROWS: Mapping[str, tuple[Form, ...]] = {
    "norm": (Form("sqrt(sum x^2)", _norm_unscaled, _norm_by_the_unscaled),),
    "logsumexp": (Form("g e^(x - z)", vjp=_logsumexp_by_the_result),),
}
"""By op: the programs that torch follows at every dtype."""
