"""Hand numbers on in another format.

    z = x, kept in the format `to`

C1  `to` is one of "fp64", "fp32", "bf16" and "fp16".

A number of this book has no format of storage, so here z is x: the rounding, to nearest with ties
to even, is that of who stores the result, and so are the infinity of what a narrower format cannot
hold and the zero of what is too small for it.
The derivative is 1 (CHOICE): rounding is no function that has one. A cotangent arrives in the
format `to` and is handed on in that of x.

Reference: PyTorch's Tensor.to(dtype), JAX's astype, ONNX's Cast.

>>> from spec.tensor import tensor
>>> op(tensor([1, 2]), to="bf16"), op.vjp((tensor([1, 2]),), tensor([3, 5]), to="bf16")
(Tensor([1, 2]), (Tensor([3, 5]),))
"""

from __future__ import annotations

import math
from typing import TypeVar, TypeVarTuple

from spec.kinds import linear, same_shape
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.shape import Shape
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")

FORMATS = ("fp64", "fp32", "bf16", "fp16")
"""The formats by their names."""


def type_rule(x: Type, *, to: str) -> Type:
    """Accept any shape, and the name of a format (C1)."""
    if to not in FORMATS:
        raise refuse("cast C1", f"`to` is one of {', '.join(FORMATS)}", repr(to))
    return same_shape("cast", x)


def value(x: Tensor[A, *Dims], *, to: str) -> Tensor[A, *Dims]:
    """Pass x on."""
    del to
    return x.map(lambda entry: entry)


def transpose(cotangent: AnyTensor, shape: Shape, *, to: str) -> AnyTensor:
    """Pass the cotangent on."""
    del shape, to
    return cotangent


EDGES = (
    Edge(
        ([math.nan, -0.0, math.inf, 1.5],),
        ([math.nan, -0.0, math.inf, 1.5],),
        "IEEE",
        "every format holds these",
        attributes={"to": "bf16"},
    ),
    Edge(
        ([1.0, 2.0],),
        (([math.inf, -0.0],),),
        "CHOICE",
        "cotangents pass as numbers do",
        cotangent=[math.inf, -0.0],
        attributes={"to": "fp16"},
    ),
    Edge(([],), ([],), "IEEE", "of nothing", attributes={"to": "fp32"}),
)

ELSEWHERE = Elsewhere("torch.Tensor.to(x, dtype=to)", "jax.numpy.astype")

op = linear(
    "cast",
    type_rule,
    value,
    transpose,
    edges=EDGES,
    refused=tuple(Miss("C1", ([1.0],), {"to": wrong}) for wrong in ("float32", "int64", "", 16)),
    tried={"to": ("bf16", "fp16", "fp32")},
    elsewhere=ELSEWHERE,
)
