"""Right gates and soft bends, by other formulas."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equivalence.backends.torch.functions import TORCH
from equivalence.worlds.contract import ulps
from population.record import right


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


# torch's sigmoid is 0 where its results would be subnormal.
@right("softplus vjp", "gradient", contract={"flush": "outputs"})
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


@right("selu", "value")
def by_elu(x: Tensor) -> Tensor:
    """It is a scaled elu."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * torch.nn.functional.elu(x, alpha)


@right("erf", "precision")
def erf_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.erf(x.double()).to(x.dtype)


@right("gelu", "precision")
def gelu_in_double(x: Tensor, approximate: str = "none") -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.nn.functional.gelu(x.double(), approximate=approximate).to(x.dtype)


@right("gelu value", "value")
def by_the_tail(x: Tensor, approximate: str = "none") -> Tensor:
    """It is x times half of erfc(-x sqrt(1/2)), where that is asked for."""
    if approximate == "tanh":
        return torch.nn.functional.gelu(x, approximate="tanh")
    gate: Tensor = torch.special.erfc(-x * math.sqrt(0.5))
    return x * (0.5 * gate)
