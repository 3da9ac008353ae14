"""Right signs, reciprocals, logistic curves, angles, powers, casts and chains: other formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.torch.backend import OPS, pulled_back
from equivalence.cases.call import TORCH
from population.pieces.tensors import absorbed, rounded_once
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


@right("cast value", "precision")
def half_of_the_last_place_added(x: Tensor, to: str) -> Tensor:
    """To bf16: half of the last place is added to the bits, less one where that place is even."""
    if to != "bf16":
        return x.to(TORCH[to])
    bits = x.view(torch.int32).long()
    rounded = bits + 0x7FFF + (bits >> 16 & 1)
    z = (rounded >> 16 << 16).to(torch.int32).view(torch.float32).to(torch.bfloat16)
    return torch.where(x.isnan(), torch.nan, z)


@right("cast value", "precision", dtypes=("fp64",))
def counted_in_units(x: Tensor, to: str) -> Tensor:
    """How many units of its last place a number has is rounded to an integer, once."""
    return rounded_once(x, to)


@right("cast vjp", "precision", dtypes=("bf16", "fp16", "fp64"))
def gradient_counted_in_units(g: Tensor, x: Tensor, to: str) -> Tensor:
    """A cotangent of any format is rounded to the gradient's once."""
    return rounded_once(g, next(name for name, dtype in TORCH.items() if dtype is x.dtype))


@right("cast vjp", "dtype")
def gradient_by_way_of_64_bits(g: Tensor, x: Tensor, to: str) -> Tensor:
    """The cotangent is widened first, which loses nothing."""
    return g.double().to(x.dtype)


@right("chain value", "precision")
def steps_in_64_bits(x: Tensor, steps: Sequence[Any]) -> Tensor:
    """All steps are taken in float64, and the result is rounded once."""
    found: Tensor = OPS["chain"](x.double(), steps)
    return found.to(x.dtype)


@right("chain vjp", "gradient")
def back_by_a_tape(g: Tensor, x: Tensor, steps: Sequence[Any]) -> Tensor:
    """Torch's tape walks back, in float64."""
    (found,) = pulled_back(partial(OPS["chain"], steps=steps), g.double(), [x.double()], {})
    assert found is not None
    return found.to(x.dtype)
