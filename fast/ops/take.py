"""Twin of spec.ops.take.

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
from fast.kernels.page import REQUIRED, Gradients, Op, Saved


def check(x: Tensor, indices: Tensor, *, axis: int) -> None:
    """Refuse an axis (C1), a dtype (C2) or, where the host can see it, an index (C3)."""
    checks.floats("take", x)
    at = checks.axis("take C1", x.dim(), axis)
    if indices.dtype not in INTEGERS:
        raise Rejected(f"take C2: the indices are integers, got {indices.dtype}")
    if indices.device != x.device:
        raise Rejected(f"take: inputs lie on one device, got {x.device}, {indices.device}")
    checks.indices("take C3", indices, x.shape[at])


def value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices; the indices are saved."""
    checks.for_kernels(x)
    at, flat = axis % x.dim(), indexing.flattened(indices).contiguous()
    z = indexing.gather("take", x, flat, at, indices.shape)
    return z, (x.shape, at, flat, indices.dim())


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat, rank = saved
    return indexing.scatter("take", None, shape, cotangent, flat, at, rank), None


def aten_value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices; the indices are saved."""
    at = axis % x.dim()
    flat, bad = flags.guard("take", indexing.flattened(indices), x.shape[at])
    return indexing.aten_gather(x, flat, bad, at, indices.shape), (x.shape, at, flat, bad)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat, bad = saved
    return indexing.aten_scatter(None, shape, cotangent, flat, bad, at), None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield wide rows and narrow ones."""
    x, indices = torch.ones(8, 512, dtype=dtype), torch.zeros(2, 3, dtype=torch.int64)
    yield (x, indices), {"axis": 0}
    yield (x[:, :40], indices), {"axis": 1}


op = Op(
    "take", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "indices"), index_inputs=(1,), attributes={"axis": REQUIRED},
)  # fmt: skip
