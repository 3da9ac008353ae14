"""Kernels of a part of an op, as people write them: what they take is asserted, and then computed.

Each assertion stands for a kernel that would read the wrong memory. It is no NotImplementedError,
so that a call outside the declared part crashes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def only(taken: bool, what: str) -> None:
    """Stop where a kernel is given what it does not take."""
    if not taken:
        raise AssertionError(f"this kernel takes {what} alone")


def rows_of_a_matrix(x: Tensor, axis: int) -> Tensor:
    """Return the softmax of each row of a contiguous matrix."""
    only(x.dim() == 2 and axis % 2 == 1, "rows of a matrix")
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def softmax(x: Tensor, axis: int) -> Tensor:
    """Return the softmax along an axis."""
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e / e.sum(axis, keepdim=True)


def gelu(x: Tensor) -> Tensor:
    """Return gelu by the error function."""
    return x * 0.5 * torch.erfc(-x * math.sqrt(0.5))


def row_major(x: Tensor) -> bool:
    """Say whether the rows of a matrix lie one behind the other, with gaps or without."""
    steps = [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1 and s]
    return steps == sorted(steps, reverse=True) and len(set(steps)) == len(steps)
