"""The bytes that a launch may touch: those of its tensors, moved far apart from each other.

A tensor's span goes from its first element to its last. Spans that share bytes are one; all others
get addresses of their own, so that no wrong address of one tensor is a right one of another, as it
may be where an allocator has laid them side by side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

APART = 1 << 40
"""Bytes between the spans of a launch: no offset of a kernel is as large by mistake."""

KEPT = 1 << 12
"""The alignment of an address that its new one keeps; kernels ask for 16 bytes."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `end` of the host's memory, which the launch sees at `moved`."""

    start: int
    end: int
    moved: int

    def read(self) -> NDArray[np.uint8]:
        """Copy the bytes."""
        return np.frombuffer(ctypes.string_at(self.start, self.end - self.start), np.uint8).copy()

    def write(self, data: NDArray[np.uint8]) -> None:
        """Put the bytes back; as many as there are."""
        if data.nbytes != self.end - self.start:
            raise ValueError(f"a span of {self.end - self.start} bytes, got {data.nbytes}")
        ctypes.memmove(self.start, data.tobytes(), data.nbytes)


def spans(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[Span, int]]:
    """Return, for each tensor on the host, its span, and its first element's new address."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted({extent(tensor) for tensor in tensors.values()}):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    moved = [
        Span(start, end, (number + 1) * APART + start % KEPT)
        for number, (start, end) in enumerate(merged)
    ]
    return {name: _place(tensor, moved) for name, tensor in tensors.items()}


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return where a tensor's elements begin and end in memory; no bytes where it has none."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def _place(tensor: torch.Tensor, moved: list[Span]) -> tuple[Span, int]:
    """Find the span of a tensor among all; one without bytes may begin where another ends."""
    start, end = extent(tensor)
    span = next(span for span in moved if span.start <= start and end <= span.end)
    return span, span.moved + start - span.start
