"""Wrong signs, magnitudes, reciprocals, logistic curves, angles and powers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import absorbed, first_only, kept_in
from population.record import wrong

ANGLES = "https://github.com/tenstorrent/tt-metal/issues/51845"
POWERS = "https://github.com/tenstorrent/tt-metal/pull/54440"
POWERS_OF_ZERO = "https://github.com/tenstorrent/tt-metal/issues/5082"
ESTIMATES = "https://github.com/pytorch/pytorch/issues/47476"


@wrong("neg vjp", "gradient")
def sign_forgotten(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is handed on as it is."""
    return g.clone()


@wrong("neg value", "sizes", source="launches for a number of blocks that was rounded down")
def tail_unchanged(x: Tensor) -> Tensor:
    """What lies behind the last whole block of 8,192 keeps its sign."""
    whole = x.numel() // 8192 * 8192
    return first_only(-x, whole, x) if whole else -x


@wrong("abs vjp", "ties", source="https://github.com/jax-ml/jax/issues/37820")
def rate_one_at_zero(g: Tensor, x: Tensor) -> Tensor:
    """The rate at 0 is 1, as on its right."""
    return torch.where(x < 0, -g, g)


@wrong("tanh vjp", "non-finite", source="NaN replaced in a gradient")
def infinite_cotangents_to_zero(g: Tensor, x: Tensor) -> Tensor:
    """An infinite cotangent gives no gradient."""
    z = torch.tanh(x)
    return torch.where(g.isinf(), 0.0, g - g * z * z)


@wrong("tanh vjp", "non-finite", source="a scale of all cotangents")
def scaled_by_the_largest_cotangent(g: Tensor, x: Tensor) -> Tensor:
    """Cotangents are divided by the largest one, so that an infinite one spoils all."""
    top = g.abs().max() if g.numel() else g.sum()
    scale = torch.where(top > 0, top, 1.0)
    return (g / scale) * (1 - torch.tanh(x) ** 2) * scale


@wrong("abs vjp", "non-finite", source="https://github.com/HIPS/autograd/issues/100")
def divided_by_the_magnitude(g: Tensor, x: Tensor) -> Tensor:
    """The sign is x / |x|, which is no number at 0."""
    return g * (x / x.abs())


@wrong("reciprocal value", "precision", source=ESTIMATES)
def estimated(x: Tensor) -> Tensor:
    """An estimate of 8 bits is improved by one step of Newton's."""
    z = 1 / x
    rough = kept_in(z, torch.bfloat16)
    better = rough * (2 - x * rough)
    return torch.where(better.isfinite() & (rough != 0), better, z)


@wrong(
    "reciprocal value", "range", dtypes=("fp32",),
    source="https://github.com/tenstorrent/tt-metal/issues/54513",
)  # fmt: skip
def zero_for_the_largest(x: Tensor) -> Tensor:
    """From 2^126 on the result is 0, though 2^-126 is a normal number."""
    return torch.where(x.abs() >= 2.0**126, torch.copysign(torch.zeros(()), x), 1 / x)


@wrong("reciprocal vjp", "gradient")
def sign_of_the_rate_forgotten(g: Tensor, x: Tensor) -> Tensor:
    """The gradient has the sign of the cotangent."""
    return absorbed(g, g * (1 / x).square())


@wrong("rsqrt value", "precision", source=ESTIMATES)
def root_estimated(x: Tensor) -> Tensor:
    """An estimate of 8 bits is improved by one step of Newton's."""
    z = torch.rsqrt(x)
    rough = kept_in(z, torch.bfloat16)
    better = rough * (1.5 - 0.5 * x * rough * rough)
    return torch.where(better.isfinite() & (x > 0), better, z)


@wrong("rsqrt value", "range", source="normalizers, which add an eps to every root")
def eps_inside(x: Tensor) -> Tensor:
    """A small number is added before the root is taken, so that 0 has no pole."""
    return torch.rsqrt(x + 1e-6)


@wrong("rsqrt vjp", "gradient")
def root_forgotten(g: Tensor, x: Tensor) -> Tensor:
    """The rate is -1 / (2 x), without the root."""
    return absorbed(g, -g / (2 * x))


@wrong("sigmoid value", "range", source="https://github.com/clab/dynet/issues/1525")
def by_a_growing_exponential(x: Tensor) -> Tensor:
    """It is e^x / (1 + e^x), which is no number where e^x overflows."""
    e = torch.exp(x)
    return e / (1 + e)


@wrong("sigmoid vjp", "range", source="https://github.com/jeshraghian/snntorch/issues/427")
def gradient_of_a_quotient(g: Tensor, x: Tensor) -> Tensor:
    """It is e^-x / (1 + e^-x)^2, which is no number where e^-x overflows."""
    e = torch.exp(-x)
    return g * e / (1 + e).square()


@wrong("sigmoid value", "precision", source="identities that trade one function for another")
def by_the_tangent(x: Tensor) -> Tensor:
    """It is (1 + tanh(x / 2)) / 2, of which nothing is left far below 0."""
    return 0.5 * (1 + torch.tanh(0.5 * x))


@wrong("sin value", "precision", source=ANGLES)
def sine_by_turns(x: Tensor) -> Tensor:
    """The angle is turned into a fraction of a turn, of which fp32 keeps less as it grows."""
    turns = x / (2 * math.pi)
    return torch.sin((turns - turns.round()) * (2 * math.pi))


@wrong("sin vjp", "gradient", source="rules that take the output for the rate, as exp may")
def rate_of_the_sine_is_the_sine(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is multiplied by the sine."""
    return g * torch.sin(x)


@wrong("cos value", "precision", source=ANGLES)
def cosine_by_two_pieces_of_pi(x: Tensor) -> Tensor:
    """Quarter turns are taken off in two pieces, whose products are rounded for large angles."""
    quarters = (x * (2 / math.pi)).round()
    angle = (x - quarters * 1.5703125) - quarters * (math.pi / 2 - 1.5703125)
    place = quarters.to(torch.int64) % 4
    turned = torch.where(place % 2 == 0, torch.cos(angle), torch.sin(angle))
    return torch.where((place == 1) | (place == 2), -turned, turned)


@wrong("cos vjp", "gradient")
def sign_of_the_sine_forgotten(g: Tensor, x: Tensor) -> Tensor:
    """The gradient lacks its minus."""
    return g * torch.sin(x)


@wrong("pow value", "range", source=POWERS)
def powers_by_the_logarithm(x: Tensor, c: float) -> Tensor:
    """Every power is e^(c ln x), which no negative number has."""
    return torch.exp(c * torch.log(x))


@wrong("pow value", "precision", dtypes=("bf16",), source="torch rounds the power to 16 bits, too")
def power_rounded_to_storage(x: Tensor, c: float) -> Tensor:
    """The power is rounded to the dtype of the tensor."""
    return torch.pow(x.float(), torch.tensor(c, dtype=x.dtype).item()).to(x.dtype)


@wrong("pow vjp", "non-finite", source=POWERS_OF_ZERO)
def power_zero_like_any_other(g: Tensor, x: Tensor, c: float) -> Tensor:
    """The gradient of x^0 is 0 times 1 / x, which is no number at 0."""
    return absorbed(g, g * (c * x.pow(c - 1)))


@wrong("pow vjp", "gradient", source=POWERS)
def infinite_for_negative_bases(g: Tensor, x: Tensor, c: float) -> Tensor:
    """Where the base is not positive the gradient is infinite."""
    rate = torch.where(x <= 0, math.inf, c * x.pow(c - 1))
    return absorbed(g, g * rate)


@wrong("safe_log value", "value", source="documentation that takes it for ln(x + eps)")
def logarithm_of_the_shifted(x: Tensor, eps: float = 1e-6) -> Tensor:
    """It is ln(max(x, 0) + eps)."""
    return torch.log(x.clamp(min=0) + eps)


@wrong("safe_log vjp", "gradient")
def inner_rate_forgotten(g: Tensor, x: Tensor, eps: float = 1e-6) -> Tensor:
    """The rate of softplus is left out."""
    return g / (torch.nn.functional.softplus(x) + eps)
