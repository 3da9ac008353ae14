"""The forms of curves, one entry at a time, and of what has them among its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from spec.composite import composite
from spec.op import AnyTensor, Op
from spec.ops.selu import FLOOR, SCALE
from spec.scalar import (
    absolute,
    divide,
    exp,
    expm1,
    is_nan,
    is_zero,
    less,
    log1p,
    select,
    tanh,
    zero_like,
)
from spec.tensor import zip_map

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


def _mish_by_the_curves(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return g (t + x s (1 - t t)), for t the curve's factor and s = 1 / (1 + e^-x).

    Far below 0, where e^-x overflows, s is 0 and the larger part is gone (Activation.cpp,
    mish_backward_kernel).
    """

    def share(x: Any, g: Any) -> Any:
        t, s = tanh(log1p(exp(x))), divide(1, 1 + exp(-x))
        return g * (t + x * s * (1 - t * t))

    return (zip_map(share, *inputs, cotangent),)


def _hardswish_in_vectors(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> Gradients:
    """Return g (x / 3 + 1 / 2) between the kinks, and NaN for NaN in whole vectors.

    So hardswish_backward_kernel does (Activation.cpp); behind the last whole vector it is the page.
    """

    def share(x: Any, g: Any) -> Any:
        between = select(less(x, 3), g * (divide(x, 3) + Fraction(1, 2)), g)
        return select(less(-3, x), between, select(is_nan(x), x, zero_like(g)))

    return (zip_map(share, *inputs, cotangent),)


CURVES: Mapping[str, tuple[Form, ...]] = {
    "expm1": (Form("g (z + 1)", vjp=_expm1_by_the_result),),
    "softplus": (Form("(g e^x) / (e^x + 1)", vjp=_softplus_by_the_exponential),),
    "silu": (Form("x / (1 + e^-x)", _silu_by_a_quotient, _silu_by_the_curve),),
    "mish": (Form("g (t + x s (1 - t t))", vjp=_mish_by_the_curves),),
    "elu": (Form("(g alpha) e^x", vjp=_elu_by_the_constant_first),),
    "selu": (Form("(g scale alpha) e^x", vjp=_selu_by_the_constant_first),),
    "hardtanh": (Form("NaN passes", vjp=_hardtanh_in_a_tail),),
    "hardswish": (Form("g (x / 3 + 1 / 2)", vjp=_hardswish_in_vectors),),
    "rsqrt": (Form("(-g / 2) z^3", vjp=_rsqrt_by_the_cube),),
    "softsign": (Form("g / (1 + |x|) - g |x| / (1 + |x|)^2", vjp=_softsign_by_parts),),
    "sigmoid": (Form("sigmoid_backward", vjp=_sigmoid_by_the_result),),
}
"""By op: the programs that torch follows at every dtype."""


def _followed(page: Op) -> Op:
    """Return a page with the programs that torch follows in the place of its own."""
    for form in CURVES.get(page.name, ()):
        page = replace(page, value=form.value or page.value, vjp=form.vjp or page.vjp)
    return page


def _in_forms_of_their_own(name: str) -> Form:
    """Take the steps of a composite one by one, each in torch's own form."""
    page = OPS[name]
    assert page.program is not None
    own = composite(page.name, page.type_rule, page.program, tuple(map(_followed, page.uses)))
    return Form("the steps in forms of their own", own.value, own.vjp)


CHAINS: Mapping[str, tuple[Form, ...]] = {
    name: (_in_forms_of_their_own(name),) for name in ("chain", "linear_activation")
}
"""The same for what has curves among its steps."""
