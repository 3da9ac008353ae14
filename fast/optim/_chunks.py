"""Cuts the active part of an arena into what one update sees: runs for ATen, chunks for a launch.

A run is a stretch of neighbouring segments, padding included, that share a group and an age; where
every parameter takes part, that is the whole arena. A chunk is a piece of one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fast.device.arena import Layout

CHUNK = 1024
"""Elements per program: enough to hide a launch's fixed cost, and few enough for small models."""


class Run(NamedTuple):
    """Elements `start` to `end` of every arena; `slot` is one of the parameters they belong to.

    A run of one parameter alone may have its shape.
    """

    start: int
    end: int
    group: int
    age: int
    slot: int
    shape: tuple[int, ...] | None = None

    def of(self, flat: Tensor) -> Tensor:
        """Cut the run out of an arena."""
        piece = flat[self.start : self.end]
        return piece if self.shape is None else piece.view(self.shape)


def apart(layout: Layout, active: bytes, groups: Sequence[int], ages: Sequence[int]) -> list[Run]:
    """Return a run for each active segment that has elements, without padding, in its shape."""
    return [
        Run(s.offset, s.offset + s.length, groups[slot], ages[slot], slot, s.shape)
        for slot, s in enumerate(layout.segments)
        if active[slot] and s.length
    ]


def runs(layout: Layout, active: bytes, groups: Sequence[int], ages: Sequence[int]) -> list[Run]:
    """Merge neighbouring active segments of one group and one age."""
    found: list[Run] = []
    for slot, segment in enumerate(layout.segments):
        if not active[slot] or not segment.length:
            continue
        last = found[-1] if found else None
        if last and (last.end, last.group, last.age) == (segment.offset, groups[slot], ages[slot]):
            found[-1] = last._replace(end=segment.end)
        else:
            found.append(Run(segment.offset, segment.end, groups[slot], ages[slot], slot))
    return found


class ChunkTable(NamedTuple):
    """Device tables: where each program works, for which group and parameter."""

    offsets: Tensor
    lengths: Tensor
    groups: Tensor
    slots: Tensor

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return self.offsets.numel()


def chunk_table(
    layout: Layout, active: bytes, groups: Sequence[int], device: torch.device
) -> ChunkTable:
    """Cut each active segment into pieces of at most `CHUNK` elements."""
    rows = [
        (start, min(CHUNK, segment.offset + segment.length - start), groups[slot], slot)
        for slot, segment in enumerate(layout.segments)
        if active[slot]
        for start in range(segment.offset, segment.offset + segment.length, CHUNK)
    ]
    columns = torch.tensor(rows, dtype=torch.int64).reshape(-1, 4).T.contiguous().to(device)
    narrow = columns.to(torch.int32)
    return ChunkTable(columns[0], narrow[1], narrow[2], narrow[3])
