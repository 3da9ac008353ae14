"""Twin of spec.ops.one_hot.

The result has the dtype of the session, as that of an op that draws. On a device an index out of
range has a row of zeros and sets the sticky flag.
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


def check(indices: Tensor, *, classes: int, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse a number of classes (C1), a dtype (C2) or an index that the host can see (C3)."""
    checks.floats("one_hot", torch.empty(0, dtype=dtype))
    if type(classes) is not int or classes < 1:
        raise Rejected(f"one_hot C1: classes is an integer >= 1, got {classes!r}")
    if indices.dtype not in INTEGERS:
        raise Rejected(f"one_hot C2: the indices are integers, got {indices.dtype}")
    if indices.device.type != device.type:
        raise Rejected(f"one_hot: the indices lie on {device}, got {indices.device}")
    checks.indices("one_hot C3", indices, classes)


def value(
    indices: Tensor, *, classes: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Saved]:
    """Compare each index with each class; nothing is saved."""
    return indexing.one_hot("one_hot", indices, classes, dtype), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return nothing: indices have no gradient."""
    return (None,)


def aten_value(
    indices: Tensor, *, classes: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Saved]:
    """Compare each index with each class; nothing is saved."""
    flat, bad = flags.guard("one_hot", indexing.flattened(indices), classes)
    hit = flat[:, None] == torch.arange(classes, device=indices.device)
    if bad is not None:
        hit = hit & ~bad[:, None]
    return hit.to(dtype).reshape((*indices.shape, classes)), ()


aten_vjp = vjp


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield one vector: a kernel has one form."""
    place = {"dtype": dtype, "device": torch.device("cpu")}
    yield (torch.zeros(64, dtype=torch.int64),), {"classes": 100, **place}


op = Op(
    "one_hot", check, value, vjp, aten_value, aten_vjp,
    inputs=("indices",), index_inputs=(0,), source=True, attributes={"classes": REQUIRED},
)  # fmt: skip
