"""Wrong casts: how numbers are rounded, what is too large or too small, and what goes back."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equivalence.cases.call import TORCH
from population.pieces.tensors import rounded_once
from population.record import wrong

TRUNCATED = "https://github.com/tinygrad/tinygrad/pull/11848"
OVERFLOWN = "https://github.com/tenstorrent/tt-metal/issues/57215"
KEPT = "https://github.com/tinygrad/tinygrad/issues/17087"
TWICE = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/headeronly/util/BFloat16.h"
FLUSHED = "https://github.com/jax-ml/jax/issues/38995"


@wrong("cast value", "precision", source=TRUNCATED)
def lower_bits_cut_off(x: Tensor, to: str) -> Tensor:
    """What bf16 does not hold of a number is dropped."""
    if to != "bf16":
        return x.to(TORCH[to])
    return (x.view(torch.int32) & -(2**16)).view(torch.float32).to(torch.bfloat16)


@wrong("cast value", "precision", source=TWICE, dtypes=("fp64",))
def to_bf16_by_way_of_fp32(x: Tensor, to: str) -> Tensor:
    """A number of 64 bits is rounded to fp32, and that to bf16."""
    return x.float().bfloat16() if to == "bf16" else rounded_once(x, to)


@wrong("cast value", "precision", source=TWICE, dtypes=("fp64",))
def to_fp16_by_way_of_fp32(x: Tensor, to: str) -> Tensor:
    """A number of 64 bits is rounded to fp32, and that to fp16."""
    return x.float().half() if to == "fp16" else rounded_once(x, to)


@wrong("cast value", "precision", source="ties of decimal notation go up")
def ties_away_from_zero(x: Tensor, to: str) -> Tensor:
    """To bf16: what lies half way between two numbers becomes the larger one."""
    if to != "bf16":
        return x.to(TORCH[to])
    bits = x.view(torch.int32).long() + 0x8000
    z = (bits >> 16 << 16).to(torch.int32).view(torch.float32).to(torch.bfloat16)
    return torch.where(x.isnan(), torch.nan, z)


@wrong("cast value", "range", source="a table of halves that shifts the small ones down")
def small_halves_cut_off(x: Tensor, to: str) -> Tensor:
    """To fp16: what is below its normal numbers is rounded toward zero."""
    z = x.to(TORCH[to])
    smallest = torch.finfo(torch.float16).smallest_normal
    small = (x.abs() < smallest) & (to == "fp16")
    return torch.where(small, ((x * 2**24).trunc() * 2**-24).to(z.dtype), z)


@wrong("cast value", "range", source="an overflow that is asked for before the rounding")
def halves_end_at_the_largest(x: Tensor, to: str) -> Tensor:
    """To fp16: all beyond the largest number is infinite, also what would be rounded down to it."""
    z = x.to(TORCH[to])
    beyond = (x.abs() > torch.finfo(torch.float16).max) & (to == "fp16")
    return torch.where(beyond, torch.copysign(torch.tensor(torch.inf), x).to(z.dtype), z)


@wrong("cast vjp", "precision", source=TWICE, dtypes=("bf16", "fp64"))
def gradient_by_way_of_fp32(g: Tensor, x: Tensor, to: str) -> Tensor:
    """A cotangent of 64 bits is rounded to fp32, and that to 16 bits."""
    return g.float().to(x.dtype) if g.dtype is torch.float64 else g.to(x.dtype)


@wrong("cast value", "range", source=OVERFLOWN)
def too_large_is_no_number(x: Tensor, to: str) -> Tensor:
    """A finite number beyond the format's largest becomes NaN."""
    z = x.to(TORCH[to])
    return torch.where(z.isinf() & x.isfinite(), math.nan, z)


@wrong("cast value", "range", source=KEPT)
def too_large_is_the_largest(x: Tensor, to: str) -> Tensor:
    """A finite number beyond the format's largest becomes that one."""
    z = x.to(TORCH[to])
    largest = torch.finfo(z.dtype).max
    return torch.where(x.isfinite(), z.clamp(-largest, largest), z)


@wrong("cast value", "range", source=FLUSHED)
def subnormal_numbers_are_lost(x: Tensor, to: str) -> Tensor:
    """What is below the format's smallest normal number becomes 0."""
    z = x.to(TORCH[to])
    return torch.where(z.abs() < torch.finfo(z.dtype).smallest_normal, 0.0 * z, z)


@wrong("cast vjp", "gradient", source="rounding taken for a function, whose derivative is 0")
def nothing_goes_back(g: Tensor, x: Tensor, to: str) -> Tensor:
    """The gradient of a number that was rounded is 0."""
    return torch.where(x.to(TORCH[to]).to(x.dtype) == x, g.to(x.dtype), 0.0)


@wrong("cast vjp", "dtype", source="gradients left in the dtype in which they came")
def gradient_of_another_dtype(g: Tensor, x: Tensor, to: str) -> Tensor:
    """The gradient has the dtype of the result."""
    return g.clone()


@wrong("cast value", "non-finite", source="a conversion of bits that does not ask for NaN")
def nan_is_rounded(x: Tensor, to: str) -> Tensor:
    """To bf16: the bits of NaN are rounded as a number's, and carry into the sign."""
    if to != "bf16":
        return x.to(TORCH[to])
    bits = x.view(torch.int32).long()
    rounded = bits + 0x7FFF + (bits >> 16 & 1)
    return (rounded >> 16 & 0xFFFF).to(torch.uint16).view(torch.bfloat16)


@wrong("cast value", "range", source="a test for small numbers that returns 0")
def sign_lost_below_the_smallest(x: Tensor, to: str) -> Tensor:
    """What is too small for the format becomes 0, also below 0."""
    z = x.to(TORCH[to])
    return torch.where((z == 0) & (x != 0), z.abs(), z)
