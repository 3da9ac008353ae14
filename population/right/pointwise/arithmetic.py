"""Right pointwise operations: other formulas that are as good."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from equivalence.backends.torch.functions import TORCH
from equivalence.worlds.contract import FunctionError, ulps
from population.pieces.tensors import absorbed
from population.record import right

BY_EXPM1 = ulps(4.0, "expm1 within 1 ulp, and three roundings")
BY_A_POWER_OF_TWO = FunctionError(4.0, 0.0, 2.0, source="exp2 of a product that is rounded once")
BY_LOG2 = ulps(3.0, "log2 within 1 ulp, and a product with a rounded constant")
BY_RSQRT = replace(ulps(3.0, "rsqrt within 1 ulp, and a product"), exact_values=False)


@right("tanh", "precision")
def in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.tanh(x.double()).to(x.dtype)


@right("tanh value", "value", contract={"functions": {**TORCH, "tanh": BY_EXPM1}})
def by_expm1(x: Tensor) -> Tensor:
    """It is a quotient of expm1, and declares what that loses."""
    e = torch.expm1(-2 * x.abs())
    return torch.copysign(-e / (2 + e), x)


@right("tanh vjp", "non-finite")
def cotangent_less_its_share(g: Tensor, x: Tensor) -> Tensor:
    """The product with the square is subtracted, which is NaN for an infinite cotangent at 0."""
    z = torch.tanh(x)
    return g - g * z * z


@right("tanh vjp", "gradient")
def gradient_by_factors(g: Tensor, x: Tensor) -> Tensor:
    """The gradient is a product of two differences."""
    z = torch.tanh(x)
    return g * ((1 - z) * (1 + z))


@right("tanh vjp", "gradient")
def gradient_by_sech(g: Tensor, x: Tensor) -> Tensor:
    """The gradient is the squared reciprocal of the hyperbolic cosine."""
    return g * (1 / torch.cosh(x)) ** 2


@right("exp", "precision")
def exponential_in_double(x: Tensor) -> Tensor:
    """It is computed in double, and rounded once."""
    return torch.exp(x.double()).to(x.dtype)


@right("exp value", "precision", contract={"functions": {**TORCH, "exp": BY_A_POWER_OF_TWO}})
def by_a_power_of_two(x: Tensor) -> Tensor:
    """It is a power of two of a rounded product, and declares what that loses."""
    return torch.exp2(x * 1.4426950408889634)


@right("exp value", "range", contract={"flush": "outputs"})
def flushing_that_is_declared(x: Tensor) -> Tensor:
    """Subnormal results are flushed to 0, as the contract says."""
    z = torch.exp(x)
    return torch.where(z < torch.finfo(z.dtype).tiny, 0.0, z)


@right("log value", "precision", contract={"functions": {**TORCH, "log": BY_LOG2}})
def by_the_logarithm_to_base_two(x: Tensor) -> Tensor:
    """It is the logarithm to base two, times a constant, and declares what that loses."""
    return torch.log2(x) * 0.6931471805599453


@right("log vjp", "gradient")
def gradient_in_double(g: Tensor, x: Tensor) -> Tensor:
    """The quotient is formed in double, and rounded once."""
    return absorbed(g, (g.double() / x.double()).to(g.dtype))


@right("sqrt value", "precision", contract={"functions": {**TORCH, "sqrt": BY_RSQRT}})
def by_rsqrt_where_it_is_finite(x: Tensor) -> Tensor:
    """It is the argument times its reciprocal root, where that is finite, and says so."""
    safe = (x == 0) | x.isinf() & (x > 0)
    return torch.where(safe, x, x * torch.rsqrt(x))


@right("sqrt vjp", "gradient")
def halved_first(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is halved in double before it is divided."""
    return absorbed(g, (0.5 * g.double() / torch.sqrt(x.double())).to(g.dtype))


@right("square", "value")
def by_a_power(x: Tensor) -> Tensor:
    """It is torch's power with exponent 2."""
    return x.pow(2)


@right("div value", "precision", contract={"division": "reciprocal"})
def reciprocal_that_is_declared(x: Tensor, y: Tensor) -> Tensor:
    """It multiplies by a reciprocal, and says so."""
    return x * (1 / y)


@right("div vjp", "gradient")
def divided_twice(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the divisor is minus the cotangent's quotient times the result."""
    return absorbed(g, g / y), absorbed(g, -(g / y) * (x / y))


@right("sub", "value")
def negated_and_added(x: Tensor, y: Tensor) -> Tensor:
    """The second term is negated, and added."""
    return torch.neg(y) + x


@right("add", "precision")
def sum_in_double(x: Tensor, y: Tensor) -> Tensor:
    """The sum is formed in double, and rounded once."""
    return (x.double() + y.double()).to(x.dtype)


@right("mul", "precision")
def product_in_double(x: Tensor, y: Tensor) -> Tensor:
    """The product is formed in double, and rounded once."""
    return (y.double() * x.double()).to(x.dtype)


@right("relu value", "value")
def negative_zeros(x: Tensor) -> Tensor:
    """What is not positive gives minus zero."""
    return torch.where(x <= 0, -0.0, x)


@right("minimum value", "value")
def by_the_maximum(x: Tensor, y: Tensor) -> Tensor:
    """It is minus the maximum of what is negated."""
    return -torch.maximum(-x, -y)


@right("maximum value", "value")
def by_a_comparison(x: Tensor, y: Tensor) -> Tensor:
    """A comparison chooses, and NaN is looked for first."""
    return torch.where(x.isnan() | (x > y), x, y)


@right("where value", "value")
def by_filling_in(mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The first input is copied into the second where the mask is true."""
    z = y.clone(memory_format=torch.contiguous_format)
    z[mask] = x[mask]
    return z


@right("exp", "dtype", dtypes=("bf16", "fp16"))
def wide_inside(x: Tensor) -> Tensor:
    """It is computed in double where storage is narrow."""
    return torch.exp(x.double()).to(x.dtype)


@right("maximum vjp", "ties", source="x >= y in the backward pass of many libraries")
def ties_to_the_first(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Where operands tie, the first receives all, which is a choice."""
    loses, open_ = x < y, x.isnan() | y.isnan()
    return torch.where(loses, 0.0, g), torch.where(loses | open_, g, 0.0)
