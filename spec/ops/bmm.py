"""Multiply matrices, one pair for each place of a batch.

    z[b, i, j] = sum_k x[b, i, k] * y[b, k, j]

C1  both inputs have three axes.
C2  the batch extents are equal: nothing is broadcast.
C3  the inner extents are equal: x is [B, M, K], y is [B, K, N].

An empty inner axis gives zeros, and an empty batch an empty result.

Reference: BLAS gemm_batch without its scalars.

>>> from spec.tensor import tensor
>>> op(tensor([[[1, 2]], [[3, 4]]]), tensor([[[10], [1]], [[1], [10]]]))
Tensor([[[12]], [[43]]])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.kinds import bilinear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.ops.permute import value as permuted
from spec.refusals import Miss
from spec.scalar import dot_over
from spec.tensor import Tensor, tabulate

A = TypeVar("A")
B = TypeVar("B")
M = TypeVar("M")
K = TypeVar("K")
N = TypeVar("N")


def type_rule(x: Type, y: Type) -> Type:
    """Accept three axes each (C1), of one batch (C2) and with equal inner extents (C3)."""
    if len(x.shape) != 3 or len(y.shape) != 3:
        rule = "both inputs have three axes; a session's matmul takes other ranks"
        raise refuse("bmm C1", rule, f"{x} and {y}")
    if x.shape[0] != y.shape[0]:
        raise refuse("bmm C2", "the batch extents are equal", f"{x} and {y}")
    if x.shape[2] != y.shape[1]:
        raise refuse("bmm C3", "the inner extents are equal", f"{x} and {y}")
    return Type((x.shape[0], x.shape[1], y.shape[2]))


def value(x: Tensor[A, B, M, K], y: Tensor[A, B, K, N]) -> Tensor[A, B, M, N]:
    """Contract the last axis of x with the middle one of y, at each place of the batch."""
    inner = x.shape[2]

    def entry(b: Any, i: Any, j: Any) -> A:
        def left(k: Any) -> A:
            return x[b, i, k]

        def right(k: Any) -> A:
            return y[b, k, j]

        return dot_over(inner, left, right)

    return tabulate((x.shape[0], x.shape[1], y.shape[2]), entry)


def transpose_left(cotangent: AnyTensor, y: AnyTensor) -> AnyTensor:
    """Return cotangent @ y^T at each place, the transpose in the slot of x."""
    return value(cotangent, permuted(y, axes=(0, 2, 1)))


def transpose_right(cotangent: AnyTensor, x: AnyTensor) -> AnyTensor:
    """Return x^T @ cotangent at each place, the transpose in the slot of y."""
    return value(permuted(x, axes=(0, 2, 1)), cotangent)


EDGES = (
    Edge(([[[3.0]]], [[[-0.0]]]), ([[[-0.0]]], [[[0.0]]]), "IEEE", "the sum may start from +0"),
    Edge(
        ([[[math.inf]], [[1.0]]], [[[0.0]], [[2.0]]]),
        ([[[math.nan]], [[2.0]]],),
        "IEEE",
        "infinity times zero has no value, and stays in its place of the batch",
    ),
)

REFUSED = (
    Miss("C1", ([[1.0]], [[1.0]])),
    Miss("C1", ([[[1.0]]], [[1.0]])),
    Miss("C1", ([[1.0]], [[[1.0]]])),
    Miss("C1", ([[[[1.0]]]], [[[[1.0]]]])),
    Miss("C2", ([[[1.0]], [[1.0]]], [[[1.0]]])),
    Miss("C2", ([[[1.0]]], [[[1.0]], [[1.0]]])),
    Miss("C3", ([[[1.0, 2.0]]], [[[1.0, 2.0]]])),
)

ELSEWHERE = Elsewhere("torch.bmm(x, y)", "jax.numpy.matmul")

op = bilinear(
    "bmm",
    type_rule,
    value,
    (transpose_left, transpose_right),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
