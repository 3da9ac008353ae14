"""What the optimizers' kernels share: device functions, and how they are launched."""

from __future__ import annotations

from typing import Any

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
def renew_steps(steps, next_steps, bump, parameters, clear, BLOCK: tl.constexpr):
    """Write every parameter's next step count beside the old one, which chunks still read."""
    for start in range(0, parameters, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < parameters
        count = tl.load(steps + place, mask=inside, other=0.0)
        more = tl.load(bump + place, mask=inside, other=0.0)
        tl.store(next_steps + place, tl.where(clear, count + more, count), mask=inside)


def start(kernel: Any, columns: int, flat: Flat, data: Launch, **meta: Any) -> None:
    """Launch a program per chunk, and one more that counts the steps."""
    table = data.table
    launch(
        kernel, (table.chunks + 1,),
        flat.params, flat.grads, *flat.states, *table, data.bump, data.steps, data.next_steps,
        data.hyper, data.flag, data.scale, table.chunks, data.steps.numel(),
        COLUMNS=columns, BLOCK=CHUNK, num_warps=4, **meta,
    )  # fmt: skip
