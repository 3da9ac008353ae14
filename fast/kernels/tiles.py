"""The tiles of the matrix product: which there are for a GPU and a dtype, and which is taken when.

A tile is looked up by the target and the dtype of a product (tf32 counts as a dtype), and then by
the operands (`chosen`). What a tile's binary shows is in docs/tiles.md. Every target walks an inner
axis in the same steps, so that no sum has another order on another GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import OF
from fast.device.mode import compile_target, ring

WIDEST = 2**23
"""The largest extent and stride for which offsets inside a large tile fit 32 bits."""


class Tile(NamedTuple):
    """One tile of a result.

    rows, columns   how much of the result a program computes
    inner           how much of the inner axis it reads at once
    warps, stages   how many warps compute it, and how many tiles are on their way
    bits            what a thread loads of an operand at once, at least, as the binary says
    bent_warps      how many warps compute it where a curve bends it, if not as many
    """

    rows: int
    columns: int
    inner: int
    warps: int
    bits: int
    stages: int = 3
    bent_warps: int | None = None


class Turn(NamedTuple):
    """How a GPU reads the operands of wide tiles fastest: one that lies otherwise is copied first.

    left, right   along the inner axis (True), along the other (False), or as it comes (None)
    least         how many rows or columns of the other operand make up for the copy
    """

    left: bool | None = None
    right: bool | None = None
    least: int = 0


class Tiles(NamedTuple):
    """The tiles of a target and a dtype, by how the operands lie.

    large           in steps of 16 bytes along an axis, and their result is many full tiles
    small           in steps of 16 bytes
    small_in_batch  the same, where a batch has a stride too
    pairs           in steps of 4 bytes, where an element has 2
    single          one by one along an axis
    strided         anyhow, or farther than 32 bits reach
    """

    large: Tile
    small: Tile
    small_in_batch: Tile
    pairs: Tile | None
    single: Tile
    strided: Tile


# In a batch, 64 x 64 numbers of fp32 in four warps would spill registers. Pointers to single
# elements would fill those of four warps, whatever the dtype.
_FP32 = Tiles(
    large=Tile(128, 64, 16, 8, 128),
    small=Tile(64, 64, 16, 4, 128),
    small_in_batch=Tile(64, 32, 16, 4, 128),
    pairs=None,
    single=Tile(64, 64, 16, 8, 32),
    strided=Tile(64, 64, 16, 8, 32),
)
_TF32 = Tiles(
    large=Tile(128, 128, 32, 8, 128),
    small=Tile(64, 64, 32, 4, 128),
    small_in_batch=Tile(64, 64, 32, 4, 128),
    pairs=None,
    single=Tile(64, 64, 32, 8, 32),
    strided=Tile(64, 64, 32, 8, 32),
)
_HALF = Tiles(
    large=Tile(128, 128, 64, 8, 128),
    small=Tile(64, 64, 32, 4, 128),
    small_in_batch=Tile(64, 64, 32, 4, 128),
    pairs=Tile(64, 64, 32, 8, 32),
    single=Tile(64, 64, 32, 8, 16),
    strided=Tile(64, 64, 32, 8, 16),
)
# HGMMA reads 32-bit operands along the inner axis alone. What lies along the other one is turned
# on its way to shared memory, 32 bits at a time.
_TF32_TURNED = _TF32._replace(
    large=_TF32.large._replace(bits=32),
    small=_TF32.small._replace(bits=32),
    small_in_batch=_TF32.small_in_batch._replace(bits=32),
)

# One group of warps takes 3 to 8 % less time than two, on an H200: in products of 4096 x 4096 x
# 4096, and in those of a layer of 768 and 3,072 units over 16,384 rows. A curve of what one group
# holds would spill registers.
_HALF_OF_ONE_GROUP = _HALF._replace(large=_HALF.large._replace(warps=4, bent_warps=8))

# With three stages a batch of rows times columns spills: it is compiled for 80 registers.
_FP32_OF_TWO_STAGES = _FP32._replace(single=_FP32.single._replace(stages=2))

FULL = 128
"""How many rows and columns of a result fill the largest tile, and half as long an inner axis."""

TABLE: Mapping[tuple[str, str], Tiles] = {
    ("sm_80", "fp32"): _FP32_OF_TWO_STAGES,
    ("sm_80", "tf32"): _TF32,
    ("sm_80", "bf16"): _HALF,
    ("sm_80", "fp16"): _HALF,
    ("sm_90", "fp32"): _FP32,
    ("sm_90", "tf32"): _TF32_TURNED,
    ("sm_90", "bf16"): _HALF_OF_ONE_GROUP,
    ("sm_90", "fp16"): _HALF_OF_ONE_GROUP,
}
"""The tiles by target and dtype."""

# Measured on an H200, 4096 x 4096 x 4096 (a copy takes 0.13 ms). In fp32 a right operand that lies
# along the inner axis is read from shared memory with conflicts of banks: 9.9 ms, else 3.2 ms. In
# tf32, what lies along the other axis is turned on its way: 3.0 ms for two, 1.7 for one, else 0.5.
# On an H100, 128 x 1024 x 784 in fp32: 26 us, else 12.
TURNS: Mapping[tuple[str, str], Turn] = {
    ("sm_90", "fp32"): Turn(right=False, least=FULL),
    ("sm_90", "tf32"): Turn(left=True, right=True, least=512),
}
"""What is turned, by target and dtype."""

ENOUGH = 128
"""How many large tiles a result has at least where it takes them; fewer would leave a GPU idle.

Measured on an H100: with 64 tiles of 128 x 128 the small ones take as long in bf16 and two thirds
in tf32, with 256 they take a third longer. With 144, along an inner axis of 16,384, they took
longer on an H200, too.
"""


@contextmanager
def one_is_enough() -> Iterator[None]:
    """Let a result that fills one large tile take it: a small one stands for one of hundreds."""
    global ENOUGH
    before, ENOUGH = ENOUGH, 1
    try:
        yield
    finally:
        ENOUGH = before


NEWEST = "sm_90"
"""Whose tiles later GPUs take, and the interpreter."""


@cache
def target() -> str:
    """Name the target whose tiles products of this process take.

    A GPU takes those of the newest target that is not newer than it, or of the oldest.
    """
    if ring() != "device":
        return compile_target() or NEWEST
    return NEWEST if torch.cuda.get_device_capability() >= (9, 0) else "sm_80"


def chosen(x: Tensor, y: Tensor, tf32: bool) -> tuple[str, Tile, int]:
    """Return which tile a product of two matrices takes, by its name in `Tiles`, and their unit."""
    unit, table = unit_of(x, y), TABLE[_asked(x, tf32)]
    name = _name(x, y, unit, table.large)
    tile: Tile = getattr(table, name)
    return name, tile, unit


def turns(x: Tensor, y: Tensor, tf32: bool) -> tuple[bool, bool]:
    """Say which operands of a product are to be copied, to lie along their other axis."""
    turn = TURNS.get(_asked(x, tf32), Turn())
    left = turn.left is not None and (x.stride(-1) == 1) is not turn.left
    right = turn.right is not None and (y.stride(-1) != 1) is not turn.right
    left, right = left and y.shape[-1] >= turn.least, right and x.shape[-2] >= turn.least
    if not (left or right) or not _full(x, y) or unit_of(x, y) * x.element_size() < 16:
        return False, False
    return left, right


def _asked(x: Tensor, tf32: bool) -> tuple[str, str]:
    """Return the target and the dtype by which a product is looked up."""
    return target(), arithmetic(x, tf32)


def arithmetic(x: Tensor, tf32: bool) -> str:
    """Name the dtype in which the entries of operands are multiplied."""
    return "tf32" if tf32 and x.dtype is torch.float32 else OF[x.dtype].name


def _name(x: Tensor, y: Tensor, unit: int, large: Tile) -> str:
    """Name the tile of operands that lie in steps of so many elements."""
    if unit * x.element_size() < 16:
        return ("strided", "single", "pairs")[unit]
    if _full(x, y):
        *batch, m, _ = x.shape
        if prod(batch) * -(-m // large.rows) * -(-y.shape[-1] // large.columns) >= ENOUGH:
            return "large"
    return "small" if x.dim() == 2 else "small_in_batch"


def _full(x: Tensor, y: Tensor) -> bool:
    """Say whether a product fills the largest tile."""
    return x.shape[-2] >= FULL and y.shape[-1] >= FULL and 2 * x.shape[-1] >= FULL


def unit_of(x: Tensor, y: Tensor) -> int:
    """Return in steps of how many elements both operands lie along an axis.

    Steps have 16 bytes or 4 bytes; where neither divides all that loads and stores go along, they
    are single elements. It is 0 where an operand has no axis with a stride of 1, or has more of an
    axis or a longer stride than 32 bits reach.
    """
    if not (_near(x) and _near(y) and y.shape[-1] <= WIDEST):
        return 0
    size = x.element_size()
    return next((bytes_ // size for bytes_ in (16, 4) if _in_steps(x, y, bytes_ // size)), 1)


def _near(operand: Tensor) -> bool:
    """Say whether a matrix has an axis with a stride of 1, and lies in reach of 32 bits."""
    shorter, longer = sorted(operand.stride()[-2:])
    return shorter == 1 and longer <= WIDEST and max(operand.shape[-2:]) <= WIDEST


def _in_steps(x: Tensor, y: Tensor, unit: int) -> bool:
    """Say whether all along which loads and stores go is whole steps of so many elements."""
    (m, k), n = x.shape[-2:], y.shape[-1]
    along = (k if x.stride(-1) == 1 else m, n if y.stride(-1) == 1 else k, n)
    steps = [step for operand in (x, y) for step in _outer(operand)]
    starts = [operand.data_ptr() // operand.element_size() for operand in (x, y)]
    return not any(number % unit for number in (*along, *steps, *starts))


def _outer(operand: Tensor) -> list[int]:
    """Return the strides but for the one of 1, along which loads go."""
    *outer, row, column = operand.stride()
    return [*outer, max(row, column)]
