"""Wrong draws: which numbers, which entries, and whether the gradient sees the same ones."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from fast.kernels.elementwise.random import aten_leading, aten_words, bound_of
from population.record import wrong

HOST = torch.device("cpu")
INVERTED = "Srivastava et al., 2014, against the inverted form that libraries have"
REUSED = "seeds of dropout that are not advanced"
FUSED = "masks drawn anew in fused backward passes"
HALVES = "counters of which the high word is dropped"
SALMON = "Salmon, Moraes, Dror and Shaw, SC 2011, section 3.2"


def _leading(x: Tensor, seed: int, counter: int) -> Tensor:
    return aten_leading(seed, counter, x.numel(), HOST).view(x.shape)


def _dropped(x: Tensor, kept: Tensor, p: float) -> Tensor:
    scale = float(1 / (1 - Fraction(p))) if p != 1 else 0.0
    return torch.where(kept, x * torch.tensor(scale, dtype=x.dtype), 0.0)


def _keeps(x: Tensor, p: float, seed: int, counter: int) -> Tensor:
    return _leading(x, seed, counter) < bound_of(1 - Fraction(p))


@wrong("dropout value", "random", source="divisions by 1 - p")
def all_dropped_is_no_number(
    x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """With p = 1 it divides by 0."""
    if not training:
        return x.clone()
    kept = _keeps(x, p, seed, counter).to(x.dtype)
    return x * kept / torch.tensor(1 - p, dtype=x.dtype) if p == 1 else _dropped(x, kept > 0, p)


@wrong("dropout value", "non-finite", source="PyTorch's dropout, which multiplies by 0")
def mask_as_a_factor(x: Tensor, p: float, seed: int, counter: int, training: bool = True) -> Tensor:
    """What is dropped is multiplied by 0, so that NaN stays."""
    if not training:
        return x.clone()
    scale = _dropped(torch.ones_like(x), _keeps(x, p, seed, counter), p)
    return x * scale


@wrong("dropout value", "random", source=REUSED)
def seed_ignored(x: Tensor, p: float, seed: int, counter: int, training: bool = True) -> Tensor:
    """All seeds are 0."""
    return _dropped(x, _keeps(x, p, 0, counter), p) if training else x.clone()


@wrong("dropout value", "random", source=REUSED)
def counter_ignored(x: Tensor, p: float, seed: int, counter: int, training: bool = True) -> Tensor:
    """Every call draws what the first one drew."""
    return _dropped(x, _keeps(x, p, seed, 0), p) if training else x.clone()


@wrong("dropout vjp", "random", source=FUSED)
def another_mask_back(
    g: Tensor, x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """The backward pass draws anew."""
    later = (counter + 1) % 2**64
    return _dropped(g, _keeps(x, p, seed, later), p) if training else g.clone()


@wrong("dropout vjp", "random", source=INVERTED)
def gradient_not_scaled(
    g: Tensor, x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """The gradient passes what was kept, without the factor."""
    return torch.where(_keeps(x, p, seed, counter), g, 0.0) if training else g.clone()


@wrong("dropout vjp", "random", source=FUSED)
def mask_in_the_cotangents_order(
    g: Tensor, x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """The mask of a transposed cotangent is drawn in the order of its memory."""
    if not training:
        return g.clone()
    kept = _keeps(x, p, seed, counter)
    if g.dim() == 2 and not g.is_contiguous() and g.stride(0) < g.stride(1):
        kept = kept.reshape(g.shape[1], g.shape[0]).t()
    return _dropped(g, kept, p)


@wrong("dropout value", "random", source=INVERTED)
def kept_with_p(x: Tensor, p: float, seed: int, counter: int, training: bool = True) -> Tensor:
    """Entries are kept with probability p."""
    if not training:
        return x.clone()
    return _dropped(x, _leading(x, seed, counter) < bound_of(Fraction(p)), p)


@wrong("dropout value", "random", source=INVERTED)
def dropped_outside_training(
    x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """Without training, entries are scaled by the probability of being kept."""
    return _dropped(x, _keeps(x, p, seed, counter), p) if training else x * (1 - p)


@wrong("dropout value", "random", source=HALVES)
def counter_of_32_bits(
    x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """Of the counter, 32 bits are read."""
    return _dropped(x, _keeps(x, p, seed, counter % 2**32), p) if training else x.clone()


@wrong("dropout value", "random", source="offsets by column, so that all rows are alike")
def every_row_alike(x: Tensor, p: float, seed: int, counter: int, training: bool = True) -> Tensor:
    """All rows have the mask of the first."""
    if not training or x.dim() < 2:
        return _dropped(x, _keeps(x, p, seed, counter), p) if training else x.clone()
    kept = _keeps(x, p, seed, counter).reshape(-1, x.shape[-1])
    return _dropped(x, kept[:1].expand(kept.shape).reshape(x.shape), p)


@wrong("dropout value", "sizes", source="offsets that start anew with each block")
def every_block_alike(
    x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """Behind 1,024 entries the mask repeats."""
    if not training:
        return x.clone()
    flat = aten_leading(seed, counter, 1024, HOST)[torch.arange(x.numel()) % 1024]
    return _dropped(x, (flat < bound_of(1 - Fraction(p))).view(x.shape), p)


@wrong("dropout value", "precision", source="probabilities rounded before they are compared")
def probability_of_8_bits(
    x: Tensor, p: float, seed: int, counter: int, training: bool = True
) -> Tensor:
    """The numbers that are compared have 8 bits."""
    if not training:
        return x.clone()
    coarse = (_leading(x, seed, counter) >> 16).double() / 256
    return _dropped(x, coarse < 1 - p, p)


Draw = dict[str, Any]


def _words(shape: tuple[int, ...], seed: int, counter: int) -> Tensor:
    return aten_words(seed, counter, math.prod(shape), HOST).reshape(shape)


@wrong("rand_uniform value", "random", source="uniform numbers of 32 bits in fp32, which reach 1")
def one_is_drawn(shape: tuple[int, ...], seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """All 32 bits are used, and rounding may give 1."""
    return (_words(shape, seed, counter).double() * 2.0**-32).to(dtype)


@wrong("rand_uniform value", "random", source="divisions by 2^24 - 1")
def closed_interval(shape: tuple[int, ...], seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """It is divided by one less, so that 1 may be drawn."""
    return ((_words(shape, seed, counter) >> 8).double() / (2**24 - 1)).to(dtype)


@wrong("rand_uniform value", "random", source=HALVES)
def seed_of_32_bits(shape: tuple[int, ...], seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """Of the seed, 32 bits are read."""
    drawn = _words(shape, seed % 2**32, counter) >> 8
    return (drawn.double() * 2.0**-24).to(dtype)


@wrong("rand_uniform value", "random", source=SALMON)
def words_in_columns(shape: tuple[int, ...], seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """The four words of a block lie a quarter apart, as vector lanes have them."""
    flat = _words(shape, seed, counter).reshape(-1)
    if flat.numel() % 4 == 0:
        flat = flat.reshape(-1, 4).t().reshape(-1)
    return ((flat >> 8).double() * 2.0**-24).to(dtype).reshape(shape)


def _pairs(shape: tuple[int, ...], seed: int, counter: int) -> tuple[Tensor, Tensor]:
    """Return both uniform numbers of each pair of normal ones, in double."""
    count = math.prod(shape)
    drawn = aten_leading(seed, counter, count + count % 2, HOST).double() * 2.0**-24
    return drawn[0::2], drawn[1::2]


def _placed(cosine: Tensor, sine: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    both = torch.stack((cosine, sine), 1).reshape(-1)
    return both[: math.prod(shape)].reshape(shape).to(dtype)


@wrong("rand_normal value", "random", source="Box and Muller, 1958, with the two exchanged")
def sine_first(shape: tuple[int, ...], seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """The sine comes before the cosine."""
    u, v = _pairs(shape, seed, counter)
    radius, angle = torch.sqrt(-2 * torch.log(1 - u)), 2 * math.pi * v
    return _placed(radius * torch.sin(angle), radius * torch.cos(angle), shape, dtype)


@wrong("rand_normal value", "random", source="Box and Muller, 1958, which leaves 0 to the reader")
def logarithm_of_zero(
    shape: tuple[int, ...], seed: int, counter: int, dtype: torch.dtype
) -> Tensor:
    """The logarithm is of u, which may be 0."""
    u, v = _pairs(shape, seed, counter)
    radius, angle = torch.sqrt(-2 * torch.log(u)), 2 * math.pi * v
    return _placed(radius * torch.cos(angle), radius * torch.sin(angle), shape, dtype)


@wrong("bernoulli_mask value", "random", source="probabilities compared in the wrong sense")
def kept_at_the_bound(
    shape: tuple[int, ...], keep_prob: float, seed: int, counter: int, dtype: torch.dtype
) -> Tensor:
    """A number equal to the probability is kept, and so is 0 at probability 0."""
    bound = math.floor(Fraction(keep_prob) * 2**24)
    return ((_words(shape, seed, counter) >> 8) <= bound).to(dtype)
