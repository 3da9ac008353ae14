"""Right bounds, slopes and lines, by other formulas."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import right


@right("leaky_relu value", "value")
def by_its_parts(x: Tensor, slope: float = 0.01) -> Tensor:
    """It is the positive part and a share of the negative one."""
    return x.clamp(min=0) + slope * x.clamp(max=0)


@right("leaky_relu vjp", "gradient")
def scaled_where_not_positive(g: Tensor, x: Tensor, slope: float = 0.01) -> Tensor:
    """The cotangent is multiplied by a rate that was chosen."""
    return g * torch.where(x > 0, 1.0, slope)


@right("clamp value", "value")
def smaller_of_the_larger(x: Tensor, lo: float, hi: float) -> Tensor:
    """It is the smaller of hi and the larger of lo and x."""
    return torch.minimum(torch.maximum(x, torch.tensor(lo)), torch.tensor(hi))


@right("clamp vjp", "gradient")
def equal_to_what_was_clamped(g: Tensor, x: Tensor, lo: float, hi: float) -> Tensor:
    """The cotangent passes where clamping changed nothing."""
    return torch.where(torch.clamp(x, lo, hi) == x, g, 0.0)


@right("hardtanh vjp", "gradient")
def between_the_bounds(g: Tensor, x: Tensor, lo: float = -1.0, hi: float = 1.0) -> Tensor:
    """What is not between the bounds is masked away."""
    return g.masked_fill(~((x > lo) & (x < hi)), 0.0)


@right("hardsigmoid value", "value")
def six_at_most_by_six(x: Tensor) -> Tensor:
    """It is relu6 of x + 3, times a sixth."""
    return torch.clamp(x + 3, 0.0, 6.0) * (1 / 6)


@right("softsign", "precision")
def quotient_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    wide = x.double()
    return (wide / (1 + wide.abs())).to(x.dtype)


@right("scale value", "precision")
def scaled_in_double(x: Tensor, c: float) -> Tensor:
    """It is computed in double, and rounded once."""
    return (x.double() * c).to(x.dtype)
