"""Twin of spec.ops.squares_at.

The gradient is deterministic: its terms are formed in fp32 and added in index order. On a device an
index out of range reads as zero, contributes nothing and sets the sticky flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device import flags
from fast.device.bridge import INTEGERS
from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.errors import Rejected
from fast.kernels import checks, indexing
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved


@triton.jit
def _square(x):
    return x * x


@triton.jit
def _term(x, g):
    return 2.0 * x * g


def check(x: Tensor, indices: Tensor, *, axis: int) -> None:
    """Refuse an axis (C1), a dtype (C2) or, where the host can see it, an index (C3)."""
    checks.floats("squares_at", x)
    at = checks.axis("squares_at C1", x.dim(), axis)
    if indices.dtype not in INTEGERS:
        raise Rejected(f"squares_at C2: the indices are integers, got {indices.dtype}")
    if indices.device != x.device:
        raise Rejected(f"squares_at: inputs lie on one device, got {x.device}, {indices.device}")
    checks.indices("squares_at C3", indices, x.shape[at])


def value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices, and square what was read, which is saved."""
    checks.for_kernels(x)
    at, flat = axis % x.dim(), indexing.flattened(indices).contiguous()
    read = indexing.gather("squares_at", x, flat, at, indices.shape)
    return pointwise.value(_square, read), (x.shape, at, flat, indices.dim(), read)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, twice it times the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat, rank, read = saved
    terms = torch.empty(read.shape, dtype=torch.float32, device=read.device)
    pointwise.run(_term, (read, cotangent), (terms,), wide=False)
    dx = indexing.scatter("squares_at", None, shape, terms, flat, at, rank)
    return dx.to(cotangent.dtype), None


def aten_value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices, and square what was read, which is saved."""
    at = axis % x.dim()
    flat, bad = flags.guard("squares_at", indexing.flattened(indices), x.shape[at])
    read = indexing.aten_gather(x, flat, bad, at, indices.shape)
    return read.square(), (x.shape, at, flat, bad, read)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, twice it times the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat, bad, read = saved
    terms = 2.0 * wide(read) * wide(cotangent)
    dx = indexing.aten_scatter(None, shape, terms, flat, bad, at)
    return dx.to(cotangent.dtype), None


MOST_KERNELS = 6
"""The square and the term, contiguous and not; what reads, and what adds up."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield wide rows and narrow ones."""
    x, indices = torch.ones(8, 512, dtype=dtype), torch.zeros(2, 3, dtype=torch.int64)
    yield (x, indices), {"axis": 0}
    yield (x[:, :40], indices), {"axis": 1}


op = Op(
    "squares_at", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "indices"), index_inputs=(1,), attributes={"axis": REQUIRED},
)  # fmt: skip
