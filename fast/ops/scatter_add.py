"""Twin of spec.ops.scatter_add.

The value is deterministic: what is added to one entry is added in index order, in the dtype of
computation. On a device an index out of range adds nothing, its gradient is zero, and it sets the
sticky flag. The gradient of x is the cotangent itself.
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


def check(x: Tensor, indices: Tensor, source: Tensor, *, axis: int) -> None:
    """Refuse an axis (C1), a dtype (C2), an index that the host can see (C3) or a shape (C4)."""
    checks.floats("scatter_add", x, source)
    at = checks.axis("scatter_add C1", x.dim(), axis)
    if indices.dtype not in INTEGERS:
        raise Rejected(f"scatter_add C2: the indices are integers, got {indices.dtype}")
    if indices.device != x.device:
        raise Rejected(f"scatter_add: inputs lie on one device, got {x.device}, {indices.device}")
    fitting = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
    if source.shape != fitting:
        raise Rejected(
            f"scatter_add C4: the source has the shape {fitting}, got {tuple(source.shape)}"
        )
    checks.indices("scatter_add C3", indices, x.shape[at])


def value(x: Tensor, indices: Tensor, source: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Add the source to x at the indices, which are saved."""
    checks.for_kernels(x)
    at, flat = axis % x.dim(), indexing.flattened(indices).contiguous()
    z = indexing.scatter("scatter_add", x, x.shape, source, flat, at, indices.dim())
    return z, (at, flat, indices.shape)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Hand the cotangent on to x, and take it at the indices for the source."""
    at, flat, positions = saved
    taken = indexing.gather("scatter_add", cotangent, flat, at, positions) if needs[2] else None
    return cotangent if needs[0] else None, None, taken


def aten_value(x: Tensor, indices: Tensor, source: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Add the source to x at the indices, which are saved."""
    at = axis % x.dim()
    flat, bad = flags.guard("scatter_add", indexing.flattened(indices), x.shape[at])
    z = indexing.aten_scatter(x, x.shape, source, flat, bad, at)
    return z, (at, flat, bad, indices.shape)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Hand the cotangent on to x, and take it at the indices for the source."""
    at, flat, bad, positions = saved
    taken = indexing.aten_gather(cotangent, flat, bad, at, positions) if needs[2] else None
    return cotangent if needs[0] else None, None, taken


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield wide rows and narrow ones."""
    x, indices = torch.ones(8, 512, dtype=dtype), torch.zeros(2, 3, dtype=torch.int64)
    yield (x, indices, torch.ones(2, 3, 512, dtype=dtype)), {"axis": 0}
    yield (x[:, :40], indices, torch.ones(8, 2, 3, dtype=dtype)), {"axis": 1}


op = Op(
    "scatter_add", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "indices", "source"), index_inputs=(1,), attributes={"axis": REQUIRED},
)  # fmt: skip
