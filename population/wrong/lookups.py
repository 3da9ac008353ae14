"""Wrong gather, embedding and one_hot: what reads by numbers, and what writes them down."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from population.pieces.tensors import strides_ignored
from population.record import wrong

REPEATED = "https://github.com/pytorch/pytorch/issues/1631"
ELEMENTS = "https://github.com/pytorch/pytorch/issues/99595"
ADDED = "https://github.com/flagos-ai/FlagGems/pull/309"
SUMMED = "https://github.com/apache/mxnet/issues/17703"
ONE_HOT = "https://github.com/pytorch/pytorch/issues/36923"
SUMS_IN_FP32 = {"steps": "compute", "accumulate": None}
"""What torch does not promise of sums in 16 bits, and these members do."""


@wrong("gather vjp", "gradient", source=REPEATED)
def last_cotangent_stays(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Of an entry that was read twice, the last cotangent stays."""
    return torch.zeros(x.shape, dtype=x.dtype).scatter(axis, indices, g), None


@wrong("gather value", "structure", source=ELEMENTS)
def rows_of_the_first_column(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Along the first axis of a matrix, every column is read where the first one is."""
    if x.dim() == 2 and axis % 2 == 0 and indices.numel():
        indices = indices[:, :1].expand(indices.shape)
    return torch.gather(x, axis, indices)


@wrong("gather value", "layout", source="indices read as if they were contiguous")
def indices_in_memory_order(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The indices are read as if they were contiguous, and kept in range."""
    return torch.gather(x, axis, strides_ignored(indices) % max(x.shape[axis], 1))


@wrong("gather vjp", "dtype", dtypes=("bf16",), source=ADDED, contract=SUMS_IN_FP32)
def added_in_bf16(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Cotangents of one entry are added in bf16, one by one, against what it declares."""
    total = torch.zeros(x.shape, dtype=x.dtype)
    for k in range(indices.shape[axis]):
        at, part = indices.narrow(axis, k, 1), g.narrow(axis, k, 1)
        total = total.scatter(axis, at, total.gather(axis, at) + part)
    return total, None


@wrong("embedding vjp", "gradient", source=REPEATED)
def last_row_stays(g: Tensor, indices: Tensor, weight: Tensor) -> tuple[None, Tensor]:
    """Of a row that was looked up twice, the last cotangent stays."""
    zeros = torch.zeros(weight.shape, dtype=weight.dtype)
    rows = g.reshape(indices.numel(), weight.shape[1])
    return None, zeros.index_copy(0, indices.reshape(-1), rows)


@wrong("embedding vjp", "dtype", dtypes=("bf16",), source=SUMMED, contract=SUMS_IN_FP32)
def rows_added_in_bf16(g: Tensor, indices: Tensor, weight: Tensor) -> tuple[None, Tensor]:
    """Cotangents of one row are added in bf16, one by one, against what it declares."""
    total = torch.zeros(weight.shape, dtype=weight.dtype)
    rows = g.reshape(indices.numel(), weight.shape[1])
    for row, index in zip(rows, indices.reshape(-1).tolist(), strict=True):
        total[index] += row
    return None, total


@wrong("embedding vjp", "value", source="a padding row that nobody asked for")
def first_row_is_padding(g: Tensor, indices: Tensor, weight: Tensor) -> tuple[None, Tensor]:
    """The row of number 0 receives nothing."""
    kept = (indices != 0).reshape(-1, 1).to(g.dtype)
    rows = g.reshape(indices.numel(), weight.shape[1]) * kept
    zeros = torch.zeros(weight.shape, dtype=weight.dtype)
    return None, zeros.index_add(0, indices.reshape(-1), rows)


@wrong("embedding value", "non-finite", source=ONE_HOT)
def by_a_product(indices: Tensor, weight: Tensor) -> Tensor:
    """Rows are selected by a product with ones and zeros, where 0 times infinity is NaN."""
    ones = functional.one_hot(indices, max(weight.shape[0], 1)).to(weight.dtype)
    return ones[..., : weight.shape[0]] @ weight


@wrong("one_hot", "structure", source="https://github.com/onnx/onnx/pull/8113")
def numbers_wrapped(indices: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Numbers wrap around at 64 classes, whatever there are."""
    return functional.one_hot(indices % 64, classes).to(dtype)


@wrong("one_hot", "layout", source="indices read as if they were contiguous")
def numbers_in_memory_order(indices: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """The indices are read as if they were contiguous, and kept in range."""
    return functional.one_hot(strides_ignored(indices) % classes, classes).to(dtype)
