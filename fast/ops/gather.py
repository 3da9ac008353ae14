"""Twin of spec.ops.gather.

The gradient is deterministic: a stable sort groups the cotangents by the entry that was read, and
each group is added in index order. On a device an index out of range reads as zero, contributes
nothing and sets the sticky flag.
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
    """Refuse an axis (C1), a dtype (C2), an index that the host can see (C3) or a shape (C4)."""
    checks.floats("gather", x)
    at = checks.axis("gather C1", x.dim(), axis)
    if indices.dtype not in INTEGERS:
        raise Rejected(f"gather C2: the indices are integers, got {indices.dtype}")
    if indices.device != x.device:
        raise Rejected(f"gather: inputs lie on one device, got {x.device}, {indices.device}")
    own, shape = x.shape, indices.shape
    if len(shape) != len(own) or shape[:at] != own[:at] or shape[at + 1 :] != own[at + 1 :]:
        raise Rejected(
            f"gather C4: the indices have x's shape but for axis {at}, "
            f"got {tuple(shape)} for {tuple(own)}"
        )
    checks.indices("gather C3", indices, own[at])


def value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices, which are saved."""
    checks.for_kernels(x)
    at, flat = axis % x.dim(), indexing.flattened(indices).contiguous()
    return indexing.pick("gather", x, flat, at, indices.shape), (x.shape, at, flat)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat = saved
    into = indexing.targets(flat, at, shape, cotangent.shape[at])
    return indexing.collect(shape, cotangent, into), None


def aten_value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices, which are saved."""
    at = axis % x.dim()
    flat, bad = flags.guard("gather", indexing.flattened(indices), x.shape[at])
    z = torch.gather(x, at, flat.reshape(indices.shape))
    if bad is not None:
        z = z.masked_fill(bad.reshape(z.shape), 0)
    return z, (x.shape, at, flat, bad)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat, bad = saved
    into = indexing.targets(flat, at, shape, cotangent.shape[at])
    terms = cotangent.reshape(-1)
    return indexing.aten_scatter(None, (shape.numel(),), terms, into, bad, 0).view(shape), None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield one matrix: a kernel has one form."""
    x, indices = torch.ones(8, 512, dtype=dtype), torch.zeros(8, 40, dtype=torch.int64)
    yield (x, indices), {"axis": 1}


op = Op(
    "gather", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "indices"), index_inputs=(1,), attributes={"axis": REQUIRED},
)  # fmt: skip
