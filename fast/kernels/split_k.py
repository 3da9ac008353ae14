"""Split-K: an inner axis that is long is cut into parts, whose sums are added in a fixed order.

Where a result has few tiles, few programs would walk the whole inner axis, and most of a GPU would
wait for them. So each program walks one part and writes its fp32 sums to scratch. A second kernel
adds the sums of the parts from the first part to the last, then a bias, and rounds once. There are
no atomics. How the axis is cut follows from the shapes and from constants. The number of processors
has no say in it, so that the parts and their order are the same on every machine.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fast.device.launch import launch
from fast.device.mode import tl, triton

PARTS = {"fp32": 128, "tf32": 256, "bf16": 512, "fp16": 512}
"""The least length of a part, but for the last one: on tensor cores a program is at its end sooner.

Measured on an H100, 128 x 1024 x 1024 in fp32: 33 us in one part, 12 in eight; in bf16 7 and 6.
"""
PROGRAMS = 256
"""How many squares of a result, each for all parts, are enough to fill a GPU."""
SQUARE = 64
STEP = 64
"""Parts begin at multiples of it: every tile's share of the inner axis divides it."""

LONG = 2 * max(PARTS.values())
"""An inner axis that is cut in any dtype, where the result is small."""

_BLOCK, _AT_ONCE = 256, 8


def cut(batch: int, m: int, n: int, k: int, dtype: str) -> tuple[int, int]:
    """Return into how many parts an inner axis of k is cut, and how long they are.

    The results of all places, [m, n] each, are counted in squares of 64 by 64. There are as many
    parts as make 256 programs of these squares, if each is as long as the dtype wants (tf32 counts
    as one). The length is rounded up to a multiple of 64, and the last part has what is left. So
    the scratch holds at most 256 squares of fp32, which are 4 MiB.
    """
    squares, least = batch * -(-m // SQUARE) * -(-n // SQUARE), PARTS[dtype]
    if not 0 < 2 * squares <= PROGRAMS or k < 2 * least:
        return 1, k
    wanted = min(PROGRAMS // squares, k // least)
    length = -(-k // (wanted * STEP)) * STEP
    return -(-k // length), length


@triton.jit(do_not_specialize=["biased", "size", "n", "parts", "bn"],
            do_not_specialize_on_alignment=["z", "sums", "b", "straight"])  # fmt: skip
def _add_parts_kernel(
    z, sums, b, biased: tl.int32, size: tl.int32, n: tl.int32, parts: tl.int32, bn: tl.int64,
    straight, UNIT: tl.constexpr, AT_ONCE: tl.constexpr, BLOCK: tl.constexpr, FN: tl.constexpr,
):  # fmt: skip
    # Written as a multiple, so that the compiler knows it to be. There are at most 2^20 sums, so
    # that places fit 32 bits.
    size = size // UNIT * UNIT
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sums += tl.program_id(1) * parts * size
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, parts, AT_ONCE):
        # These loads do not wait for each other. What is past the last part adds 0.
        for later in tl.static_range(AT_ONCE):
            place = tl.multiple_of(sums + at, (4 * UNIT,))
            live = at < tl.where(first + later < parts, size, 0)
            total += tl.load(place, mask=live, other=0.0)
            sums += size
    given = tl.full((BLOCK,), biased, tl.int32) != 0
    bias = tl.load(b + (at % n).to(tl.int64) * bn, mask=(at < size) & given, other=0.0)
    total += bias.to(tl.float32)
    if straight is not None:
        place = tl.multiple_of(straight + (tl.program_id(1) * size + at), (4 * UNIT,))
        tl.store(place, total.to(z.dtype.element_ty), mask=at < size)
    if FN is not None:
        total = FN(total)
    place = tl.multiple_of(z + (tl.program_id(1) * size + at), (4 * UNIT,))
    tl.store(place, total.to(z.dtype.element_ty), mask=at < size)


def add_parts(
    z: Tensor,
    sums: Tensor,
    bias: Tensor | None = None,
    straight: Tensor | None = None,
    fn: Any = None,
) -> None:
    """Write to z [..., m, n] the sums [..., parts, m, n], from left to right, and a bias.

    That goes to `straight`, if it is given, and fn of it to z, if there is one.
    """
    parts, m, n = sums.shape[-3:]
    size = m * n
    launch(
        _add_parts_kernel, (-(-size // _BLOCK), sums.shape[:-3].numel()),
        z, sums, z if bias is None else bias, int(bias is not None), size, n, parts,
        0 if bias is None else bias.stride(0), straight,
        UNIT=1 if size % 4 else 4, AT_ONCE=_AT_ONCE, BLOCK=_BLOCK, FN=fn, num_warps=2,
    )  # fmt: skip


def scratch(z: Tensor, parts: int) -> Tensor:
    """Return memory for the sums of the parts of z: before its last two axes comes one of parts."""
    return torch.empty((*z.shape[:-2], parts, *z.shape[-2:]), dtype=torch.float32, device=z.device)
