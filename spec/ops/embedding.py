"""Look rows of a table up by their numbers.

    z[i, k] = weight[indices[i], k]     (indices may have any rank)

C1  the weight is a matrix: a row for each number.
C2  the indices are integers.
C3  every index lies in [0, rows of the weight); there is no counting from the back.

It is take along the first axis. A row that was looked up twice receives both cotangents, added in
index order; one that was not receives 0.

Reference: PyTorch's embedding, without its padding_idx, max_norm, scale_grad_by_freq and sparse.

>>> from spec.tensor import tensor
>>> weight = tensor([[10, 11], [20, 21], [30, 31]])
>>> op(tensor([2, 0]), weight)
Tensor([[30, 31], [10, 11]])
>>> op.vjp((tensor([2, 2]), weight), tensor([[1, 2], [3, 4]]))
(None, Tensor([[0, 0], [0, 0], [4, 6]]))
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, IndexRange, Type, refuse
from spec.ops.take import op as take
from spec.refusals import Miss
from spec.scalar import Extent


def type_rule(indices: Type, weight: Type) -> Type:
    """Accept a matrix (C1) and integer indices (C2)."""
    if len(weight.shape) != 2:
        raise refuse("embedding C1", "the weight is a matrix", weight)
    if not indices.index:
        raise refuse("embedding C2", "the indices are integers", indices)
    return Type((*indices.shape, weight.shape[1]))


def rows(indices: Type, weight: Type) -> tuple[Extent, Extent]:
    """Return the first and the last row that an index may name (C3)."""
    return 0, weight.shape[0] - 1


def program(ops: Any, indices: Any, weight: Any) -> Any:
    """Take rows."""
    return ops.take(weight, indices, axis=0)


_TABLE: Any = [[1.0, -0.0], [math.nan, 4.0]]

EDGES = (
    Edge(([0, 0], _TABLE), ([[1.0, -0.0], [1.0, -0.0]],), "IEEE", "a row is copied as it is"),
    Edge(
        ([1, 1], _TABLE),
        ((None, [[0.0, 0.0], [3.0, math.inf]]),),
        "CHOICE",
        "repeated rows accumulate, and others receive 0",
        cotangent=[[1.0, 1.0], [2.0, math.inf]],
    ),
)

REFUSED = (
    *(Miss("C1", ([0], wrong)) for wrong in ([1.0, 2.0], 1.0, [[[1.0]]])),
    *(Miss("C2", (wrong, _TABLE)) for wrong in ([0.0], [True])),
    *(Miss("C3", (wrong, _TABLE)) for wrong in ([2], [-1], 2)),
)

ELSEWHERE = Elsewhere("torch.nn.functional.embedding(indices, weight)", "jax.numpy.take")

op = composite(
    "embedding",
    type_rule,
    program,
    (take,),
    index_inputs=(0,),
    index_ranges=(IndexRange("C3", rows),),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
