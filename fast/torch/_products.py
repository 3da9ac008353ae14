"""Products of torch tensors of any rank, by the ops of two matrices and of batches of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fast.products import is_shared, product_axes
from fast.torch._library import call, define, provider_of, refuse_tangents


def matmul(input: Tensor, other: Tensor, *, provider: str | None = None) -> Tensor:
    """Multiply vectors, matrices and batches of them, which broadcast, as torch.matmul does.

    An operand that all places of a batch share is read where it lies. Raises `Rejected` for
    operands without axes, for inner extents that differ (C2) and for batches that do not broadcast,
    and for two dtypes. See `fast.ops.matmul` and `fast.ops.bmm`.
    """
    chosen = provider_of("matmul", provider, input)
    provider_of("matmul", provider, other)
    refuse_tangents("matmul", (input, other))
    a, b = tuple(input.shape), tuple(other.shape)
    if len(a) == len(b) == 2:
        return call("matmul", (input, other), chosen)
    lead, rows, columns = product_axes(a, b)
    left = input if len(a) > 1 else input[None]
    right = other if len(b) > 1 else other[:, None]
    if is_shared(b):
        flat = left.reshape(math.prod(left.shape[:-1]), left.shape[-1])
        z = call("matmul", (flat, right.reshape(right.shape[-2:])), chosen)
    else:
        z = call("bmm", (_in_batch(left, lead), _in_batch(right, lead)), chosen)
    return z.reshape((*lead, *rows, *columns))


def _in_batch(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Bring matrices that broadcast to a batch in line; one that all share has a stride of 0."""
    matrix, count = x.shape[-2:], math.prod(batch)
    if is_shared(tuple(x.shape)):
        return x.reshape(matrix).expand(count, *matrix)
    return x.expand(*batch, *matrix).reshape(count, *matrix)


def _of_matrices(x: Tensor, y: Tensor) -> Sequence[Any]:
    return (*x.shape[:-1], y.shape[-1])


define("matmul", "Tensor x, Tensor y", "", (), _of_matrices, 2)
define("bmm", "Tensor x, Tensor y", "", (), _of_matrices, 2)
