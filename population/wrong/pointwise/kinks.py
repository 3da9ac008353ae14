"""Wrong bounds, slopes and lines: pieces that are chosen, and what happens where they meet."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.tensors import first_only, kept_in
from population.record import wrong


@wrong("leaky_relu vjp", "gradient", source="https://github.com/pytorch/pytorch/issues/31938")
def sign_of_the_output(g: Tensor, x: Tensor, slope: float = 0.01) -> Tensor:
    """The gradient asks for the sign of the output, which a negative slope has changed."""
    z = torch.where(x > 0, x, slope * x)
    return torch.where(z > 0, g, slope * g)


@wrong("leaky_relu vjp", "gradient", source="https://github.com/chainer/chainer/pull/5898")
def slope_of_zero_forgotten(g: Tensor, x: Tensor, slope: float = 0.01) -> Tensor:
    """A slope of 0 counts as none, so that every cotangent passes."""
    return torch.where(x > 0, g, slope * g) if slope else g.clone()


@wrong("leaky_relu value", "value", source="the larger of both pieces, which holds for slopes to 1")
def larger_of_both(x: Tensor, slope: float = 0.01) -> Tensor:
    """It is the larger of x and its share."""
    return torch.maximum(x, slope * x)


@wrong("clamp vjp", "ties", source="https://github.com/pytorch/pytorch/issues/7002")
def nothing_at_the_bounds(g: Tensor, x: Tensor, lo: float, hi: float) -> Tensor:
    """At a bound the gradient is 0."""
    return torch.where((x > lo) & (x < hi), g, 0.0)


@wrong("clamp value", "non-finite", source="https://github.com/numpy/numpy/pull/7680")
def not_a_number_is_a_bound(x: Tensor, lo: float, hi: float) -> Tensor:
    """NaN compares as not smaller, and becomes the upper bound."""
    return torch.where(x < lo, lo, torch.where(x <= hi, x, hi))


@wrong("clamp vjp", "non-finite", source="masks that are multiplied by")
def multiplied_by_the_mask(g: Tensor, x: Tensor, lo: float, hi: float) -> Tensor:
    """What is beyond a bound is multiplied by 0, of which an infinite cotangent makes NaN."""
    return g * ((x >= lo) & (x <= hi)).to(g.dtype)


@wrong("hardtanh vjp", "ties", source="https://github.com/pytorch/pytorch/issues/120258")
def bounds_counted_within(g: Tensor, x: Tensor, lo: float = -1.0, hi: float = 1.0) -> Tensor:
    """At a bound the cotangent passes."""
    return torch.where((x >= lo) & (x <= hi), g, 0.0)


@wrong("hardtanh value", "value", source="activations whose bounds are constants of the kernel")
def between_minus_one_and_one(x: Tensor, lo: float = -1.0, hi: float = 1.0) -> Tensor:
    """The bounds that were asked for are not read."""
    del lo, hi
    return torch.clamp(x, -1.0, 1.0)


@wrong("hardsigmoid vjp", "gradient", source="https://github.com/pytorch/pytorch/issues/51408")
def never_flat(g: Tensor, x: Tensor) -> Tensor:
    """The rate is a sixth everywhere."""
    del x
    return g / 6


@wrong("hardsigmoid vjp", "gradient", source="https://github.com/tenstorrent/tt-metal/issues/6534")
def flat_on_one_side(g: Tensor, x: Tensor) -> Tensor:
    """Beyond the upper kink the cotangent still passes."""
    return torch.where(x > -3, g / 6, 0.0)


@wrong("hardsigmoid value", "value", source="Theano's and Keras's line, whose slope is a fifth")
def slope_of_a_fifth(x: Tensor) -> Tensor:
    """The line is x / 5 + 1 / 2."""
    return torch.clamp(x / 5 + 0.5, 0.0, 1.0)


@wrong("softsign vjp", "gradient", source="the rate of another curve between -1 and 1")
def rate_of_the_tangent(g: Tensor, x: Tensor) -> Tensor:
    """The rate is 1 - z^2, that of tanh."""
    return g * (1 - (x / (1 + x.abs())).square())


@wrong("softsign value", "non-finite")
def one_at_infinity(x: Tensor) -> Tensor:
    """It is the sign less 1 / (1 + |x|), of which little is left near 0."""
    return torch.sign(x) - torch.sign(x) / (1 + x.abs())


@wrong("scale value", "precision")
def constant_kept_in_16_bits(x: Tensor, c: float) -> Tensor:
    """The constant is rounded to bfloat16."""
    return x * float(kept_in(torch.tensor(c), torch.bfloat16))


@wrong("scale value", "sizes", source="launches for a number of blocks that was rounded down")
def tail_not_scaled(x: Tensor, c: float) -> Tensor:
    """What lies behind the last whole block of 1,024 is left as it was."""
    return first_only(c * x, x.numel() // 1024 * 1024, x) if x.numel() > 1024 else c * x


@wrong("scale vjp", "gradient")
def constant_forgotten(g: Tensor, x: Tensor, c: float) -> Tensor:
    """The cotangent is handed on as it is."""
    del x, c
    return g.clone()
