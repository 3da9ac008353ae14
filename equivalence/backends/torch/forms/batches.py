"""The forms of what normalizes channels over a batch (batch_norm_kernel.cpp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from equivalence.backends.torch.forms.passing import Gradients, Step, as_they_are, page, stored
from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from spec.op import AnyTensor
from spec.ops.batch_norm import types
from spec.several import several, types_of, unpacked
from spec.shape import size


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


def _dot(ops: Any, x: Any, g: Any, mean: Any) -> Any:
    """Add up (x - mean) g."""
    return _added(ops, ops.mul(ops.sub(x, _in_all(ops, mean, x)), g))


def _pull(ops: Any, x: Any, dot: Any, rate: Any) -> Any:
    """Form k = dot rate^2 / n."""
    return _over(ops, ops.mul(ops.mul(dot, rate), rate), _entries(x))


def _pulled(ops: Any, x: Any, mean: Any, k: Any) -> Any:
    return ops.mul(ops.sub(x, _in_all(ops, mean, x)), _in_all(ops, k, x))


def _share(ops: Any, total: Any, x: Any) -> Any:
    return _over(ops, total, _entries(x))


def _centred(ops: Any, g: Any, middle: Any) -> Any:
    return ops.sub(g, _in_all(ops, middle, g))


def _less(ops: Any, g: Any, pulled: Any) -> Any:
    return ops.sub(g, pulled)


def _scaled(ops: Any, x: Any, rate: Any, gamma: Any) -> Any:
    return ops.mul(ops.mul(x, _in_all(ops, rate, x)), _in_all(ops, gamma, x))


def _by_gamma(ops: Any, x: Any, g: Any, mean: Any, rate: Any) -> Any:
    """Multiply the whole sum by the rate."""
    return ops.mul(_dot(ops, x, g, mean), rate)


_STEPS = tuple(
    OPS[name]
    for name in (
        *("add", "sub", "mul", "div", "square", "sqrt", "sum", "scale", "broadcast_to", "reshape"),
    )
)
_VALUE = several("batch_norm", types, _value, _STEPS).value
_MIDDLE, _RATE, _RATE_OF, _ADDED, _DOT, _PULL = (
    page(program, _STEPS) for program in (_middle, _rate, _rate_of, _added, _dot, _pull)
)
_PULLED, _SHARE, _CENTRED, _LESS, _SCALED, _BY_GAMMA = (
    page(program, _STEPS) for program in (_pulled, _share, _centred, _less, _scaled, _by_gamma)
)


def _gradients(
    store: Step,
    add_up: Step,
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Gradients:
    """Form (g - mean g - (x - mean) k) rate gamma, whose parts a kernel may store in between."""
    x, gamma, _, mean, variance = inputs
    if not size(x.shape):
        return (None,) * 5
    told = {"training": training, "momentum": momentum, "eps": eps}
    left = g = unpacked(cotangent, types_of(OPS["batch_norm"], inputs, told))["z"]
    if training:
        mean, rate = _MIDDLE(x), _RATE(x, eps=eps)
        k = store(_PULL(x, store(_DOT(x, g, mean)), rate))
        middle = store(_SHARE(add_up(g), x))
        left = store(_LESS(store(_CENTRED(g, middle)), store(_PULLED(x, mean, k))))
    else:
        rate = _RATE_OF(variance, eps=eps)
    return _SCALED(left, rate, gamma), _BY_GAMMA(x, g, mean, rate), None, None, None


def _added_in_storage(x: AnyTensor) -> AnyTensor:
    return stored(_ADDED(x))


def _form(store: Step, add_up: Step) -> Form:
    return Form("x scale + shift", _VALUE, partial(_gradients, store, add_up))


BATCHES: Mapping[str, tuple[Form, ...]] = {"batch_norm": (_form(as_they_are, _ADDED),)}
"""By op: the programs that torch follows at every dtype."""

BATCHES_FROM_STORAGE = _form(stored, _ADDED)
"""The same in 16 bits: of tensors that are not contiguous, parts of dx are stored."""

BATCHES_FROM_BF16 = _form(stored, _added_in_storage)
"""The same in bf16, where the sum of the cotangents is stored as well; that of fp16 is fp32."""
