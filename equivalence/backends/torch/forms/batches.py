"""The forms of what normalizes channels over a batch (batch_norm_kernel.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from equivalence.worlds.storage import saved
from spec.composite import composite
from spec.kinds import same_shape
from spec.op import AnyTensor
from spec.ops.batch_norm import types
from spec.several import several, types_of, unpacked
from spec.shape import size

Gradients = tuple[AnyTensor | None, ...]
Step = Callable[[AnyTensor], AnyTensor]


def _in_all(ops: Any, line: Any, x: Any) -> Any:
    """Repeat one number of each channel for all of its entries."""
    column = (x.shape[1], *(1 for _ in x.shape[2:]))
    return ops.broadcast_to(ops.reshape(line, shape=column), shape=x.shape)


def _added(ops: Any, x: Any) -> Any:
    return ops.sum(x, axes=(0, *range(2, len(x.shape))))


def _over(ops: Any, total: Any, number: int) -> Any:
    return ops.div(total, ops.constant(number, total.shape, like=total))


def _entries(x: Any) -> int:
    count: int = size((x.shape[0], *x.shape[2:]))
    return count


def _middle(ops: Any, x: Any) -> Any:
    return _over(ops, _added(ops, x), _entries(x))


def _squares(ops: Any, x: Any) -> Any:
    return _added(ops, ops.square(ops.sub(x, _in_all(ops, _middle(ops, x), x))))


def _rate_of(ops: Any, variance: Any, *, eps: float) -> Any:
    one, shift = (ops.constant(number, variance.shape, like=variance) for number in (1, eps))
    return ops.div(one, ops.sqrt(ops.add(variance, shift)))


def _rate(ops: Any, x: Any, *, eps: float) -> Any:
    return _rate_of(ops, _over(ops, _squares(ops, x), _entries(x)), eps=eps)


def _value(
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
) -> tuple[Any, ...]:
    """Return x scale + shift, the shift being beta - mean scale."""

    def moved(running: Any, statistic: Any) -> Any:
        return ops.add(ops.scale(statistic, c=momentum), ops.scale(running, c=1 - momentum))

    mean, rate, left = running_mean, None, (running_mean, running_var)
    if training:
        mean, squares, n = _middle(ops, x), _squares(ops, x), _entries(x)
        rate = _rate_of(ops, _over(ops, squares, n), eps=eps)
        left = moved(running_mean, mean), moved(running_var, _over(ops, squares, n - 1))
    else:
        rate = _rate_of(ops, running_var, eps=eps)
    scale = ops.mul(rate, gamma)
    shift = ops.sub(beta, ops.mul(mean, scale))
    return ops.add(ops.mul(x, _in_all(ops, scale, x)), _in_all(ops, shift, x)), *left


def _pull(ops: Any, x: Any, g: Any, mean: Any, rate: Any) -> Any:
    """Form k = (sum of (x - mean) g) rate^2 / n."""
    dot = _added(ops, ops.mul(ops.sub(x, _in_all(ops, mean, x)), g))
    return _over(ops, ops.mul(ops.mul(dot, rate), rate), _entries(x))


def _pulled(ops: Any, x: Any, mean: Any, k: Any) -> Any:
    return ops.mul(ops.sub(x, _in_all(ops, mean, x)), _in_all(ops, k, x))


def _left(ops: Any, g: Any, middle: Any, pulled: Any) -> Any:
    return ops.sub(ops.sub(g, _in_all(ops, middle, g)), pulled)


def _scaled(ops: Any, x: Any, line: Any) -> Any:
    return ops.mul(x, _in_all(ops, line, x))


def _by_gamma(ops: Any, x: Any, g: Any, mean: Any, rate: Any) -> Any:
    """Multiply the whole sum by the rate."""
    return ops.mul(_added(ops, ops.mul(ops.sub(x, _in_all(ops, mean, x)), g)), rate)


_STEPS = tuple(
    OPS[name]
    for name in (
        *("add", "sub", "mul", "div", "square", "sqrt", "sum", "scale", "broadcast_to", "reshape"),
    )
)
_VALUE = several("batch_norm", types, _value, _STEPS).value
_MIDDLE, _RATE, _RATE_OF, _PULL, _PULLED, _LEFT, _SCALED, _BY_GAMMA = (
    composite(program.__name__, same_shape, program, _STEPS).value
    for program in (_middle, _rate, _rate_of, _pull, _pulled, _left, _scaled, _by_gamma)
)


def _gradients(
    store: Step,
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Gradients:
    """Form (g - mean g - (x - mean) k) rate gamma, whose parts the kernel may store in between."""
    x, gamma, _, mean, variance = inputs
    if not size(x.shape):
        return (None,) * 5
    told = {"training": training, "momentum": momentum, "eps": eps}
    left = g = unpacked(cotangent, types_of(OPS["batch_norm"], inputs, told))["z"]
    if training:
        mean, rate = _MIDDLE(x), _RATE(x, eps=eps)
        pulled = store(_PULLED(x, mean, store(_PULL(x, g, mean, rate))))
        left = store(_LEFT(g, store(_MIDDLE(g)), pulled))
    else:
        rate = _RATE_OF(variance, eps=eps)
    by_x = _SCALED(store(_SCALED(left, rate)), gamma)
    return by_x, _BY_GAMMA(x, g, mean, rate), None, None, None


def _as_they_are(x: AnyTensor) -> AnyTensor:
    return x


def _stored(x: AnyTensor) -> AnyTensor:
    return x.map(saved)


BATCHES: Mapping[str, tuple[Form, ...]] = {
    "batch_norm": (Form("x scale + shift", _VALUE, partial(_gradients, _as_they_are)),),
}
"""By op: the programs that torch follows at every dtype."""

BATCHES_FROM_STORAGE = Form("x scale + shift", _VALUE, partial(_gradients, _stored))
"""The same in 16 bits: of tensors that are not contiguous, the parts of dx are stored."""
