"""Twin of spec.ops.embedding.

The gradient is deterministic: cotangents are added in index order. On a device an index out of
range reads as zero, contributes nothing and sets the sticky flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device import flags
from fast.device.bridge import INTEGERS
from fast.errors import Rejected
from fast.kernels import checks, indexing
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved


def check(indices: Tensor, weight: Tensor) -> None:
    """Refuse what is no matrix (C1), a dtype (C2) or, where the host can see it, an index (C3)."""
    checks.floats("embedding", weight)
    if weight.dim() != 2:
        raise Rejected(f"embedding C1: the weight is a matrix, got {tuple(weight.shape)}")
    if indices.dtype not in INTEGERS:
        raise Rejected(f"embedding C2: the indices are integers, got {indices.dtype}")
    if indices.device != weight.device:
        came = f"{indices.device}, {weight.device}"
        raise Rejected(f"embedding: inputs lie on one device, got {came}")
    checks.indices("embedding C3", indices, weight.shape[0])


def value(indices: Tensor, weight: Tensor) -> tuple[Tensor, Saved]:
    """Read rows of the weight; the indices are saved."""
    checks.for_kernels(weight)
    flat = indexing.flattened(indices).contiguous()
    z = indexing.gather("embedding", weight, flat, 0, indices.shape)
    return z, (weight.shape, flat, indices.dim())


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each row, the cotangents of where it was read."""
    if not needs[1]:
        return None, None
    shape, flat, rank = saved
    return None, indexing.scatter("embedding", None, shape, cotangent, flat, 0, rank)


def aten_value(indices: Tensor, weight: Tensor) -> tuple[Tensor, Saved]:
    """Read rows of the weight; the indices are saved."""
    flat, bad = flags.guard("embedding", indexing.flattened(indices), weight.shape[0])
    z = indexing.aten_gather(weight, flat, bad, 0, indices.shape)
    return z, (weight.shape, flat, bad)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each row, the cotangents of where it was read."""
    if not needs[1]:
        return None, None
    shape, flat, bad = saved
    return None, indexing.aten_scatter(None, shape, cotangent, flat, bad, 0)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield wide rows and narrow ones."""
    weight, indices = torch.ones(8, 512, dtype=dtype), torch.zeros(2, 3, dtype=torch.int64)
    yield (indices, weight), {}
    yield (indices, weight[:, :32]), {}


op = Op(
    "embedding", check, value, vjp, aten_value, aten_vjp,
    inputs=("indices", "weight"), index_inputs=(0,),
)  # fmt: skip
