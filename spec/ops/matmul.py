"""Multiply two matrices.

    z[i, j] = sum_k x[i, k] * y[k, j]

C1  both inputs have two axes.
C2  the inner extents are equal: x is [M, K], y is [K, N].

An empty inner axis gives zeros.

Reference: BLAS gemm without its scalars.

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2], [3, 4]]), tensor([[10], [1]]))
Tensor([[12], [34]])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.kinds import bilinear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.ops.permute import value as transposed
from spec.refusals import Miss
from spec.scalar import dot_over
from spec.tensor import Tensor, tabulate

A = TypeVar("A")
M = TypeVar("M")
K = TypeVar("K")
N = TypeVar("N")


def type_rule(x: Type, y: Type) -> Type:
    """Accept two matrices (C1) with equal inner extents (C2)."""
    if len(x.shape) != 2 or len(y.shape) != 2:
        rule = "both inputs have two axes; a vector v is a column as v[:, None], a row as v[None]"
        raise refuse("matmul C1", rule, f"{x} and {y}")
    if x.shape[1] != y.shape[0]:
        raise refuse("matmul C2", "the inner extents are equal", f"{x} and {y}")
    return Type((x.shape[0], y.shape[1]))


def value(x: Tensor[A, M, K], y: Tensor[A, K, N]) -> Tensor[A, M, N]:
    """Contract the last axis of x with the first of y."""
    inner = x.shape[1]

    def entry(i: Any, j: Any) -> A:
        def left(k: Any) -> A:
            return x[i, k]

        def right(k: Any) -> A:
            return y[k, j]

        return dot_over(inner, left, right)

    return tabulate((x.shape[0], y.shape[1]), entry)


def transpose_left(cotangent: AnyTensor, y: AnyTensor) -> AnyTensor:
    """Return cotangent @ y^T, the transpose in the slot of x."""
    return value(cotangent, transposed(y, axes=(1, 0)))


def transpose_right(cotangent: AnyTensor, x: AnyTensor) -> AnyTensor:
    """Return x^T @ cotangent, the transpose in the slot of y."""
    return value(transposed(x, axes=(1, 0)), cotangent)


EDGES = (
    Edge(([[3.0]], [[-0.0]]), ([[-0.0]], [[0.0]]), "IEEE", "one term; the sum may start from +0"),
    Edge(([[math.inf]], [[0.0]]), ([[math.nan]],), "IEEE", "infinity times zero has no value"),
)

REFUSED = (
    Miss("C1", ([1.0, 2.0], [[1.0], [2.0]])),
    Miss("C1", ([[1.0, 2.0]], [1.0, 2.0])),
    Miss("C1", ([[[1.0]]], [[[1.0]]])),
    Miss("C1", ([[[1.0]]], [[1.0]])),
    Miss("C2", ([[1.0, 2.0]], [[1.0, 2.0]])),
)

ELSEWHERE = Elsewhere("torch.matmul(x, y)", "jax.numpy.matmul")

op = bilinear(
    "matmul",
    type_rule,
    value,
    (transpose_left, transpose_right),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
