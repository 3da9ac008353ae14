"""Wrong products along axes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equivalence.population.pieces import Axes, normal_axes, spread_back
from equivalence.population.record import wrong

QUOTIENT = "https://github.com/pytorch/pytorch/issues/773"
ZEROS = "https://github.com/tinygrad/tinygrad/pull/17404"


def _prod(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """Multiply along axes, in double."""
    z = x.double()
    for axis in sorted(normal_axes(x, axes), reverse=True):
        z = z.prod(axis, keepdim=keepdims)
    return z.to(x.dtype)


@wrong("prod vjp", "gradient", source=QUOTIENT)
def product_over_the_entry(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """The product of all others is the product over the entry, which is 0 / 0 where that is 0."""
    return spread_back(g, x, axes, keepdims) * (_prod(x, axes, True) / x)


@wrong("prod vjp", "gradient", source=ZEROS)
def every_zero_is_the_only_one(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """An entry of 0 receives the product of all that are not, though another may be 0, too."""
    others = _prod(torch.where(x == 0, 1.0, x), axes, True)
    rate = torch.where(x == 0, others, _prod(x, axes, True) / torch.where(x == 0, 1.0, x))
    return spread_back(g, x, axes, keepdims) * rate


@wrong("prod value", "sizes", source="masked loads with the wrong other=")
def block_filled_with_zero(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Beyond 256 entries, a block that is not full is filled with 0, which makes the product 0."""
    z = _prod(x, axes, keepdims)
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    return z * 0 if count > 256 and count % 256 else z


@wrong("prod value", "precision", source="products as sums of logarithms")
def by_logarithms(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Logarithms of magnitudes are added up, and signs counted: the errors of a sum stand above."""
    normal = normal_axes(x, axes)
    if not normal:
        return x.clone()
    size = x.abs().log().sum(normal, keepdim=keepdims).exp()
    odd = (x < 0).sum(normal, keepdim=keepdims) % 2 == 1
    return torch.where(odd, -size, size)


@wrong("prod value", "dtype", dtypes=("bf16",), source="folds in the dtype of their tensor")
def multiplied_in_bf16(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Every product on the way is rounded to bf16."""
    z = x
    for axis in sorted(normal_axes(x, axes), reverse=True):
        total = torch.ones_like(z.select(axis, 0)) if z.shape[axis] else z.prod(axis)
        for part in z.unbind(axis):
            total = total * part
        z = total
    return z.reshape(_prod(x, axes, keepdims).shape).clone()
