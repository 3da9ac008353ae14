"""Apply a linear layer, and a curve to each entry of its result.

    y = linear(x, w, b)
    z = activation(y)

C1  x has at least one axis, w has two, b has one.
C2  the last extent of x equals the last of w.
C3  the extent of b equals the first of w.
C4  activation is one of relu, gelu, gelu_tanh, silu, tanh and sigmoid.

A composite: the page of linear, then that of the curve. gelu_tanh is gelu with the approximation of
that name. The op is there so that its twin may bend an entry before it is rounded and stored.

Reference: PyTorch's functional linear and its activations; cuBLASLt's epilogues.

>>> from spec.tensor import tensor
>>> op(tensor([1, 2]), tensor([[1, 0], [0, 1], [1, 1]]), tensor([10, -20, 30]), activation="relu")
Tensor([11, 0, 33])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.gelu import op as gelu
from spec.ops.linear import REFUSED as UNFIT
from spec.ops.linear import fitting
from spec.ops.linear import op as linear
from spec.ops.relu import op as relu
from spec.ops.sigmoid import op as sigmoid
from spec.ops.silu import op as silu
from spec.ops.tanh import op as tanh
from spec.refusals import Miss

ACTIVATIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "relu": ("relu", {}), "gelu": ("gelu", {}), "gelu_tanh": ("gelu", {"approximate": "tanh"}),
    "silu": ("silu", {}), "tanh": ("tanh", {}), "sigmoid": ("sigmoid", {}),
}  # fmt: skip
"""The page of each curve, and the attributes with which it is called."""


def type_rule(x: Type, w: Type, b: Type, *, activation: str) -> Type:
    """Accept ranks (C1), inner extents (C2) and bias (C3) that fit, and a curve (C4)."""
    result = fitting("linear_activation", x, w, b)
    given: Any = activation
    if not isinstance(given, str) or given not in ACTIVATIONS:
        rule = f"activation is one of {tuple(ACTIVATIONS)}"
        raise refuse("linear_activation C4", rule, repr(given))
    return result


def program(ops: Any, x: Any, w: Any, b: Any, *, activation: str) -> Any:
    """Multiply, add the bias, and bend."""
    name, attributes = ACTIVATIONS[activation]
    return getattr(ops, name)(ops.linear(x, w, b), **attributes)


EDGES = (
    Edge(
        ([], [[], []], [2.0, -2.0]),
        ([2.0, 0.0], [2.0, -0.0]),
        "IEEE",
        "no inputs leave the bias to be bent",
        attributes={"activation": "relu"},
    ),
    Edge(
        ([math.inf], [[1.0], [-1.0]], [0.0, 0.0]),
        ([1.0, 0.0],),
        "IEEE",
        "infinite entries go to the limits",
        attributes={"activation": "sigmoid"},
    ),
    Edge(
        ([1.0], [[1.0], [1.0]], [-1.0, -4.0]),
        (([0.0], [[0.0], [0.0]], [0.0, 0.0]),),
        "CHOICE",
        "at the kink and below it nothing comes back, also of an infinite cotangent",
        cotangent=[math.inf, math.nan],
        attributes={"activation": "relu"},
    ),
    Edge(
        ([4.0], [[0.5]], [-2.0]),
        (([0.5], [[4.0]], [1.0]),),
        "IEEE",
        "the rate of gelu at 0 is 1/2",
        cotangent=[2.0],
        attributes={"activation": "gelu"},
    ),
)

REFUSED = (
    *(Miss(miss.label, miss.inputs, {"activation": "relu"}) for miss in UNFIT),
    *(
        Miss("C4", ([1.0], [[1.0]], [1.0]), {"activation": other})
        for other in ("none", "linear", "GELU", None, ("gelu",))
    ),
)

TRIED = {"activation": tuple(ACTIVATIONS)}

_CURVES = (
    "{'relu': torch.relu, 'gelu': torch.nn.functional.gelu, "
    "'gelu_tanh': lambda x: torch.nn.functional.gelu(x, approximate='tanh'), "
    "'silu': torch.nn.functional.silu, 'tanh': torch.tanh, 'sigmoid': torch.sigmoid}"
)

ELSEWHERE = Elsewhere(
    None, None, formula=f"{_CURVES}[activation](torch.nn.functional.linear(x, w, b))"
)

op = composite(
    "linear_activation", type_rule, program, (linear, relu, gelu, silu, tanh, sigmoid),
    edges=EDGES, refused=REFUSED, tried=TRIED, elsewhere=ELSEWHERE,
)  # fmt: skip
value = op.value
