"""Twin of spec.ops.dropout.

Kernels save nothing: the backward pass draws the mask again, from seed and counter, and is the
forward pass of the cotangent. They read strided or unaligned inputs from a contiguous copy. The
ATen twin, for which drawing is most of the work, saves the mask, in the dtype of computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from fast.device.bridge import round_number
from fast.device.dtypes import computed_in, wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise, random
from fast.kernels.elementwise.random import BLOCK, Counter
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved

_threshold_backward = torch.ops.aten.threshold_backward.default


@triton.jit(
    do_not_specialize=["call_low", "call_high", "seed_low", "seed_high", "n", "bound"],
    do_not_specialize_on_alignment=["cell"],
)
def _drop_kernel(
    z, x, cell, call_low: tl.int64, call_high: tl.int64, seed_low: tl.int64, seed_high: tl.int64,
    n: tl.int64, bound: tl.int32, scale: tl.float32, BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * BLOCK
    w0, w1, w2, w3 = random.tile_words(start, cell, call_low, call_high, seed_low, seed_high, BLOCK)
    kept = random.leading(random.in_order(w0, w1, w2, w3)) < bound
    index = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        here = tl.load(x + index).to(tl.float32)
        tl.store(z + index, tl.where(kept, here * scale, 0.0).to(z.dtype.element_ty))
    else:
        here = tl.load(x + index, mask=index < n, other=0).to(tl.float32)
        result = tl.where(kept, here * scale, 0.0).to(z.dtype.element_ty)
        tl.store(z + index, result, mask=index < n)


def check(x: Tensor, *, p: float, seed: int, training: bool = True, counter: Counter) -> None:
    """Refuse a probability (C1), a seed (C2) or a call counter (C3)."""
    checks.floats("dropout", x)
    random.check_probability("dropout C1", p)
    random.check_call("dropout", seed, counter)


def value(
    x: Tensor, *, p: float, seed: int, training: bool = True, counter: Counter
) -> tuple[Tensor, Saved]:
    """Scale the entries that are kept, and put zeros for the others; nothing is saved."""
    if not training:
        return pointwise.copy(x), ()
    return _drop(x, p, seed, counter), (p, seed, counter)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Drop what was dropped, and scale what was kept; without training, pass all on."""
    if not needs[0]:
        return (None,)
    return (_drop(cotangent, *saved) if saved else cotangent,)


def _drop(x: Tensor, p: float, seed: int, counter: Counter) -> Tensor:
    checks.for_kernels(x)
    if not x.is_contiguous() or x.data_ptr() % 16:
        x = pointwise.copy(x, wide=False)
    z, n = torch.empty_like(x, memory_format=torch.contiguous_format), x.numel()
    bound, scale = _kept(p, torch.float32)
    call = random.call_arguments(seed, counter)
    launch(_drop_kernel, (-(-n // BLOCK),), z, x, *call, n, bound, scale, BLOCK=BLOCK)
    return z


def _kept(p: float, dtype: torch.dtype) -> tuple[int, float]:
    """Return how many of the 2^24 uniform numbers keep an entry, and what scales it."""
    kept = 1 - Fraction(p)
    return random.bound_of(kept), round_number(1 / kept, dtype) if kept else 0.0


def aten_value(
    x: Tensor, *, p: float, seed: int, training: bool = True, counter: Counter
) -> tuple[Tensor, Saved]:
    """Scale the entries that are kept, and put zeros for the others; the mask is saved."""
    if not training:
        return x.clone(memory_format=torch.contiguous_format), ()
    dtype = computed_in(x.dtype)
    bound, scale = _kept(p, dtype)
    kept = random.aten_below(seed, counter, x.numel(), x.device, bound).view(x.shape).to(dtype)
    return _aten_drop(x, kept, scale), (kept, scale)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Drop what was dropped, and scale what was kept; without training, pass all on."""
    if not needs[0]:
        return (None,)
    return (_aten_drop(cotangent, *saved) if saved else cotangent,)


def _aten_drop(x: Tensor, kept: Tensor, scale: float) -> Tensor:
    # Where the mask is 0 there are zeros, whatever x is, in a tenth of the time of a choice.
    return _threshold_backward(torch.mul(wide(x), scale), kept, 0).to(x.dtype)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield calls by number and by cell, a strided input, and a call without training."""
    x = torch.ones(8, 256, dtype=dtype)
    call = {"p": 0.5, "seed": 7, "training": True, "counter": 0}
    yield (x,), call
    yield (x.T,), {**call, "counter": torch.zeros((), dtype=torch.int64)}
    yield (x,), {**call, "training": False}


op = Op(
    "dropout", check, value, vjp, aten_value, aten_vjp, inputs=("x",), random=True,
    attributes={"p": REQUIRED, "seed": REQUIRED, "training": True, "counter": REQUIRED},
)  # fmt: skip
