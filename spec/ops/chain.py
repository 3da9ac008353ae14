"""Apply pointwise ops one after the other.

    z = f_n(... f_2(f_1(x)))        (f_1, ..., f_n are the steps)

C1  there is at least one step; each is the name of a pointwise op of one input, or a pair of such a
    name and the op's attributes.

What an op refuses, its own page refuses here, too.
The op is there so that its twin may take all steps at once, and store nothing between them.

Reference: fused element-wise kernels.

>>> from spec.tensor import tensor
>>> op(tensor([3.0, -4.0]), steps=("abs", ("scale", {"c": 0.5})))
Tensor([1.5, 2.0])
>>> op.vjp((tensor([3.0, -4.0]),), tensor([1.0, 1.0]), steps=("abs", ("scale", {"c": 0.5})))
(Tensor([0.5, -0.5]),)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, Op, Type, refuse
from spec.refusals import Miss

NAMES = (
    *("neg", "scale", "abs", "square", "sqrt", "reciprocal", "rsqrt", "exp", "expm1", "log"),
    *("log1p", "sin", "cos", "pow", "tanh", "erf", "sigmoid", "log_sigmoid", "softplus"),
    *("safe_log", "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "clamp"),
    *("hardtanh", "hardsigmoid", "hardswish", "softsign"),
)
"""The pointwise ops of one input."""
PAGES: dict[str, Op] = {name: import_module(f"spec.ops.{name}").op for name in NAMES}


def read(steps: object) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and the attributes of the steps (C1)."""
    given: Any = steps
    found = [_step(one) for one in given] if isinstance(steps, (tuple, list)) else []
    if not found or None in found:
        rule = "steps are names of pointwise ops of one input, alone or paired with attributes"
        raise refuse("chain C1", rule, repr(given))
    return [step for step in found if step is not None]


def _step(one: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the attributes of a step, given as a mapping or as pairs."""
    name, given = _pair(one) or (one, ())
    listed: Any = [*given.items()] if isinstance(given, Mapping) else given
    several = isinstance(given, (Mapping, tuple, list))
    found = [_pair(each) for each in listed] if several else [None]
    if name not in NAMES or None in found:
        return None
    return name, dict(pair for pair in found if pair is not None)


def _pair(one: Any) -> tuple[Any, Any] | None:
    known: Any = one
    return (known[0], known[1]) if isinstance(one, (tuple, list)) and len(known) == 2 else None


def type_rule(x: Type, *, steps: Sequence[object]) -> Type:
    """Accept any shape, and steps (C1) that take it."""
    for name, attributes in read(steps):
        PAGES[name].check_types(x, **attributes)
    return x


def program(ops: Any, x: Any, *, steps: Sequence[object]) -> Any:
    """Take the steps."""
    for name, attributes in read(steps):
        x = getattr(ops, name)(x, **attributes)
    return x


_HALVED = ("scale", (("c", 0.5),))

EDGES = (
    Edge(([-0.0],), ([0.0],), "IEEE", "one step is that op", attributes={"steps": ("neg",)}),
    Edge(
        ([math.nan, math.inf],),
        ([math.nan, -1.0],),
        "IEEE",
        "NaN and infinities go through the steps",
        attributes={"steps": ("neg", "tanh")},
    ),
    Edge(
        ([-2.0, 4.0],),
        (([0.0, 1.5],),),
        "CHOICE",
        "what a step lets no cotangent through, gets none",
        cotangent=[math.inf, 3.0],
        attributes={"steps": ("relu", _HALVED)},
    ),
)

REFUSED = tuple(
    Miss("C1", ([1.0],), {"steps": wrong})
    for wrong in ((), "neg", ("matmul",), ("add",), (("neg", "neg"),), (3,), ("neg", None))
)

TRIED = {
    "steps": (
        (_HALVED, "tanh"),
        ("relu",),
        ("sigmoid", "square", _HALVED),
        ("neg", ("leaky_relu", (("slope", 0.25),)), "abs", ("clamp", (("lo", 0.25), ("hi", 4.0)))),
    )
}

op = composite(
    "chain", type_rule, program, tuple(PAGES.values()),
    edges=EDGES, refused=REFUSED, tried=TRIED, elsewhere=Elsewhere("torch.compile", "jax.jit"),
)  # fmt: skip
value = op.value
