"""Formulas that torch follows and that are less stable, or rounded more, than those of the pages.

They are written like pages of `spec`, and count for whoever declares the contract of torch.
"""

# This file is longer than the guide because torch's own formulas stand in one table.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from equivalence.worlds.contract import Form
from equivalence.worlds.storage import narrowly, saved
from spec.axes import kept_index, reduction, split_axes
from spec.composite import composite
from spec.kinds import absorb, same_shape
from spec.op import AnyTensor
from spec.ops import OPS
from spec.ops.kl_div import weighed
from spec.ops.selu import FLOOR, SCALE
from spec.ops.sigmoid import logistic, shrunk
from spec.scalar import (
    absolute,
    divide,
    equal,
    exp,
    expm1,
    is_nan,
    is_zero,
    less,
    lift,
    log,
    log1p,
    select,
    sqrt,
    square,
    sum_over,
    zero_like,
)
from spec.shape import size
from spec.tensor import tabulate, zip_map

Gradients = tuple[AnyTensor | None, ...]


def _sigmoid_by_the_result(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return (g (1 - z)) z, in which 1 - z has lost what z was rounded by (BinaryOpsKernel.cpp)."""
    z = OPS["sigmoid"].value(*inputs)
    return (zip_map(lambda g, y: g * (1 - y) * y, cotangent, z),)


def _rsqrt_by_the_cube(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return (-g / 2) z^3 (derivatives.yaml); a zero cotangent is absorbed on the page."""
    z = OPS["rsqrt"].value(*inputs)

    def share(g: Any, y: Any) -> Any:
        return select(is_zero(g), zero_like(g), g * Fraction(-1, 2) * (y * y * y))

    return (zip_map(share, cotangent, z),)


def _expm1_by_the_result(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return g (z + 1), in which z + 1 has nothing left far below 0 (derivatives.yaml)."""
    return (zip_map(lambda x, g: g * (expm1(x) + 1), *inputs, cotangent),)


def _softplus_by_the_exponential(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return (g e^x) / (e^x + 1) (Activation.cpp, softplus_backward_kernel)."""
    return (zip_map(lambda x, g: divide(g * exp(x), exp(x) + 1), *inputs, cotangent),)


def _silu_by_a_quotient(x: AnyTensor) -> AnyTensor:
    """Return x / (1 + e^-x), which is 0 where e^-x overflows (Activation.cpp, silu_kernel)."""
    return x.map(lambda a: divide(a, 1 + exp(-a)))


def _silu_by_the_curve(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return g s (1 + x (1 - s)) for s = 1 / (1 + e^-x)."""

    def share(x: Any, g: Any) -> Any:
        s = divide(1, 1 + exp(-x))
        return g * s * (1 + x * (1 - s))

    return (zip_map(share, *inputs, cotangent),)


def _softsign_by_parts(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return g / (1 + |x|) - g |x| / (1 + |x|)^2, whose parts cancel, as autograd derives it."""

    def share(g: Any, a: Any) -> Any:
        below = 1 + absolute(a)
        return divide(g, below) - divide(g, below) * divide(absolute(a), below)

    return (zip_map(share, cotangent, *inputs),)


def _hardtanh_in_a_tail(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, **bounds: float
) -> Gradients:
    """Let the gradient of NaN pass, as torch does behind the last whole vector (Activation.cpp)."""
    (gradient,) = OPS["hardtanh"].vjp(inputs, cotangent, **bounds)
    assert gradient is not None
    return (zip_map(lambda x, g, d: select(is_nan(x), g, d), *inputs, cotangent, gradient),)


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
    mean = OPS["mean"].value(x, axes=(-1,), keepdims=True)
    statistics = mean.map(saved), _RATE(x, eps=eps).map(saved)
    return (
        _BY_X(x, gamma, cotangent, *statistics),
        _over_rows(_BY_GAMMA(x, cotangent, *statistics)),
        _over_rows(cotangent),
    )


def _over_rows(share: AnyTensor) -> AnyTensor:
    """Add up the shares of all rows in the format of storage."""
    rows = tuple(range(len(share.shape) - 1))
    if not rows:
        return share
    total, magnitudes = (OPS["sum"].value(t, axes=rows) for t in (share, share.map(absolute)))
    count = math.prod(share.shape[:-1])
    return zip_map(lambda t, m: narrowly(t, m, count), total, magnitudes)


def _rate(ops: Any, x: Any, *, eps: float) -> Any:
    mean = ops.mean(x, axes=(-1,), keepdims=True)
    centred = ops.sub(x, ops.broadcast_to(mean, shape=x.shape))
    variance = ops.mean(ops.square(centred), axes=(-1,), keepdims=True)
    one, shift = (ops.constant(value, variance.shape, like=x) for value in (1, eps))
    return ops.div(one, ops.sqrt(ops.add(variance, shift)))


def _by_x(ops: Any, x: Any, gamma: Any, g: Any, mean: Any, a: Any) -> Any:
    """Follow the kernel: b = (mean db - ds) a^3 / n and c = -b mean - a db / n."""
    scaled = ops.mul(g, ops.broadcast_to(gamma, shape=x.shape))
    ds = ops.sum(ops.mul(scaled, x), axes=(-1,), keepdims=True)
    db = ops.sum(scaled, axes=(-1,), keepdims=True)
    n = ops.constant(x.shape[-1], mean.shape, like=x)
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


_STEPS = ("add", "sub", "mul", "div", "square", "sqrt", "sum", "mean", "broadcast_to")
_RATE, _BY_X, _BY_GAMMA = (
    composite(program.__name__, same_shape, program, tuple(OPS[name] for name in _STEPS)).value
    for program in (_rate, _by_x, _by_gamma)
)

LAYER_NORM_FROM_STORAGE = Form("a g gamma + b x + c", vjp=_layer_norm_from_storage)
"""The gradients of layer_norm as torch forms them on a CPU, in 16 bits."""


def _elu_by_the_constant_first(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, alpha: float = 1.0
) -> Gradients:
    """Return (g alpha) e^x, or g beyond 0 and for NaN (Activation.cpp, elu_backward_kernel)."""

    return (zip_map(lambda x, g: _bent(x, g, g, Fraction(alpha)), *inputs, cotangent),)


def _selu_by_the_constant_first(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return (g scale alpha) e^x, or g scale beyond 0 and for NaN."""
    return (zip_map(lambda x, g: _bent(x, g, g * SCALE, FLOOR), *inputs, cotangent),)


def _bent(x: Any, g: Any, beyond: Any, constant: Fraction) -> Any:
    return select(less(0, x), beyond, select(is_nan(x), beyond, g * constant * exp(x)))


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


def _huber_by_the_norm(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    delta: float = 1.0,
    reduction: str = "mean",
) -> Gradients:
    """Return ((1 / n) d) g, and (1 / n) g delta beyond (PointwiseOpsKernel.cpp, huber_backward)."""
    knee = Fraction(delta)

    def share(d: Any, g: Any, norm: Any) -> Any:
        side = select(less(d, 0), -1, 1)
        return select(less(knee, absolute(d)), side * (norm * g * knee), norm * d * g)

    return _by_the_norm(share, inputs, cotangent, reduction)


def _smooth_l1_by_the_norm(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    beta: float = 1.0,
    reduction: str = "mean",
) -> Gradients:
    """Return (((1 / n) d) g) / beta, and (1 / n) g beyond (smooth_l1_backward_cpu_kernel)."""
    knee = Fraction(beta)
    if not knee:
        return OPS["mae_loss"].vjp(inputs, cotangent, reduction=reduction)

    def share(d: Any, g: Any, norm: Any) -> Any:
        side = select(less(d, 0), -1, 1)
        return select(less(knee, absolute(d)), side * (norm * g), divide(norm * d * g, knee))

    return _by_the_norm(share, inputs, cotangent, reduction)


def _by_the_norm(
    share: Callable[..., Any], inputs: Sequence[AnyTensor], cotangent: AnyTensor, reduction: str
) -> Gradients:
    """Send back what share makes of a difference, its cotangent, and a rounded 1 / n."""
    x, y = inputs
    n = size(x.shape) if reduction == "mean" else 1
    g = cotangent if reduction == "none" else x.map(lambda _: cotangent[()])

    def moved(a: Any, b: Any, g: Any) -> Any:
        return share(a - b, g, divide(lift(g, Fraction(1)), n))

    dx = zip_map(moved, x, y, g)
    return dx, dx.map(lambda d: -d)


def _bce_by_the_logarithm(x: AnyTensor, target: AnyTensor, *, reduction: str = "mean") -> AnyTensor:
    """Return (1 - t) x - log_sigmoid(x), whose parts cancel far below 0 (Loss.cpp)."""

    def loss(x: Any, t: Any) -> Any:
        return (1 - t) * x - (select(less(x, 0), x, 0) - log1p(shrunk(x)))

    losses = zip_map(loss, x, target)
    return losses if reduction == "none" else OPS[reduction].value(losses)


def _bce_by_the_curve(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, reduction: str = "mean"
) -> Gradients:
    """Return (s(x) - t) g, divided last, in which s(x) has no small part above 0."""
    x, target = inputs
    n = size(x.shape) if reduction == "mean" else 1
    g = cotangent if reduction == "none" else x.map(lambda _: cotangent[()])

    def share(x: Any, t: Any, g: Any) -> Any:
        return divide((logistic(x) - t) * g, n)

    return zip_map(share, x, target, g), zip_map(lambda x, g: divide(-x * g, n), x, g)


def _kl_by_parts(
    x: AnyTensor, target: AnyTensor, *, log_target: bool = False, reduction: str = "mean"
) -> AnyTensor:
    """Return t ln t - t x, whose parts cancel where x is near ln t (Loss.cpp)."""
    if log_target:
        same: AnyTensor = OPS["kl_div"].value(x, target, log_target=True, reduction=reduction)
        return same

    def loss(x: Any, t: Any) -> Any:
        nothing = equal(t, 0)
        return select(nothing, 0, t * log(select(nothing, 1, t))) - t * x

    losses = zip_map(loss, x, target)
    return losses if reduction == "none" else OPS[reduction].value(losses)


def _kl_by_autograd(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    log_target: bool = False,
    reduction: str = "mean",
) -> Gradients:
    """Add up the shares of t by the parts of t ln t - t x, or of e^t (t - x), as autograd does."""
    x, target = inputs
    n = size(x.shape) if reduction == "mean" else 1
    g = cotangent if reduction == "none" else x.map(lambda _: cotangent[()])

    def by_x(t: Any, g: Any) -> Any:
        g = divide(g, n)
        return -(g * (exp(t) if log_target else t))

    def by_target(x: Any, t: Any, g: Any) -> Any:
        g = divide(g, n)
        if log_target:
            return weighed(exp(t), g, x) + weighed(exp(t), g * (t - x), x)
        one = select(is_zero(g), zero_like(g), divide(g * t, t))
        return absorb(g, log(t)) + one - g * x

    return zip_map(by_x, target, g), zip_map(by_target, x, target, g)


_UNSCALED = replace(OPS["norm"], value=_norm_unscaled, vjp=_norm_by_the_unscaled)
_PAGE = OPS["triplet_margin_loss"]
assert _PAGE.program is not None
_TRIPLET = composite(
    _PAGE.name,
    _PAGE.type_rule,
    _PAGE.program,
    tuple(_UNSCALED if op.name == "norm" else op for op in _PAGE.uses),
)

FORMS: Mapping[str, tuple[Form, ...]] = {
    "bce_with_logits": (
        Form("(1 - t) x - log_sigmoid(x)", _bce_by_the_logarithm, _bce_by_the_curve),
    ),
    "kl_div": (Form("t ln t - t x", _kl_by_parts, _kl_by_autograd),),
    "huber_loss": (Form("(d / n) g", vjp=_huber_by_the_norm),),
    "smooth_l1_loss": (Form("((d / n) g) / beta", vjp=_smooth_l1_by_the_norm),),
    "expm1": (Form("g (z + 1)", vjp=_expm1_by_the_result),),
    "softplus": (Form("(g e^x) / (e^x + 1)", vjp=_softplus_by_the_exponential),),
    "silu": (Form("x / (1 + e^-x)", _silu_by_a_quotient, _silu_by_the_curve),),
    "elu": (Form("(g alpha) e^x", vjp=_elu_by_the_constant_first),),
    "selu": (Form("(g scale alpha) e^x", vjp=_selu_by_the_constant_first),),
    "hardtanh": (Form("NaN passes", vjp=_hardtanh_in_a_tail),),
    "rsqrt": (Form("(-g / 2) z^3", vjp=_rsqrt_by_the_cube),),
    "softsign": (Form("g / (1 + |x|) - g |x| / (1 + |x|)^2", vjp=_softsign_by_parts),),
    "triplet_margin_loss": (Form("sqrt(sum x^2)", _TRIPLET.value, _TRIPLET.vjp),),
    "norm": (Form("sqrt(sum x^2)", _norm_unscaled, _norm_by_the_unscaled),),
    "logsumexp": (Form("g e^(x - z)", vjp=_logsumexp_by_the_result),),
    "sigmoid": (Form("sigmoid_backward", vjp=_sigmoid_by_the_result),),
}
"""By op: the programs that torch follows at every dtype."""
