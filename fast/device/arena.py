"""Flat arenas: many tensors of one dtype in one allocation, so that one launch sees them all.

Segments start at multiples of 64 elements, and the elements between them are zero and stay zero:
an update of zeros by zeros writes zeros, so a kernel may run over the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from fast.device.counters import counters

ALIGNMENT = 64


class Segment(NamedTuple):
    """Where one tensor lies in every arena of a layout."""

    offset: int
    length: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first element after the segment and its padding."""
        return self.offset + -(-self.length // ALIGNMENT) * ALIGNMENT


class Layout:
    """Segments one after the other; arenas that share a layout agree on every offset."""

    __slots__ = ("segments", "total")

    def __init__(self, shapes: Sequence[tuple[int, ...]] = ()) -> None:
        self.segments: list[Segment] = []
        self.total = 0
        for shape in shapes:
            self.append(shape)

    def append(self, shape: tuple[int, ...]) -> int:
        """Add a segment and return its slot."""
        segment = Segment(self.total, prod(shape), tuple(shape))
        self.segments.append(segment)
        self.total = segment.end
        return len(self.segments) - 1


class Arena:
    """One flat zero-filled allocation, and a view for each slot of its layout."""

    __slots__ = ("__weakref__", "_nbytes", "flat", "layout", "views")

    def __init__(self, layout: Layout, dtype: torch.dtype, device: torch.device) -> None:
        self.layout = layout
        self.views: list[Tensor] = []
        self.flat = torch.zeros(layout.total, dtype=dtype, device=device)
        self._nbytes = self.flat.nbytes
        counters.allocate(self._nbytes)
        self._cut()

    def fit(self) -> None:
        """Grow to the layout; views taken before keep the old memory, with its old contents."""
        if len(self.views) == len(self.layout.segments):
            return
        if self.flat.numel() < self.layout.total:
            grown = self.flat.new_zeros(max(self.layout.total, 2 * self.flat.numel()))
            grown[: self.flat.numel()].copy_(self.flat)
            counters.free(self._nbytes)
            self.flat, self._nbytes = grown, grown.nbytes
            counters.allocate(self._nbytes)
            self.views = []
        self._cut()

    def _cut(self) -> None:
        for segment in self.layout.segments[len(self.views) :]:
            piece = self.flat[segment.offset : segment.offset + segment.length]
            self.views.append(piece.view(segment.shape))

    def __del__(self) -> None:
        if getattr(self, "_nbytes", None) is not None:
            counters.free(self._nbytes)
