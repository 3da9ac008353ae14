"""The forms of losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from equivalence.backends.torch.forms.rows import HANDED_ON, NORM_FROM_STORAGE, STORED, UNSCALED
from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from equivalence.worlds.storage import narrowly
from spec.composite import composite
from spec.kinds import absorb
from spec.losses import Weights, counting, divisor, reduced
from spec.op import AnyTensor, Op
from spec.ops.cross_entropy import program as scored
from spec.ops.kl_div import weighed
from spec.ops.sigmoid import logistic, shrunk
from spec.scalar import (
    absolute,
    divide,
    equal,
    exp,
    is_zero,
    less,
    lift,
    log,
    log1p,
    select,
    zero_like,
)
from spec.shape import size
from spec.tensor import zip_map

Gradients = tuple[AnyTensor | None, ...]


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


def _margin_first(
    ops: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Follow torch's kernels one by one: each hands its result on (Distance.cpp, Loss.cpp)."""

    def distance(u: Any, v: Any) -> Any:
        shift = ops.constant(eps, u.shape, like=u)
        apart = ops.stored(ops.add(ops.stored(ops.sub(u, v)), shift))
        return ops.stored(ops.norm(apart, ord=p, axes=(-1,)))

    near, far = distance(anchor, positive), distance(anchor, negative)
    far = ops.minimum(far, distance(positive, negative)) if swap else far
    wanted = ops.stored(ops.add(near, ops.constant(margin, near.shape, like=near)))
    lacking = ops.clamp(ops.stored(ops.sub(wanted, far)), lo=0.0, hi=math.inf)
    return reduced(ops, ops.stored(lacking), reduction)


def _triplets(name: str, norm: Op, stored: Op) -> Form:
    """Return margin + near - far, by a norm of its own, and with what handing a number on does."""
    program = _stepping(OPS["triplet_margin_loss"], _margin_first, norm, stored)
    return Form(name, program.value, program.vjp)


def _stepping(page: Op, program: Callable[..., Any], *steps: Op) -> Op:
    """Return a composite of other steps, each of which takes the place of its page."""
    uses = {op.name: op for op in (*page.uses, *steps)}
    return composite(
        page.name, page.type_rule, program, tuple(uses.values()), index_inputs=page.index_inputs
    )


TRIPLETS_FROM_STORAGE = _triplets("margin + near - far, each stored", NORM_FROM_STORAGE, STORED)
"""What torch does with triplets of 16 bits."""


def _read_off_narrowly(
    log_probabilities: AnyTensor,
    labels: AnyTensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: Weights | None = None,
) -> AnyTensor:
    """Add losses up in the format of storage (LossNLL.cpp, nll_loss_out_frame)."""
    read: dict[str, Any] = {"ignore_index": ignore_index, "weight": weight}
    page = OPS["nll_loss"].value
    alone = reduction if not size(log_probabilities.shape) else "none"
    losses: AnyTensor = page(log_probabilities, labels, reduction=alone, **read)
    if alone == reduction:
        return losses
    total, magnitudes = (OPS["sum"].value(t) for t in (losses, losses.map(absolute)))
    total = zip_map(lambda t, m: narrowly(t, m, size(losses.shape)), total, magnitudes)
    counted = counting(labels, weight, ignore_index, reduction)
    over = divisor(counted, weight, ignore_index, total[()]) if reduction == "mean" else None
    return total if over is None else total.map(lambda t: divide(t, over))


_READ_OFF = replace(OPS["nll_loss"], value=_read_off_narrowly)

LABELLED_IN_STORAGE = Form(
    "losses summed in storage", _stepping(OPS["cross_entropy"], scored, _READ_OFF).value
)
"""What torch does with labels in 16 bits: of its sums only that of the losses is taken in them."""

LOSSES: Mapping[str, tuple[Form, ...]] = {
    "bce_with_logits": (
        Form("(1 - t) x - log_sigmoid(x)", _bce_by_the_logarithm, _bce_by_the_curve),
    ),
    "kl_div": (Form("t ln t - t x", _kl_by_parts, _kl_by_autograd),),
    "triplet_margin_loss": (_triplets("margin + near - far", UNSCALED, HANDED_ON),),
    "huber_loss": (Form("(d / n) g", vjp=_huber_by_the_norm),),
    "smooth_l1_loss": (Form("((d / n) g) / beta", vjp=_smooth_l1_by_the_norm),),
}
"""By op: the programs that torch follows at every dtype."""
