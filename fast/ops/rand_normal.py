"""Twin of spec.ops.rand_normal.

Both providers follow the page in fp32 (ATen in fp64 where that is asked for) and round once. The
kernel takes its angle in turns, of which it drops whole quarters exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.device.mode import tl, triton
from fast.kernels.elementwise import functions, random
from fast.kernels.elementwise.random import Counter
from fast.kernels.examples import source
from fast.kernels.page import REQUIRED, Gradients, Op, Saved


@triton.jit
def _pair(first, second):
    radius = tl.sqrt_rn(-2.0 * tl.log(1.0 - random.unit(first)))
    cosine, sine = functions.turned(random.unit(second))
    return radius * cosine, radius * sine


@triton.jit
def _normal(w0, w1, w2, w3, bound):
    z0, z1 = _pair(w0, w1)
    z2, z3 = _pair(w2, w3)
    return random.in_order(z0, z1, z2, z3)


def check(
    *, shape: Sequence[int], seed: int, counter: Counter, dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse extents (C1), a seed (C2) or a call counter (C3)."""
    random.check_source("rand_normal", shape, seed, counter, dtype)


def value(
    *, shape: Sequence[int], seed: int, counter: Counter, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Saved]:
    """Turn each pair of uniform numbers into a pair of normal ones; nothing is saved."""
    return random.fill(_normal, shape, seed, counter, dtype, device), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return nothing: there is no input."""
    return ()


def aten_value(
    *, shape: Sequence[int], seed: int, counter: Counter, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Saved]:
    """Turn each pair of uniform numbers into a pair of normal ones; nothing is saved."""
    count = math.prod(shape)
    u = random.aten_uniform(seed, counter, count + count % 2, computed_in(dtype), device)
    first, second = (u[k::2].contiguous() for k in (0, 1))
    radius, angle = (first.neg_().add_(1).log_().mul_(-2)).sqrt_(), second.mul_(2 * math.pi)
    drawn = torch.stack((radius * angle.cos(), radius * angle.sin()), 1).reshape(-1)[:count]
    return drawn.to(dtype).reshape(tuple(shape)), ()


aten_vjp = vjp


EXAMPLES = source()
op = Op(
    "rand_normal", check, value, vjp, aten_value, aten_vjp, inputs=(), random=True, source=True,
    attributes={"shape": REQUIRED, "seed": REQUIRED, "counter": REQUIRED},
)  # fmt: skip
