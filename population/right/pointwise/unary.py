"""Right signs, reciprocals, logistic curves, angles and powers: other formulas that are as good."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import absorbed
from population.record import right


@right("neg", "value")
def subtracted_from_zero(x: Tensor) -> Tensor:
    """It is 0 - x, so that no zero is negative."""
    return 0 - x


@right("abs value", "value")
def larger_of_both_signs(x: Tensor) -> Tensor:
    """It is the larger of x and -x."""
    return torch.maximum(x, -x)


@right("abs vjp", "gradient")
def chosen_by_side(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is chosen by the side of 0 on which x lies."""
    return torch.where(x > 0, g, torch.where(x < 0, -g, 0 * g))


@right("reciprocal value", "precision")
def reciprocal_in_double(x: Tensor) -> Tensor:
    """It is formed in double, and rounded once."""
    return (1 / x.double()).to(x.dtype)


@right("reciprocal vjp", "gradient")
def divided_by_x_twice(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is divided by x, twice."""
    return absorbed(g, -(g.double() / x.double() / x.double()).to(g.dtype))


@right("rsqrt value", "value")
def root_and_quotient(x: Tensor) -> Tensor:
    """It is 1 over the root."""
    return 1 / torch.sqrt(x)


@right("sigmoid", "precision")
def logistic_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.sigmoid(x.double()).to(x.dtype)


@right("sigmoid value", "value")
def by_a_falling_exponential(x: Tensor) -> Tensor:
    """It is 1 / (1 + e^-x), and 0 where that overflows."""
    return 1 / (1 + torch.exp(-x))


@right("sin", "precision")
def sine_in_double(x: Tensor) -> Tensor:
    """It is torch's sine of fp64."""
    return torch.sin(x.double()).to(x.dtype)


@right("cos", "value")
def by_the_exponential_of_an_imaginary_number(x: Tensor) -> Tensor:
    """It is the real part of e^ix, in double precision."""
    turned = torch.polar(torch.ones_like(x, dtype=torch.double), x.double())
    return turned.real.to(x.dtype)


@right("pow value", "precision")
def power_in_double(x: Tensor, c: float) -> Tensor:
    """It is torch's power of fp64, whose roots and powers of 0 and infinity are those of IEEE."""
    wide = x.double()
    return torch.where(wide == -math.inf, unsigned(wide, c), wide).pow(c).to(x.dtype)


def unsigned(x: Tensor, c: float) -> Tensor:
    """Take the sign from minus infinity, unless the power is whole."""
    return x if c == int(c) else x.abs()


@right("pow vjp", "gradient")
def rate_in_double(g: Tensor, x: Tensor, c: float) -> Tensor:
    """It is computed in fp64, and nothing where the power is 0."""
    wide = x.double()
    if c == 0:
        return torch.zeros_like(x)
    rate = c * torch.where(wide == -math.inf, unsigned(wide, c), wide).pow(c - 1)
    return absorbed(g, (g.double() * rate).to(x.dtype))


@right("safe_log", "precision")
def safe_logarithm_in_double(x: Tensor, eps: float = 1e-6) -> Tensor:
    """It is computed in fp64 from logaddexp."""
    wide = x.double()
    return torch.log(torch.logaddexp(wide, torch.zeros_like(wide)) + eps).to(x.dtype)
