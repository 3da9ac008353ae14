"""What pages share whose parameters have one entry a channel: x as [N, C, entries]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

Tile = Mapping[str, int]
"""The blocks of a tile, and its warps, by the names of a kernel's arguments."""


def seen(x: Tensor) -> Tensor:
    """See x as [N, C, entries], by a view where the strides allow it."""
    return x.reshape(*x.shape[:2], x.shape[2:].numel())


def aligned(x: Tensor, unit: int) -> bool:
    """Say whether the entries of each channel begin and end where a 128-bit load may."""
    *steps, step = x.stride()
    return step == 1 and x.data_ptr() % 16 == 0 and not any(n % unit for n in (*steps, x.shape[2]))


def tile_of(operands: Sequence[Tensor], wide: Tile, some: Tile, few: Tile) -> dict[str, Any]:
    """Choose a tile for operands of one shape [N, C, entries]: a launch's keyword arguments.

    It is the wide one where a channel has entries for it and all are aligned, else one of the
    others, by how many entries there are.
    """
    entries = operands[0].shape[2]
    unit = 16 // operands[0].element_size()
    if entries >= wide["BLOCK_ENTRIES"] // 2 and all(aligned(x, unit) for x in operands):
        return {"UNIT": unit, **wide}
    return {"UNIT": 1, **(some if entries >= some["BLOCK_ENTRIES"] // 4 else few)}


def column(parameter: Tensor, x: Tensor) -> Tensor:
    """See one number of each channel beside x."""
    return parameter.view(-1, *(1 for _ in x.shape[2:]))


def added(x: Tensor) -> Tensor:
    """Add up what each channel has."""
    return x.sum([k for k in range(x.dim()) if k != 1])
