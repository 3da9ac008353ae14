"""Wrong products along axes, whole or on the way."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import Axes, normal_axes, spread_back
from population.record import wrong

QUOTIENT = "https://github.com/pytorch/pytorch/issues/773"
BY_OUTPUT = "https://github.com/tensorflow/tensorflow/issues/3862"
SILENCED = "https://github.com/tensorflow/tensorflow/issues/119430"
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


def _by_the_results(g: Tensor, x: Tensor, axis: int) -> Tensor:
    """Add up the cotangents times the results, from the end."""
    shares = (g.double() * x.double().cumprod(axis)).flip(axis)
    return shares.cumsum(axis).flip(axis)


@wrong("cumprod vjp", "gradient", source=BY_OUTPUT)
def results_over_the_entry(g: Tensor, x: Tensor, axis: int) -> Tensor:
    """What follows an entry is divided by it, which is 0 / 0 where it is 0."""
    return (_by_the_results(g, x, axis) / x.double()).to(x.dtype)


@wrong("cumprod vjp", "gradient", source=SILENCED)
def nothing_to_an_entry_of_zero(g: Tensor, x: Tensor, axis: int) -> Tensor:
    """Where an entry is 0, the 0 / 0 of its gradient is replaced by 0."""
    safe = torch.where(x == 0, 1.0, x.double())
    return torch.where(x == 0, 0.0, _by_the_results(g, x, axis) / safe).to(x.dtype)


@wrong("cumprod value", "sizes", source="https://github.com/triton-lang/triton/issues/2361")
def products_of_the_last_block(x: Tensor, axis: int) -> Tensor:
    """Behind the second block of 128, the product of the first one is lost."""
    y = x.movedim(axis, -1).double()
    if y.shape[-1] <= 256:
        return x.cumprod(axis).clone()
    z = torch.cat((y[..., :256].cumprod(-1), y[..., 128:].cumprod(-1)[..., 128:]), -1)
    return z.to(x.dtype).movedim(-1, axis).clone()


@wrong("cumprod value", "dtype", dtypes=("bf16",), source="scans in the dtype of their tensor")
def products_on_the_way_in_bf16(x: Tensor, axis: int) -> Tensor:
    """Every product on the way is rounded to bf16 before the next factor."""
    found, total = list[Tensor](), torch.ones_like(x.select(axis, 0))
    for part in x.unbind(axis):
        total = total * part
        found.append(total)
    return torch.stack(found, axis).clone()
