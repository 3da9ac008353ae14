"""Right gates and soft bends, by other formulas."""

from __future__ import annotations

import torch
from torch import Tensor

from equivalence.budgets.declared import TORCH
from equivalence.population.record import right
from equivalence.worlds.contract import ulps


@right("expm1", "precision")
def subtracted_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.expm1(x.double()).to(x.dtype)


@right("expm1 vjp", "gradient")
def result_and_one(g: Tensor, x: Tensor) -> Tensor:
    """The rate is the result plus 1, in double."""
    return (g.double() * (torch.expm1(x.double()) + 1)).to(g.dtype)


BY_QUOTIENT = ulps(4.0, "a logarithm, a quotient and a product")


@right("log1p value", "precision", contract={"functions": {**TORCH, "log1p": BY_QUOTIENT}})
def rounding_mended(x: Tensor) -> Tensor:
    """It is log(u) x / (u - 1) for the rounded u = 1 + x, and declares what that loses."""
    u = 1 + x
    mended = torch.log(u) * (x / (u - 1))
    return torch.where(u == 1, x, torch.where(u - 1 == x, torch.log(u), mended))


@right("softplus value", "value")
def logarithm_of_two_exponentials(x: Tensor) -> Tensor:
    """It is logaddexp of x and 0."""
    return torch.logaddexp(x, torch.zeros_like(x))


@right("softplus vjp", "gradient")
def by_torch_sigmoid(g: Tensor, x: Tensor) -> Tensor:
    """The rate is torch's sigmoid."""
    return g * torch.sigmoid(x)


@right("log_sigmoid", "precision")
def logarithm_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.nn.functional.logsigmoid(x.double()).to(x.dtype)


@right("silu value", "value")
def one_division(x: Tensor) -> Tensor:
    """It is x / (1 + e^-x)."""
    return x / (1 + torch.exp(-x))


@right("silu", "precision")
def gated_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return (x.double() * torch.sigmoid(x.double())).to(x.dtype)


@right("mish", "precision")
def mish_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.nn.functional.mish(x.double()).to(x.dtype)


@right("hardswish value", "value")
def six_at_most_and_by_six(x: Tensor) -> Tensor:
    """It is x times what of x + 3 lies between 0 and 6, by 6."""
    return x * torch.clamp(x + 3, 0.0, 6.0) / 6


@right("elu value", "value")
def lower_piece_of_the_negative_part(x: Tensor, alpha: float = 1.0) -> Tensor:
    """It is the positive part, and alpha times expm1 of the negative one."""
    return x.clamp(min=0) + alpha * torch.expm1(x.clamp(max=0))
