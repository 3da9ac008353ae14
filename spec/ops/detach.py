"""Pass a value on and let no derivative through.

    z[i] = x[i],    tangent and cotangent are 0 by decision

The two maps are stated, not derived: this op is where a program says "constant from here on".
A tape stops here: what lies behind counts as not reached, so that an optimizer leaves it alone.
It never shares ownership of a buffer with its input.

Reference: PyTorch's detach; JAX's stop_gradient.

>>> from spec.tensor import tensor
>>> op(tensor([1, 2])), op.vjp((tensor([1, 2]),), tensor([5, 5]))
(Tensor([1, 2]), (Tensor([0, 0]),))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar, TypeVarTuple

from spec.kinds import irregular, same_shape
from spec.op import AnyTensor, Edge, Elsewhere, Type, zeros_like
from spec.scalar import stop
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("detach", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Pass x on, without the tangents that its entries may carry."""
    return x.map(stop)


def jvp(inputs: Sequence[AnyTensor], tangents: Sequence[AnyTensor | None]) -> AnyTensor:
    """Answer zero to every tangent."""
    del tangents
    return zeros_like(inputs[0])


def vjp(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> tuple[AnyTensor | None, ...]:
    """Answer zero to every cotangent."""
    del cotangent
    return (zeros_like(inputs[0]),)


EDGES = (
    Edge(([math.nan, -0.0],), ([math.nan, -0.0],), "IEEE", "the value is untouched"),
    Edge(([1.0],), (([0.0],),), "CHOICE", "not even an infinity passes", cotangent=[math.inf]),
)

ELSEWHERE = Elsewhere("torch.Tensor.detach(x)", "jax.lax.stop_gradient")

op = irregular(
    "detach", type_rule, value, jvp, vjp, stops_gradients=True, edges=EDGES, elsewhere=ELSEWHERE
)
