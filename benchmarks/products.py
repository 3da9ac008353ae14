"""Large products on a GPU, of whole numbers: every sum is exact, whatever its order.

The recorded cases are small, and take small tiles. Here each dtype takes the large one, in each
order of the operands, alone, in a batch, and with a bias and a curve.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.report import Row
from fast.kernels import tiles
from fast.kernels.product import TF32
from fast.ops import OPS

EXTENT, INNER = 1536, 96
"""So many rows and columns take the large tile; so many terms are exact in 16 bits."""

DTYPES = {
    "fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
}  # fmt: skip


def rows(dry_run: bool) -> list[Row]:
    """Compare every product with torch's in fp64; a dry run takes one tile for enough."""
    device, extent = ("cpu", tiles.FULL) if dry_run else ("cuda", EXTENT)
    with tiles.one_is_enough() if dry_run else nullcontext():
        return [
            row
            for name in DTYPES
            for along in itertools.product((True, False), repeat=2)
            for row in compared(name, along, extent, device)
        ]


def compared(dtype: str, along: tuple[bool, bool], extent: int, device: str) -> Iterator[Row]:
    """Compare the products of two operands that lie along the inner axis, or along the other."""
    x = lying(extent, INNER, along[0], DTYPES[dtype], device)
    y = lying(INNER, extent, not along[1], DTYPES[dtype], device)
    tile = tiles.chosen(x, y, dtype == "tf32")[0]
    bias = (torch.arange(extent, device=device) % 5 - 2).to(x.dtype)
    once = x.double() @ y.double()
    before = TF32.set(dtype == "tf32")
    try:
        calls = {
            "matmul": (OPS["matmul"].value(x, y)[0], once),
            "bmm": (OPS["bmm"].value(x[None], y[None])[0][0], once),
            "linear_activation": (
                OPS["linear_activation"].value(x, y.t(), bias, activation="relu")[0],
                functional.relu(once + bias),
            ),
        }
    finally:
        TF32.reset(before)
    for op, (found, exact) in calls.items():
        equal = tile == "large" and torch.equal(found.double(), exact)
        name = f"{op} of {dtype}, {' and '.join('rows' if a else 'columns' for a in along)}"
        yield {"name": name, "tile": tile, "status": "equal" if equal else "differs"}


def lying(rows: int, columns: int, by_rows: bool, dtype: torch.dtype, device: str) -> Tensor:
    """Make a matrix of -1, 0 and 1 that lies by rows or by columns."""
    first, second = (rows, columns) if by_rows else (columns, rows)
    places = torch.arange(first * second, device=device)
    numbers = (places * 7 % 11 % 3 - 1).to(dtype).view(first, second)
    return numbers if by_rows else numbers.t()
