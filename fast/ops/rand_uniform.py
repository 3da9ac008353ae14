"""Twin of spec.ops.rand_uniform.

Drawn in fp32, then cast once, so that all providers and devices give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels.elementwise import random
from fast.kernels.elementwise.random import Counter
from fast.kernels.examples import source
from fast.kernels.page import REQUIRED, Gradients, Op, Saved


@triton.jit
def _uniform(w0, w1, w2, w3, bound):
    return random.unit(random.in_order(w0, w1, w2, w3))


def check(
    *, shape: Sequence[int], seed: int, counter: Counter, dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse extents (C1), a seed (C2) or a call counter (C3)."""
    random.check_source("rand_uniform", shape, seed, counter, dtype)


def value(
    *, shape: Sequence[int], seed: int, counter: Counter, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Saved]:
    """Draw each entry by its position; nothing is saved."""
    return random.fill(_uniform, shape, seed, counter, dtype, device), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return nothing: there is no input."""
    return ()


def aten_value(
    *, shape: Sequence[int], seed: int, counter: Counter, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Saved]:
    """Draw each entry by its position; nothing is saved."""
    drawn = random.aten_uniform(seed, counter, prod(shape), torch.float32, device)
    return drawn.to(dtype).reshape(tuple(shape)), ()


aten_vjp = vjp


EXAMPLES = source()
op = Op(
    "rand_uniform", check, value, vjp, aten_value, aten_vjp, inputs=(), random=True, source=True,
    attributes={"shape": REQUIRED, "seed": REQUIRED, "counter": REQUIRED},
)  # fmt: skip
