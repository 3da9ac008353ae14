"""What the optimizers' kernels share: device functions, and how they are launched."""

from __future__ import annotations

from typing import Any

from fast.device.arena import ALIGNMENT
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.optim._chunks import CHUNK
from fast.optim._rule import Flat, Launch


@triton.jit
def power(base, exponent):
    """Raise a double to a count by repeated squaring."""
    result = base * 0.0 + 1.0
    while exponent > 0:
        result = tl.where(exponent % 2 == 1, result * base, result)
        base = base * base
        exponent = exponent // 2
    return result


@triton.jit
def lanes(lengths, program, BLOCK: tl.constexpr, PADDED: tl.constexpr):
    """Return which lanes of a chunk hold elements, and which hold elements or padding.

    A segment is padded to a multiple of PADDED elements. The compiler knows it of the second mask,
    so that loads and stores by it are 128 bits wide; what is no element is stored as 0.
    """
    lane = tl.arange(0, BLOCK)
    length = tl.load(lengths + program)
    return lane < length, lane < (length + (PADDED - 1)) // PADDED * PADDED


@triton.jit
def keep(x, place, value, inside, covered):
    """Store elements in the type of x, and zeros in the padding behind them."""
    tl.store(x + place, tl.where(inside, value, 0.0).to(x.dtype.element_ty), mask=covered)


@triton.jit
def renew_steps(steps, next_steps, bump, parameters, clear, BLOCK: tl.constexpr):
    """Write every parameter's next step count beside the old one, which chunks still read."""
    for start in range(0, parameters, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < parameters
        count = tl.load(steps + place, mask=inside, other=0.0)
        more = tl.load(bump + place, mask=inside, other=0.0)
        tl.store(next_steps + place, tl.where(clear, count + more, count), mask=inside)


def start(kernel: Any, columns: int, flat: Flat, data: Launch, *more: Any, **meta: Any) -> None:
    """Launch a program per chunk, and one more that counts the steps; `more` comes last."""
    table = data.table
    launch(
        kernel, (table.chunks + 1,),
        flat.params, flat.grads, *flat.states, *table, data.bump, data.steps, data.next_steps,
        data.hyper, data.flag, data.scale, table.chunks, data.steps.numel(), *more,
        COLUMNS=columns, BLOCK=CHUNK, PADDED=ALIGNMENT, num_warps=4, **meta,
    )  # fmt: skip
