"""Twin of spec.ops.bernoulli_mask.

The leading 24 bits of each word are compared with a bound that is computed once, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.kernels.elementwise import random
from fast.kernels.elementwise.random import Counter
from fast.kernels.examples import source
from fast.kernels.page import REQUIRED, Gradients, Op, Saved


@triton.jit
def _bernoulli(w0, w1, w2, w3, bound):
    return tl.where(random.leading(random.in_order(w0, w1, w2, w3)) < bound, 1.0, 0.0)


def check(
    *,
    shape: Sequence[int],
    keep_prob: float,
    seed: int,
    counter: Counter,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Refuse extents (C1), a seed (C2), a call counter (C3) or a probability (C4)."""
    random.check_source("bernoulli_mask", shape, seed, counter, dtype)
    random.check_probability("bernoulli_mask C4", keep_prob)


def value(
    *,
    shape: Sequence[int],
    keep_prob: float,
    seed: int,
    counter: Counter,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Saved]:
    """Compare each element's number with the probability; nothing is saved."""
    bound = random.bound_of(keep_prob)
    return random.fill(_bernoulli, shape, seed, counter, dtype, device, bound), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return nothing: there is no input."""
    return ()


def aten_value(
    *,
    shape: Sequence[int],
    keep_prob: float,
    seed: int,
    counter: Counter,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Saved]:
    """Compare each element's number with the probability; nothing is saved."""
    bound = random.bound_of(keep_prob)
    kept = random.aten_below(seed, counter, prod(shape), device, bound)
    return kept.to(dtype).reshape(tuple(shape)), ()


aten_vjp = vjp


EXAMPLES = source(keep_prob=0.5)
op = Op(
    "bernoulli_mask", check, value, vjp, aten_value, aten_vjp, inputs=(), random=True, source=True,
    attributes={
        "shape": REQUIRED, "keep_prob": REQUIRED, "seed": REQUIRED, "counter": REQUIRED,
    },
)  # fmt: skip
