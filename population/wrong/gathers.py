"""Wrong take, scatter_add and nll_loss: what reads and writes by position."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.labelled import by_rows
from population.pieces.tensors import strides_ignored
from population.record import wrong

ONE_HOT = "https://github.com/pytorch/pytorch/issues/36923"
NARROW = "https://github.com/linkedin/Liger-Kernel/issues/950"
LIGER = "https://github.com/linkedin/Liger-Kernel/issues/678"
IGNORED = "https://github.com/pytorch/pytorch/issues/116349"
CUSTOM = "https://github.com/pytorch/pytorch/issues/12670"
INTEGERS = "https://github.com/fla-org/flash-linear-attention/issues/1080"
COUNTED = "https://github.com/huggingface/transformers/issues/34191"
SUMS_IN_FP32 = {"steps": "compute", "accumulate": None}
"""What torch does not promise of sums in 16 bits, and these members do."""

EMPTY = "https://github.com/pytorch/pytorch/issues/31515"


def _take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    at = axis % x.dim()
    chosen = torch.index_select(x, at, indices.reshape(-1))
    return chosen.reshape(x.shape[:at] + indices.shape + x.shape[at + 1 :])


def _flat(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return a cotangent with the axes of the indices made one."""
    at = axis % x.dim()
    return g.reshape(*x.shape[:at], indices.numel(), *x.shape[at + 1 :])


def _back(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    zeros = torch.zeros(x.shape, dtype=x.dtype)
    return zeros.index_add(axis % x.dim(), indices.reshape(-1), _flat(g, x, indices, axis))


@wrong("take value", "non-finite", source=ONE_HOT)
def by_a_one_hot_product(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Entries are selected by a product with ones and zeros, where 0 times infinity is NaN."""
    at = axis % x.dim()
    ones = torch.nn.functional.one_hot(indices.reshape(-1), x.shape[at]).to(x.dtype)
    found: Tensor = torch.tensordot(ones, x, dims=([1], [at])).movedim(0, at)
    return found.reshape(x.shape[:at] + indices.shape + x.shape[at + 1 :])


@wrong("take value", "structure", source="gathers written for embeddings")
def rows_of_a_matrix(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """In rank 3, the middle axis is read with the outer stride of the last slice."""
    if x.dim() == 3 and axis % 3 == 1:
        x = x[:1].expand(x.shape)
    return _take(x, indices, axis)


@wrong("take value", "layout", source="indices read as if they were contiguous")
def strides_of_the_indices(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The indices are read as if they were contiguous, and kept in range."""
    return _take(x, strides_ignored(indices) % x.shape[axis], axis)


@wrong("take value", "sizes", source=INTEGERS)
def indices_of_8_bits(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Indices are kept in 8 bits where the axis is longer than 255."""
    return _take(x, indices % 256 if x.shape[axis] > 256 else indices, axis)


@wrong("take vjp", "gradient", source="scattered gradients that are assigned, not added")
def duplicates_overwritten(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Of an entry that was selected twice, the last cotangent stays."""
    zeros = torch.zeros(x.shape, dtype=x.dtype)
    flat = _flat(g, x, indices, axis).contiguous()
    return zeros.index_copy(axis % x.dim(), indices.reshape(-1), flat), None


@wrong("take vjp", "dtype", dtypes=("bf16",), source=NARROW, contract=SUMS_IN_FP32)
def duplicates_added_in_bf16(
    g: Tensor, x: Tensor, indices: Tensor, axis: int
) -> tuple[Tensor, None]:
    """Cotangents of one entry are added in bf16, one by one, against what it declares."""
    total = torch.zeros(x.shape, dtype=x.dtype)
    flat = _flat(g, x, indices, axis)
    at = axis % x.dim()
    for k, index in enumerate(indices.reshape(-1).tolist()):
        total.select(at, index).add_(flat.select(at, k))
    return total, None


@wrong("take vjp", "sizes", source="one block of indices")
def first_indices_alone(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Indices behind the first 128 are left out."""
    at = axis % x.dim()
    count = min(128, indices.numel())
    flat = _flat(g, x, indices, axis).narrow(at, 0, count)
    zeros = torch.zeros(x.shape, dtype=x.dtype)
    return zeros.index_add(at, indices.reshape(-1)[:count], flat), None


@wrong("take vjp", "non-finite", source=ONE_HOT)
def gradient_by_a_one_hot_product(
    g: Tensor, x: Tensor, indices: Tensor, axis: int
) -> tuple[Tensor, None]:
    """The cotangent is scattered by a product, where 0 times infinity is NaN."""
    at = axis % x.dim()
    ones = torch.nn.functional.one_hot(indices.reshape(-1), x.shape[at]).to(x.dtype)
    flat = _flat(g, x, indices, axis)
    return torch.tensordot(ones, flat, dims=([0], [at])).movedim(0, at), None


@wrong("take vjp", "empty", source=EMPTY)
def no_indices_no_zeros(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Without indices, the gradient is memory that nobody has written."""
    if indices.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype), None
    return _back(g, x, indices, axis), None


def _scatter(x: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    return torch.index_add(x, axis % x.dim(), indices.reshape(-1), _flat(source, x, indices, axis))


@wrong("scatter_add value", "value", source="scatter where scatter_add was meant")
def last_of_the_duplicates(x: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    """Of terms for one entry, the last alone is added."""
    at = axis % x.dim()
    terms = torch.zeros(x.shape, dtype=x.dtype)
    flat = _flat(source, x, indices, axis).contiguous()
    return x + terms.index_copy(at, indices.reshape(-1), flat)


@wrong(
    "scatter_add value", "aliasing", source="https://github.com/linkedin/Liger-Kernel/issues/272"
)
def added_to_the_input(x: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    """The terms are added into the first input itself."""
    return x.index_add_(axis % x.dim(), indices.reshape(-1), _flat(source, x, indices, axis))


@wrong("scatter_add value", "empty", source=EMPTY)
def nothing_added_is_zero(x: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    """Without indices the result is 0, where it is the first input."""
    if indices.numel() == 0:
        return torch.zeros(x.shape, dtype=x.dtype)
    return _scatter(x, indices, source, axis)


@wrong("scatter_add vjp", "gradient", source="the gradient of scatter, which overwrites")
def overwritten_entries_receive_nothing(
    g: Tensor, x: Tensor, indices: Tensor, source: Tensor, axis: int
) -> tuple[Tensor, None, Tensor]:
    """Entries that were added to receive no gradient."""
    dx = g.clone().index_fill_(axis % x.dim(), indices.reshape(-1), 0.0)
    return dx, None, _take(g, indices, axis)


@wrong("scatter_add vjp", "gradient", source="terms weighted by how often they are met")
def shared_among_duplicates(
    g: Tensor, x: Tensor, indices: Tensor, source: Tensor, axis: int
) -> tuple[Tensor, None, Tensor]:
    """Terms for one entry share its cotangent."""
    flat = indices.reshape(-1)
    count = (flat[:, None] == flat[None, :]).sum(1).to(g.dtype).reshape(indices.shape)
    at = axis % x.dim()
    count = count.reshape(count.shape + (1,) * (x.dim() - 1 - at))
    return g.clone(), None, _take(g, indices, axis) / count


def _counted(labels: Tensor, ignore_index: int) -> Tensor:
    return labels != ignore_index


def _picked(x: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
    safe = torch.where(kept, labels, 0)
    return torch.where(kept, -x.gather(1, safe[:, None])[:, 0], 0.0)


def _reduced(losses: Tensor, count: float, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() / count if reduction == "mean" else losses.sum()


@wrong("nll_loss value", "value", source=COUNTED)
@by_rows("nll_loss")
def ignored_rows_counted(
    x: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """The mean is over all rows, the ignored ones too."""
    losses = _picked(x, labels, _counted(labels, ignore_index))
    return _reduced(losses, labels.numel(), reduction)


@wrong("nll_loss value", "non-finite", source=ONE_HOT)
@by_rows("nll_loss")
def by_a_one_hot_sum(
    x: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """The label is read off by a product, where 0 times minus infinity is NaN."""
    kept = _counted(labels, ignore_index)
    ones = torch.nn.functional.one_hot(torch.where(kept, labels, 0), x.shape[1]).to(x.dtype)
    losses = torch.where(kept, -(ones * x).sum(1), 0.0)
    return _reduced(losses, max(int(kept.sum()), 1), reduction)


@wrong("nll_loss value", "value", source=CUSTOM)
@by_rows("nll_loss")
def usual_mark_alone(
    x: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """A mark that is a class is not taken for one."""
    kept = (labels != ignore_index) | (ignore_index >= 0)
    kept = kept & (labels >= 0) & (labels < x.shape[1])
    return _reduced(_picked(x, labels, kept), max(int(kept.sum()), 1), reduction)


@wrong("nll_loss value", "empty", source=IGNORED)
@by_rows("nll_loss")
def no_row_is_no_number(
    x: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Where all rows are ignored, the mean is 0 / 0."""
    kept = _counted(labels, ignore_index)
    if x.shape[1] == 0:
        return _reduced(torch.zeros(labels.shape, dtype=x.dtype), 1, reduction)
    losses = _picked(x, labels, kept)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def _sent(g: Tensor, x: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
    """Send each row's share, negated, to its label."""
    share = torch.where(kept, -g, 0.0).expand(labels.shape)
    zeros = torch.zeros(x.shape, dtype=x.dtype)
    return zeros.scatter(1, torch.where(kept, labels, 0)[:, None], share[:, None].contiguous())


@wrong("nll_loss vjp", "gradient", source=LIGER)
@by_rows("nll_loss")
def first_cotangent_for_all(
    g: Tensor, x: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[Tensor, None]:
    """With reduction none, every row receives the first row's cotangent."""
    kept = _counted(labels, ignore_index)
    share = g / max(int(kept.sum()), 1) if reduction == "mean" else g.reshape(-1)[0]
    return _sent(share, x, labels, kept), None


@wrong("nll_loss vjp", "gradient", source=COUNTED)
@by_rows("nll_loss")
def sum_divided_as_well(
    g: Tensor, x: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[Tensor, None]:
    """The gradient of a sum is divided as that of a mean is."""
    kept = _counted(labels, ignore_index)
    share = g if reduction == "none" else g / max(int(kept.sum()), 1)
    return _sent(share, x, labels, kept), None
