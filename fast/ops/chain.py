"""Twin of spec.ops.chain.

One launch, whatever the steps: the engine walks a tuple of the functions that the steps' own hosts
would launch, in fp32 registers, so that nothing between the steps is stored or rounded to 16 bits.
The input is saved alone; the gradient, one launch too, walks forward again and then back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.pointwise import Chain
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved

Step = tuple[str, tuple[tuple[str, Any], ...]]

NAMES = (
    *("neg", "scale", "abs", "square", "sqrt", "reciprocal", "rsqrt", "exp", "expm1", "log"),
    *("log1p", "sin", "cos", "pow", "tanh", "erf", "sigmoid", "log_sigmoid", "softplus"),
    *("safe_log", "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "clamp"),
    *("hardtanh", "hardsigmoid", "hardswish", "softsign"),
)
"""The pointwise ops of one input."""
PAGES: dict[str, Op] = {name: import_module(f"fast.ops.{name}").op for name in NAMES}


def read(steps: object) -> tuple[Step, ...]:
    """Return the names of the steps, and their attributes as pairs (C1)."""
    listed: Sequence[Any] = steps if isinstance(steps, (tuple, list)) else ()
    found = [_step(one) for one in listed]
    if not found or None in found:
        raise Rejected(
            "chain C1: steps are names of pointwise ops of one input, alone or paired with "
            f"attributes, got {steps!r}"
        )
    return tuple(step for step in found if step is not None)


def _step(one: Any) -> Step | None:
    """Return a step given as a name, or as one with attributes, a mapping or pairs."""
    name, given = one if isinstance(one, (tuple, list)) and len(one) == 2 else (one, ())
    pairs = [*given.items()] if isinstance(given, Mapping) else given
    if not isinstance(name, str) or name not in NAMES or not isinstance(pairs, (tuple, list)):
        return None
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        return None
    return name, tuple((attribute, value) for attribute, value in pairs)


def _bound(step: Step) -> dict[str, Any]:
    """Return the attributes of a step, the defaults among them; the page refuses wrong names."""
    name, pairs = step
    given = dict(pairs)
    if "x" in given:
        raise Rejected(f"chain C1: a step has attributes alone, got {given!r} for {name}")
    return PAGES[name].bind((None,), given)[1]


def check(x: Tensor, *, steps: Sequence[object]) -> None:
    """Refuse anything but a floating tensor, and what are no steps (C1) or no such attributes."""
    checks.floats("chain", x)
    for step in read(steps):
        PAGES[step[0]].check(x, **_bound(step))


@lru_cache(maxsize=256)
def _planned(steps: tuple[Step, ...]) -> tuple[Chain, Chain, tuple[float, ...], tuple[float, ...]]:
    """Return what the value walks and what the gradient does, and the scalars of both.

    The steps' own hosts are asked what they would launch, on tensors that stand for a step's
    input, its result and its cotangent.
    """
    fns, places, scalars = [], [], []
    back, turns, more = [], [], []
    x, g = torch.empty(1), torch.empty(1)
    for k, step in enumerate(steps):
        page = PAGES[step[0]]
        with pointwise.watched() as seen:
            z, saved = page.value(x, **_bound(step))
            page.vjp(saved, g, (True,))
        (fn, _, own), (fn_back, inputs, own_back) = seen
        fns.append(fn)
        places.append((len(scalars), len(own)))
        scalars += own
        (read_again,) = [k + (y is z) for y in inputs if y is not g] or [-1]
        back.append(fn_back)
        turns.append((len(more), len(own_back), read_again))
        more += own_back
    shifted = [(first + len(scalars), count, again) for first, count, again in turns[::-1]]
    forward = tuple(fns), tuple(places)
    return (
        Chain(*forward, (), ()),
        Chain(*forward, tuple(back[::-1]), tuple(shifted)),
        tuple(scalars),
        (*scalars, *more),
    )


def value(x: Tensor, *, steps: Sequence[object]) -> tuple[Tensor, Saved]:
    """Take all steps in one launch; the input is saved."""
    listed = read(steps)
    chain, _, scalars, _ = _planned(listed)
    return pointwise.value(chain, x, scalars=scalars), (x, listed)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Take all steps again, and back, in one launch."""
    x, steps = saved
    _, chain, _, scalars = _planned(steps)
    return pointwise.vjp(chain, (x,), cotangent, needs, scalars=scalars)


def aten_value(x: Tensor, *, steps: Sequence[object]) -> tuple[Tensor, Saved]:
    """Take the steps one by one, in fp32 where x has 16 bits; the input is saved."""
    listed = read(steps)
    z = wide(x)
    for step in listed:
        z, _ = PAGES[step[0]].aten_value(z, **_bound(step))
    return z.to(x.dtype), (x, listed)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Take the steps again, and then back."""
    if not needs[0]:
        return (None,)
    x, steps = saved
    z, g = wide(x), wide(cotangent)
    kept: list[Saved] = []
    for step in steps:
        z, own = PAGES[step[0]].aten_value(z, **_bound(step))
        kept.append(own)
    for step, own in zip(reversed(steps), reversed(kept), strict=True):
        (back,) = PAGES[step[0]].aten_vjp(own, g, (True,))
        assert back is not None
        g = back
    return (g.to(cotangent.dtype),)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield one contiguous and one strided input: each chain has kernels of its own."""
    x = torch.ones(8, 256, dtype=dtype)
    steps = (("scale", (("c", 0.5),)), "tanh", ("clamp", (("lo", -0.5), ("hi", 0.5))))
    yield (x,), {"steps": steps}
    yield (x.T,), {"steps": steps}


# Four for each chain of the page's.
MOST_KERNELS = 16

op = Op(
    "chain", check, value, vjp, aten_value, aten_vjp, inputs=("x",),
    attributes={"steps": REQUIRED}, plain=True,
)  # fmt: skip
