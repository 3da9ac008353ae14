"""Products of torch tensors of any rank, by the ops of two matrices and of batches of them."""

from __future__ import annotations

import math

from torch import Tensor

from fast.broadcasting import common
from fast.errors import Rejected
from fast.torch._functions import _call, _chosen, _refuse_tangents


def matmul(input: Tensor, other: Tensor, *, provider: str | None = None) -> Tensor:
    """Multiply vectors, matrices and batches of them, which broadcast, as torch.matmul does.

    An operand that all places of a batch share is read where it lies. Raises `Rejected` for
    operands without axes, for inner extents that differ (C2) and for batches that do not broadcast,
    and for two dtypes. See `fast.ops.matmul` and `fast.ops.bmm`.
    """
    chosen = _chosen("matmul", provider, input)
    _chosen("matmul", provider, other)
    _refuse_tangents("matmul", (input, other))
    a, b = tuple(input.shape), tuple(other.shape)
    if len(a) == len(b) == 2:
        return _call("matmul", (input, other), chosen)
    if not a or not b:
        raise Rejected(f"fast.torch.matmul: each operand has an axis at least; got {a} and {b}")
    left = input if len(a) > 1 else input[None]
    right = other if len(b) > 1 else other[:, None]
    if left.shape[-1] != right.shape[-2]:
        raise Rejected(f"matmul C2: the inner extents are equal; got {a} and {b}")
    batch = common("matmul", tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    if all(extent == 1 for extent in right.shape[:-2]):
        rows = left.reshape(math.prod(left.shape[:-1]), left.shape[-1])
        z = _call("matmul", (rows, right.reshape(right.shape[-2:])), chosen)
    else:
        z = _call("bmm", (_in_batch(left, batch), _in_batch(right, batch)), chosen)
    return z.reshape((*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())))


def _in_batch(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Bring matrices that broadcast to a batch in line; one that all share has a stride of 0."""
    matrix, count = x.shape[-2:], math.prod(batch)
    if all(extent == 1 for extent in x.shape[:-2]):
        return x.reshape(matrix).expand(count, *matrix)
    return x.expand(*batch, *matrix).reshape(count, *matrix)
