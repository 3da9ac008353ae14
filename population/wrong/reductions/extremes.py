"""Wrong minima, norms, and logarithms of sums of exponentials."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import Axes, kept_in, normal_axes, spread_back
from population.record import wrong

MASKED = "https://github.com/pytorch/pytorch/issues/31829"
SHIFTED = "https://github.com/tinygrad/tinygrad/pull/17822"
NANS = "https://github.com/pytorch/pytorch/issues/6996"
HALF = "https://github.com/pytorch/pytorch/issues/43211"
TIES = "https://github.com/pytorch/pytorch/issues/76522"


def _least(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    normal = normal_axes(x, axes)
    return torch.amin(x, normal, keepdims) if normal else x.clone()


@wrong("min value", "non-finite", source=NANS)
def nan_is_no_minimum(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """NaN counts as infinity, as comparisons that it loses leave it out."""
    return _least(torch.where(x.isnan(), math.inf, x), axes, keepdims)


@wrong("min value", "sizes", source="masked loads with the wrong other=")
def minimum_padded_with_zero(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Beyond 256 entries, a block that is not full is filled with 0, which may be the smallest."""
    z = _least(x, axes, keepdims)
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    return torch.where(z > 0, 0.0, z) if count > 256 and count % 256 else z


@wrong("min vjp", "ties", source=TIES)
def whole_gradient_to_each_smallest(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """Entries that tie receive the whole cotangent each."""
    ties = (x == _least(x, axes, True)) | x.isnan()
    return torch.where(ties, spread_back(g, x, axes, keepdims), 0.0)


def _largest(x: Tensor, axes: Axes) -> Tensor:
    normal = normal_axes(x, axes)
    return torch.amax(x, normal, keepdim=True) if normal else x.clone()


def _log_of_sums(x: Tensor, m: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    normal = normal_axes(x, axes)
    e = torch.exp(x - m)
    z = torch.log(e.sum(normal, keepdim=True) if normal else e) + m
    return z if keepdims else z.squeeze(normal) if normal else z


@wrong("logsumexp value", "range", source="https://github.com/mlberkeley/scae-pytorch/pull/4")
def sum_unshifted(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """No maximum is subtracted, so that entries over 88 overflow."""
    return _log_of_sums(x, torch.zeros_like(_largest(x, axes)), axes, keepdims)


@wrong("logsumexp value", "non-finite", source=SHIFTED)
def infinity_less_infinity(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """An infinite maximum is subtracted from itself, and gives NaN."""
    return _log_of_sums(x, _largest(x, axes), axes, keepdims)


@wrong("logsumexp value", "value", source="eps added to be safe")
def sum_with_eps(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """A small number is added to the sum before the logarithm."""
    m = _largest(x, axes)
    m = torch.where(m.isinf(), 0.0, m)
    normal = normal_axes(x, axes)
    e = torch.exp(x - m)
    z = torch.log((e.sum(normal, keepdim=True) if normal else e) + 1e-6) + m
    return z if keepdims else z.squeeze(normal) if normal else z


@wrong("logsumexp vjp", "non-finite", source=MASKED)
def masked_row_gives_nan(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The gradient of a row of minus infinity is NaN."""
    m = _largest(x, axes)
    e = torch.exp(x - m)
    normal = normal_axes(x, axes)
    total = e.sum(normal, keepdim=True) if normal else e
    return e * (spread_back(g, x, axes, keepdims) / total)


@wrong("logsumexp vjp", "precision", source="https://github.com/linkedin/Liger-Kernel/issues/1253")
def result_kept_in_half(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The result is kept in fp16 for the backward pass."""
    normal = normal_axes(x, axes)
    z = torch.logsumexp(x, normal, True) if normal else x
    e = torch.exp(x - kept_in(z, torch.float16))
    return torch.where(z == -math.inf, 0.0, e * spread_back(g, x, axes, keepdims))


def _norm(x: Tensor, ord: int, axes: Axes, keepdims: bool) -> Tensor:
    """Measure along axes, of which there may be none."""
    normal = normal_axes(x, axes)
    if not normal:
        return x.abs()
    found: Tensor = torch.linalg.vector_norm(x, ord, normal, keepdims)
    return found


@wrong("norm vjp", "gradient", source="https://github.com/pytorch/pytorch/issues/2421")
def quotient_at_zero(
    g: Tensor, x: Tensor, ord: int = 2, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """The gradient of ord 2 is 0 / 0 where the norm is 0."""
    back = spread_back(g, x, axes, keepdims)
    if ord == 1:
        return torch.where(x == 0, 0.0, back * x.sign())
    return x * (back / _norm(x, ord, axes, True))


@wrong("norm vjp", "value", source="eps added to be safe")
def root_with_eps(
    g: Tensor, x: Tensor, ord: int = 2, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """A small number is added to the norm that divides."""
    back = spread_back(g, x, axes, keepdims)
    if ord == 1:
        return torch.where(x > 0, back, torch.where(x < 0, -back, 0.0))
    return x * (back / (_norm(x, ord, axes, True) + 1e-6))


@wrong("norm value", "dtype", dtypes=("fp16",), source=HALF)
def squares_in_half(x: Tensor, ord: int = 2, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The squares are rounded to fp16, where numbers over 256 overflow and small ones vanish."""
    if ord == 1:
        return _norm(x, ord, axes, keepdims)
    normal = normal_axes(x, axes)
    parts = (x * x).float()
    total = parts.sum(normal, keepdim=keepdims) if normal else parts
    return total.sqrt().to(x.dtype)


@wrong("norm value", "structure", source="axis fixed at the last one")
def length_of_the_first_axes(
    x: Tensor, ord: int = 2, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """Of a square matrix the columns are measured in place of the rows."""
    square = x.dim() == 2 and x.shape[0] == x.shape[1] and normal_axes(x, axes) == [1]
    return _norm(x.mT if square else x, ord, axes, keepdims)
