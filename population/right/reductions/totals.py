"""Right sums, whole or on the way, means and maxima: other orders and other precisions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import Axes, normal_axes, reduced, spread_back
from population.record import right


def _last(x: Tensor, axes: Axes) -> Tensor:
    """Bring the reduced axes to the end, and make them one."""
    normal = normal_axes(x, axes)
    kept = [a for a in range(x.dim()) if a not in normal]
    return x.permute([*kept, *normal]).reshape(*(x.shape[a] for a in kept), -1)


def _shaped(z: Tensor, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """Give a result of the kept axes the shape that was asked for."""
    normal = normal_axes(x, axes)
    if not keepdims:
        return z.reshape([n for a, n in enumerate(x.shape) if a not in normal])
    return z.reshape([1 if a in normal else n for a, n in enumerate(x.shape)])


def _count(x: Tensor, axes: Axes) -> int:
    return math.prod(x.shape[a] for a in normal_axes(x, axes))


@right("sum value", "precision", source="Kahan, 1965")
def compensated(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Kahan's sum, where all is finite."""
    y = _last(x, axes)
    plain = y.sum(-1)
    total = torch.zeros(y.shape[:-1], dtype=x.dtype)
    lost = torch.zeros(y.shape[:-1], dtype=x.dtype)
    for part in y.unbind(-1):
        term = part - lost
        after = total + term
        lost, total = (after - total) - term, after
    fine = plain.isfinite() & total.isfinite()
    return _shaped(torch.where(fine, total, plain), x, axes, keepdims)


@right("sum value", "precision", source="Higham, 1993")
def pairwise(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Neighbours are added until one is left."""
    y = _last(x, axes)
    while y.shape[-1] > 1:
        if y.shape[-1] % 2:
            y = torch.nn.functional.pad(y, (0, 1))
        y = y[..., 0::2] + y[..., 1::2]
    return _shaped(y.clone(), x, axes, keepdims)


@right("sum value", "precision")
def from_the_end(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The last entry comes first, and one is added after the other."""
    y = _last(x, axes)
    total = torch.zeros(y.shape[:-1], dtype=x.dtype)
    for part in reversed(y.unbind(-1)):
        total = total + part
    return _shaped(total, x, axes, keepdims)


@right("sum value", "precision")
def in_blocks(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Blocks of 32 are summed first."""
    y = _last(x, axes)
    starts = range(0, y.shape[-1], 32)
    total = torch.stack([y[..., k : k + 32].sum(-1) for k in starts], -1).sum(-1)
    return _shaped(total, x, axes, keepdims)


@right("sum", "precision")
def sum_in_double(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum is formed in double, and rounded once."""
    return reduced(x.double(), axes, keepdims).to(x.dtype)


@right("sum value", "value")
def by_a_product(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """It is a product with a vector of ones."""
    y = _last(x, axes)
    return _shaped(y @ torch.ones(y.shape[-1], dtype=x.dtype), x, axes, keepdims)


@right("sum value", "structure")
def axis_by_axis(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The axes are summed one by one, the last of them first."""
    z = x.clone()
    for axis in sorted(normal_axes(x, axes), reverse=True):
        z = z.sum(axis)
    return _shaped(z, x, axes, keepdims)


@right("sum value", "dtype", dtypes=("bf16", "fp16"))
def narrow_sum_in_double(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum of narrow numbers is formed in double."""
    return reduced(x.double(), axes, keepdims).to(x.dtype)


@right("cumsum value", "precision", source="Hillis and Steele, 1986")
def by_doubling(x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """Each entry adds the one that lies 1, 2, 4 and so on places before."""
    z = (x.flip(axis) if reverse else x).movedim(axis, -1)
    n = z.shape[-1]
    if exclusive:
        z = torch.nn.functional.pad(z, (1, 0))[..., :n]
    step = 1
    while step < n:
        z = torch.cat((z[..., :step], z[..., step:] + z[..., :-step]), -1)
        step *= 2
    z = z.movedim(-1, axis)
    return z.flip(axis) if reverse else z.clone()


@right("cumsum vjp", "gradient")
def by_a_triangle(
    g: Tensor, x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """Each gradient is a sum of its own over what it was added to."""
    y = g.movedim(axis, -1)
    n = y.shape[-1]
    rows = [
        (y[..., :k] if exclusive else y[..., : k + 1]).sum(-1)
        if reverse
        else (y[..., k + 1 :] if exclusive else y[..., k:]).sum(-1)
        for k in range(n)
    ]
    return torch.stack(rows, -1).movedim(-1, axis).clone()


@right("mean value", "precision")
def shares_summed(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Every entry is divided first, and the shares are summed."""
    return reduced(x / _count(x, axes), axes, keepdims)


@right("mean value", "precision", contract={"division": "reciprocal"})
def by_a_reciprocal(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum is multiplied by the reciprocal of the count, and says so."""
    share = torch.tensor(1.0 / _count(x, axes), dtype=x.dtype)
    return reduced(x, axes, keepdims) * share


@right("mean", "precision")
def mean_in_double(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum and quotient are formed in double."""
    return (reduced(x.double(), axes, keepdims) / _count(x, axes)).to(x.dtype)


@right("mean vjp", "gradient")
def divided_before_it_is_spread(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """The cotangent is divided once, and then spread."""
    return spread_back(g / _count(x, axes), x, axes, keepdims).clone()


@right("max value", "value")
def by_sorting(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Entries are sorted, NaN last, and the last is taken."""
    return _shaped(_last(x, axes).sort(-1).values[..., -1].clone(), x, axes, keepdims)


@right("max value", "value")
def one_after_the_other(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """A running maximum that keeps NaN."""
    first, *rest = _last(x, axes).unbind(-1)
    for part in rest:
        first = torch.maximum(first, part)
    return _shaped(first.clone(), x, axes, keepdims)


@right("max vjp", "ties")
def shares_by_division(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Each of the entries that tie receives the cotangent over their number."""
    normal = normal_axes(x, axes)
    largest = torch.amax(x, normal, keepdim=True) if normal else x
    ties = (x == largest) | x.isnan()
    count = ties.sum(normal, keepdim=True) if normal else ties.long()
    back = spread_back(g, x, axes, keepdims)
    return torch.where(ties, back / count.to(x.dtype), 0.0)


@right("max vjp", "ties", source="argmax in the backward pass of many libraries")
def first_of_those_that_tie(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """The first of the entries that tie receives all, which is a choice."""
    y = _last(x, axes)
    best = torch.where(y.isnan(), math.inf, y)
    best = torch.where(y.isnan().any(-1, keepdim=True) & ~y.isnan(), -math.inf, best)
    first = torch.arange(y.shape[-1])
    at = torch.where(best == best.amax(-1, keepdim=True), first, y.shape[-1]).amin(-1)
    hit = first == at[..., None]
    back = _last(spread_back(g, x, axes, keepdims), axes)
    normal = normal_axes(x, axes)
    kept = [a for a in range(x.dim()) if a not in normal]
    order = [*kept, *normal]
    found = torch.where(hit, back, 0.0).reshape([x.shape[a] for a in order])
    return found.permute([order.index(a) for a in range(x.dim())]).clone()
