"""Wrong gates and soft bends: exponentials that overflow, sums that cancel, swapped pieces."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import absorbed
from population.record import wrong

ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805

SUBTRACTED = "https://github.com/CE-Programming/toolchain/issues/515"


@wrong("expm1 value", "precision", source=SUBTRACTED)
def one_subtracted(x: Tensor) -> Tensor:
    """It is e^x - 1, of which nothing is left near 0."""
    return torch.exp(x) - 1


@wrong("expm1 vjp", "gradient", source="rules that take the output of exp for that of expm1")
def rate_of_the_result(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is multiplied by the result."""
    return g * torch.expm1(x)


@wrong("log1p value", "precision", source=SUBTRACTED)
def one_added(x: Tensor) -> Tensor:
    """It is log(1 + x), of which nothing is left near 0."""
    return torch.log(1 + x)


@wrong("log1p vjp", "gradient", source="the rate of log")
def one_not_added(g: Tensor, x: Tensor) -> Tensor:
    """The rate is 1 / x."""
    return absorbed(g, g / x)


@wrong("softplus value", "range", source="https://github.com/tracel-ai/burn/issues/5373")
def logarithm_of_a_sum(x: Tensor) -> Tensor:
    """It is log(1 + e^x), which is infinite where e^x overflows."""
    return torch.log(1 + torch.exp(x))


@wrong("softplus value", "precision", source="https://github.com/sonots/cumo/pull/481")
def nothing_far_below(x: Tensor) -> Tensor:
    """The sum 1 + e^-|x| is rounded before its logarithm is taken."""
    return x.clamp(min=0) + torch.log(1 + torch.exp(-x.abs()))


@wrong("softplus vjp", "range", source="https://github.com/tracel-ai/burn/pull/5374")
def quotient_of_infinities(g: Tensor, x: Tensor) -> Tensor:
    """The rate is e^x / (1 + e^x)."""
    e = torch.exp(x)
    return g * (e / (1 + e))


@wrong("log_sigmoid value", "range", source="https://github.com/pytorch/pytorch/issues/1835")
def logarithm_of_the_curve(x: Tensor) -> Tensor:
    """It is the logarithm of sigmoid(x), which is 0 far below 0."""
    return torch.log(torch.sigmoid(x))


@wrong("log_sigmoid vjp", "precision", source="rules that reuse sigmoid(x)")
def one_less_the_curve(g: Tensor, x: Tensor) -> Tensor:
    """The rate is 1 - sigmoid(x), of which nothing is left far above 0."""
    return g * (1 - torch.sigmoid(x))


@wrong("silu value", "range", source="https://github.com/clab/dynet/issues/1525")
def gate_by_a_growing_exponential(x: Tensor) -> Tensor:
    """The gate is e^x / (1 + e^x)."""
    e = torch.exp(x)
    return x * (e / (1 + e))


@wrong("silu vjp", "gradient", source="https://github.com/PaddlePaddle/Paddle/pull/56280")
def gate_out_of_the_result(g: Tensor, x: Tensor) -> Tensor:
    """The gate is the result by x, which is 0 / 0 at 0."""
    z = x * torch.sigmoid(x)
    gate = z / x
    return g * (gate + z * (1 - gate))


@wrong("silu vjp", "gradient", source="gates that are taken as fixed")
def gate_held_fixed(g: Tensor, x: Tensor) -> Tensor:
    """The rate is the gate alone."""
    return g * torch.sigmoid(x)


@wrong("mish value", "range", source="https://github.com/AlexeyAB/darknet/issues/3994")
def squares_of_exponentials(x: Tensor) -> Tensor:
    """The gate is e (e + 2) / (e (e + 2) + 2) for e = e^x."""
    e = torch.exp(x)
    n = e * (e + 2)
    return x * (n / (n + 2))


@wrong("mish vjp", "range", source="https://github.com/davisking/dlib/pull/1938")
def cubes_of_exponentials(g: Tensor, x: Tensor) -> Tensor:
    """The rate is e omega / delta^2, both of them polynomials in e = e^x."""
    e = torch.exp(x)
    delta = 2 * e + e * e + 2
    omega = 4 * (x + 1) + 4 * e * e + e * e * e + e * (4 * x + 6)
    return g * e * omega / (delta * delta)


@wrong("hardswish vjp", "ties", source="https://github.com/pytorch/pytorch/issues/147801")
def kinks_with_the_line(g: Tensor, x: Tensor) -> Tensor:
    """At the kinks the rate is that of the parabola, -1/2 and 3/2."""
    return torch.where(x < -3, 0.0, torch.where(x <= 3, g * (x / 3 + 0.5), g))


@wrong("hardswish vjp", "precision", source="https://github.com/tenstorrent/tt-metal/issues/55291")
def third_of_four_digits(g: Tensor, x: Tensor) -> Tensor:
    """A third is 0.3333."""
    return torch.where(x <= -3, 0.0, torch.where(x < 3, g * (x * 0.3333 + 0.5), g))


@wrong("elu vjp", "gradient", source="https://github.com/pytorch/pytorch/issues/47671")
def sign_of_the_bent(g: Tensor, x: Tensor, alpha: float = 1.0) -> Tensor:
    """The gradient asks for the sign of the output, which a negative alpha has changed."""
    z = torch.where(x > 0, x, alpha * torch.expm1(x))
    return torch.where(z > 0, g, g * (z + alpha))


@wrong("elu value", "value", source="https://github.com/PaddlePaddle/Paddle/pull/37316")
def sum_of_both_pieces(x: Tensor, alpha: float = 1.0) -> Tensor:
    """It is max(0, x) + min(0, alpha (e^x - 1)), which a negative alpha makes another function."""
    return x.clamp(min=0) + (alpha * torch.expm1(x)).clamp(max=0)


@wrong("elu value", "precision", source="https://github.com/tensorflow/tensor2tensor/pull/1424")
def bent_by_a_difference(x: Tensor, alpha: float = 1.0) -> Tensor:
    """The lower piece is alpha (e^x - 1), of which nothing is left near 0."""
    return torch.where(x > 0, x, alpha * (torch.exp(x) - 1))


@wrong("selu value", "value", source="https://github.com/jax-ml/jax/pull/1446")
def leaky(x: Tensor) -> Tensor:
    """The lower piece is a line."""
    return SCALE * torch.where(x > 0, x, ALPHA * x)


@wrong("selu value", "value", source="https://github.com/tenstorrent/tt-metal/issues/55252")
def constants_swapped(x: Tensor) -> Tensor:
    """What is positive is multiplied by alpha."""
    return torch.where(x > 0, ALPHA * x, SCALE * ALPHA * torch.expm1(x))


@wrong("selu vjp", "gradient", source="https://github.com/RubixML/ML/pull/427")
def scaled_twice(g: Tensor, x: Tensor) -> Tensor:
    """The lower rate is scale (z + alpha), which has the scale of z once more."""
    z = SCALE * ALPHA * torch.expm1(x)
    return g * torch.where(x > 0, SCALE, SCALE * (z + ALPHA))


@wrong("erf value", "precision", source="Abramowitz and Stegun, 7.1.26")
def of_five_terms(x: Tensor) -> Tensor:
    """It is a polynomial of five terms, within 1.5e-7, of which nothing is left near 0."""
    t = 1 / (1 + 0.3275911 * x.abs())
    p = 0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    return torch.sign(x) * (1 - p * t * torch.exp(-x * x))


@wrong("erf vjp", "gradient", source="densities whose constant is that of another integral")
def density_of_the_normal(g: Tensor, x: Tensor) -> Tensor:
    """The rate is that of the normal distribution function."""
    return g * torch.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


@wrong("gelu value", "value", source="https://github.com/tenstorrent/tt-metal/issues/1262")
def always_approximated(x: Tensor, approximate: str = "none") -> Tensor:
    """It is the approximation by tanh, whatever was asked for."""
    del approximate
    return torch.nn.functional.gelu(x, approximate="tanh")


@wrong("gelu value", "precision", source="Hendrycks and Gimpel, 2016, section 2")
def by_a_logistic_curve(x: Tensor, approximate: str = "none") -> Tensor:
    """It is x sigmoid(1.702 x), which is another approximation."""
    del approximate
    return x * torch.sigmoid(1.702 * x)


@wrong("gelu vjp", "gradient", source="gates that are taken as fixed")
def gelu_held_fixed(g: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    """The rate is the gate alone."""
    z = torch.nn.functional.gelu(x, approximate=approximate)
    return torch.where(x == 0, 0.5 * g, g * (z / x))
