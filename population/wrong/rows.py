"""Wrong softmax and log_softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import kept_in, strides_ignored
from population.record import wrong

BOOK = "Goodfellow, Bengio and Courville, Deep Learning, section 4.1"
FLASH = "https://github.com/Dao-AILab/flash-attention/issues/"
ONLINE = FLASH + "1947"
MASKED = FLASH + "334"
NARROW = "https://github.com/linkedin/Liger-Kernel/issues/1253"
COTANGENT = FLASH + "355"


@wrong("softmax value", "range", source=BOOK)
def maximum_forgotten(x: Tensor, axis: int = -1) -> Tensor:
    """No maximum is subtracted, so that logits over 88 overflow."""
    e = torch.exp(x)
    return e / e.sum(axis, keepdim=True)


@wrong("softmax value", "sizes", source=BOOK)
def maximum_of_the_first_block(x: Tensor, axis: int = -1) -> Tensor:
    """The maximum is that of the first 128 entries."""
    e = torch.exp(x - x.narrow(axis, 0, min(128, x.shape[axis])).amax(axis, keepdim=True))
    return e / e.sum(axis, keepdim=True)


@wrong("softmax value", "range", source="one maximum for all rows")
def maximum_of_all_rows(x: Tensor, axis: int = -1) -> Tensor:
    """The maximum of the whole tensor is subtracted, so that other rows underflow."""
    e = torch.exp(x - x.max())
    return e / e.sum(axis, keepdim=True)


@wrong("softmax value", "range", source="rows in pairs, of which the last has none")
def maximum_of_the_row_before(x: Tensor, axis: int = -1) -> Tensor:
    """Of an odd number of rows beyond 8, the last one subtracts the maximum of another."""
    y = x.movedim(axis, -1)
    top = y.amax(-1, keepdim=True).reshape(-1, 1)
    if len(top) > 8 and len(top) % 2:
        top[-1] = top[-2]
    e = torch.exp(y - top.reshape(*y.shape[:-1], 1))
    return (e / e.sum(-1, keepdim=True)).movedim(-1, axis)


@wrong("log_softmax value", "range", source="rows in blocks that share one maximum")
def maximum_of_four_rows(x: Tensor, axis: int = -1) -> Tensor:
    """Blocks of four rows subtract the maximum of their first."""
    y = x.movedim(axis, -1)
    top = y.amax(-1).reshape(-1)
    top = top[torch.arange(len(top)) // 4 * 4].reshape(*y.shape[:-1], 1)
    moved = y - top
    return (moved - moved.exp().sum(-1, keepdim=True).log()).movedim(-1, axis)


@wrong("softmax value", "non-finite", source=ONLINE)
def first_block_all_masked(x: Tensor, axis: int = -1) -> Tensor:
    """Online over blocks of 16, of which the first may hold nothing but minus infinity."""
    y = x.movedim(axis, -1)
    top = torch.full(y.shape[:-1], -math.inf, dtype=x.dtype)
    total = torch.zeros(y.shape[:-1], dtype=x.dtype)
    for start in range(0, y.shape[-1], 16):
        block = y[..., start : start + 16]
        higher = torch.maximum(top, block.amax(-1))
        total = total * torch.exp(top - higher) + torch.exp(block - higher[..., None]).sum(-1)
        top = higher
    return (torch.exp(y - top[..., None]) / total[..., None]).movedim(-1, axis)


@wrong("softmax value", "non-finite", source=MASKED)
def masked_rows_are_zero(x: Tensor, axis: int = -1) -> Tensor:
    """A row of minus infinity gives 0, where 0 / 0 is not a number."""
    masked = (x == -math.inf).all(axis, keepdim=True)
    return torch.where(masked, 0.0, torch.softmax(x, axis))


@wrong("softmax value", "value", source="eps added to be safe")
def eps_in_the_divisor(x: Tensor, axis: int = -1) -> Tensor:
    """A small number is added to the sum."""
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e / (e.sum(axis, keepdim=True) + 1e-6)


@wrong("softmax value", "precision", source=NARROW)
def exponentials_in_half(x: Tensor, axis: int = -1) -> Tensor:
    """The exponentials are kept in fp16."""
    e = kept_in(torch.exp(x - x.amax(axis, keepdim=True)), torch.float16)
    return e / e.sum(axis, keepdim=True)


@wrong("softmax value", "precision", source="constants typed to seven digits")
def rough_logarithm_of_two(x: Tensor, axis: int = -1) -> Tensor:
    """The powers are of two, with a factor of seven digits."""
    e = torch.exp2((x - x.amax(axis, keepdim=True)) * 1.442695)
    return e / e.sum(axis, keepdim=True)


@wrong("softmax value", "sizes", source="normalizers of one block")
def sum_of_one_block(x: Tensor, axis: int = -1) -> Tensor:
    """The sum is that of the first 1,024 entries."""
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e / e.narrow(axis, 0, min(1024, x.shape[axis])).sum(axis, keepdim=True)


@wrong("softmax value", "structure", source="axis fixed at the last one")
def square_along_the_other_axis(x: Tensor, axis: int = -1) -> Tensor:
    """The first axis of a square matrix is taken for its second."""
    square = x.dim() == 2 and x.shape[0] == x.shape[1]
    return torch.softmax(x, -1 if square else axis)


@wrong("softmax value", "dtype", dtypes=("bf16",), source=NARROW)
def sum_in_bf16(x: Tensor, axis: int = -1) -> Tensor:
    """The exponentials and their sum are rounded to bf16."""
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e / e.sum(axis, keepdim=True)


@wrong("softmax vjp", "gradient", source="tests with a cotangent of ones")
def sum_term_dropped(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The term by which the cotangent acts through the sum is missing."""
    return torch.softmax(x, axis) * g


@wrong("softmax vjp", "gradient")
def sum_over_everything(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The cotangent's sum is over all rows."""
    p = torch.softmax(x, axis)
    return p * (g - (p * g).sum())


@wrong("softmax vjp", "structure", source="axis fixed at the last one")
def sum_over_the_last_axis(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """In rank 4 and more, the cotangent's sum is over the last axis, whichever was asked for."""
    p = torch.softmax(x, axis)
    return p * (g - (p * g).sum(-1 if x.dim() > 3 else axis, keepdim=True))


@wrong("softmax vjp", "precision", source=NARROW)
def result_saved_in_bf16(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The probabilities are saved in bf16 for the backward pass."""
    p = kept_in(torch.softmax(x, axis), torch.bfloat16)
    return p * (g - (p * g).sum(axis, keepdim=True))


@wrong("softmax vjp", "layout", source=COTANGENT)
def strides_of_the_cotangent(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The cotangent is read as if it were contiguous."""
    p, g = torch.softmax(x, axis), strides_ignored(g)
    return p * (g - (p * g).sum(axis, keepdim=True))


@wrong("softmax vjp", "sizes", source="one block per row in the backward pass")
def product_of_one_block(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The cotangent's sum is over the first 512 entries."""
    p = torch.softmax(x, axis)
    total = (p * g).narrow(axis, 0, min(512, x.shape[axis])).sum(axis, keepdim=True)
    return p * (g - total)


@wrong("log_softmax value", "range", source=BOOK)
def logarithm_of_the_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm is taken of probabilities, which underflow."""
    return torch.log(torch.softmax(x, axis))


@wrong("log_softmax value", "value", source="eps added to be safe")
def logarithm_of_the_sum_with_eps(x: Tensor, axis: int = -1) -> Tensor:
    """A small number is added to the sum."""
    shifted = x - x.amax(axis, keepdim=True)
    return shifted - torch.log(torch.exp(shifted).sum(axis, keepdim=True) + 1e-6)


@wrong("log_softmax value", "sizes", source=BOOK)
def unshifted_beyond_a_block(x: Tensor, axis: int = -1) -> Tensor:
    """Rows over 256 are summed without their maximum."""
    if x.shape[axis] <= 256:
        return torch.log_softmax(x, axis)
    return x - torch.log(torch.exp(x).sum(axis, keepdim=True))


@wrong("log_softmax value", "precision", source=NARROW)
def sum_in_half(x: Tensor, axis: int = -1) -> Tensor:
    """The sum of the exponentials is rounded to fp16."""
    shifted = x - x.amax(axis, keepdim=True)
    total = kept_in(torch.exp(shifted).sum(axis, keepdim=True), torch.float16)
    return shifted - torch.log(total)


@wrong("log_softmax value", "non-finite", source=MASKED)
def infinite_shift_replaced(x: Tensor, axis: int = -1) -> Tensor:
    """Minus infinity becomes the lowest number, so that a masked row is uniform."""
    return torch.log_softmax(x.clamp(min=torch.finfo(x.dtype).min), axis)


@wrong("log_softmax vjp", "gradient", source="tests with one-hot cotangents")
def sum_of_the_cotangent_taken_as_one(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The probabilities are subtracted once, not as often as the cotangents add up to."""
    return g - torch.softmax(x, axis)


@wrong("log_softmax vjp", "dtype", dtypes=("bf16",), source=NARROW)
def sum_of_the_cotangent_in_bf16(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The cotangents are added up in bf16, one by one."""
    total = torch.zeros_like(g.select(axis, 0))
    for part in g.unbind(axis):
        total = total + part
    p = torch.softmax(x.float(), axis)
    return (g.float() - p * total.float().unsqueeze(axis)).to(g.dtype)
