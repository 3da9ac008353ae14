"""Guard arenas: every tensor handed to a backend is a view inside a larger, patterned allocation.

The bands before and after a tensor, and the gaps between its elements where its layout leaves
some, hold a quiet NaN (or a large integer), so that a read outside the tensor shows in the result;
after the call the whole allocation is compared byte for byte with a snapshot, so that a write
anywhere, the tensor itself included, is found and located.  `controlled` does the same for what a
backend allocates through torch: fresh memory holds NaN until it is written.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import torch

Shape = tuple[int, ...]

BAND = 64
"""Elements in the band on each side of a tensor; a multiple of every vector width in use."""

LAYOUTS = (
    "contiguous",
    "offset",
    "padded",
    "strided",
    "stepped",
    "transposed",
    "swapped",
    "led",
    "rotated",
    "rolled",
    "expanded",
    "hollow",
    "broadcast",
)
"""Simplest first.

* offset: contiguous, but three elements off every alignment.
* padded: a slice of a wider matrix: rows are further apart than they are long.
* strided: every second element along the last axis; stepped: every second slice along the first.
* transposed: the axes lie in memory in reverse order; swapped: the last two have changed places;
  led: the first two have; rotated: the first lies innermost; rolled: the last lies outermost.
* expanded: stride 0 along the first axis; hollow: along a middle one; broadcast: along the last.

No stride is negative, since no tensor of torch has one.
A layout that a shape is too short for is a simpler one, which `is_own` tells.
"""

ORDERS = ("channels last", "channels first", "heads inside", "halves", "folded", "evens")
"""The orders of four axes and more in memory that are no layouts of a design.

* channels last: the second axis lies innermost; channels first: the last lies second;
  heads inside: the second and the third have changed places.
* halves: the axes behind the middle come first; folded: both halves lie in reverse order;
  evens: every second axis comes first, these in reverse order.

With the layouts above, three axes of four lie in every order, and each of more lies outermost and
innermost.
"""

EVERY_LAYOUT = (*LAYOUTS, *ORDERS)


def _half(axes: Sequence[int]) -> int:
    """Return how many axes lie before the middle."""
    return (len(axes) + 1) // 2


_MEMORY: dict[str, Callable[[list[int]], list[int]]] = {
    "transposed": lambda axes: axes[::-1],
    "swapped": lambda axes: [*axes[:-2], *axes[-2:][::-1]],
    "led": lambda axes: [*axes[:2][::-1], *axes[2:]],
    "rotated": lambda axes: [*axes[1:], *axes[:1]],
    "rolled": lambda axes: [*axes[-1:], *axes[:-1]],
    "channels last": lambda axes: [*axes[:1], *axes[2:], *axes[1:2]],
    "channels first": lambda axes: [*axes[:1], *axes[-1:], *axes[1:-1]],
    "heads inside": lambda axes: [*axes[:1], *axes[1:3][::-1], *axes[3:]],
    "halves": lambda axes: [*axes[_half(axes) :], *axes[: _half(axes)]],
    "folded": lambda axes: [*axes[: _half(axes)][::-1], *axes[_half(axes) :][::-1]],
    "evens": lambda axes: [*axes[::2][::-1], *axes[1::2]],
}
"""The order of the axes in memory, the outermost first, where it is not their own."""

ORDERED = tuple(_MEMORY)
"""The layouts that differ from row-major ones in the order of the axes."""


class Trespass(RuntimeError):
    """A backend wrote where it must not: an input, a gap, or a band around an input."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a tensor lies in its arena: its strides, its offset, and the elements that it spans."""

    strides: tuple[int, ...]
    offset: int
    span: int


def _zero_axis(rank: int, layout: str) -> int | None:
    """Return the axis along which a layout has stride 0, if it has one."""
    if layout == "hollow":
        return rank // 2 if rank > 2 else None
    named = {"expanded": 0, "broadcast": rank - 1} if rank else {}
    return named.get(layout)


def core_shape(shape: Shape, layout: str) -> Shape:
    """Return the shape of the numbers that a layout stores: an expanded axis stores one slice."""
    axis = _zero_axis(len(shape), layout)
    return tuple(min(n, 1) if k == axis else n for k, n in enumerate(shape))


def _row_major(shape: Sequence[int], step: int, padding: int) -> list[int]:
    """Return row-major strides with the given step on the last axis and padding after each row."""
    strides: list[int] = []
    pitch = step
    for position, extent in enumerate(reversed(shape)):
        strides.append(pitch)
        pitch *= max(extent, 1)
        if position == 0:
            pitch += padding
    return strides[::-1]


def in_memory(rank: int, layout: str) -> list[int]:
    """Return the axes of a tensor in the order in which a layout has them, the outermost first."""
    return _MEMORY.get(layout, list)(list(range(rank)))


def place(shape: Shape, layout: str) -> Placement:
    """Return where a tensor of this shape and layout lies in its arena."""
    if layout not in EVERY_LAYOUT:
        raise ValueError(f"unknown layout {layout!r}; known: {', '.join(EVERY_LAYOUT)}")
    stored = core_shape(shape, layout)
    order = in_memory(len(shape), layout)
    step, padding = 2 if layout == "strided" else 1, 5 if layout == "padded" else 0
    lain = dict(zip(order, _row_major([stored[k] for k in order], step, padding), strict=True))
    strides = [lain[k] for k in range(len(shape))]
    if layout == "stepped" and shape:
        strides[0] *= 2
    offset = BAND + (3 if layout in ("offset", "padded") else 0)
    empty = math.prod(stored) == 0
    span = 0 if empty else 1 + sum((n - 1) * s for n, s in zip(stored, strides, strict=True))
    axis = _zero_axis(len(shape), layout)
    if axis is not None:
        strides[axis] = 0
    return Placement(tuple(strides), offset, span)


@cache
def is_own(shape: Shape, layout: str) -> bool:
    """Say whether a layout places a shape as no simpler one does.

    >>> is_own((3, 4), "transposed"), is_own((4,), "transposed"), is_own((1, 4), "transposed")
    (True, False, False)
    """
    return plainest_layout(shape, layout) == layout


@cache
def plainest_layout(shape: Shape, layout: str) -> str:
    """Return the simplest layout that places a shape as this one does.

    >>> plainest_layout((1, 4), "transposed"), plainest_layout((3, 4), "transposed")
    ('contiguous', 'transposed')
    """
    placed = _reached(shape, layout)
    return next(other for other in EVERY_LAYOUT if _reached(shape, other) == placed)


@cache
def _reached(shape: Shape, layout: str) -> tuple[tuple[int, ...], int]:
    """Return the offset and the strides of the axes along which anything steps."""
    placement = place(shape, layout)
    steps = zip(shape, placement.strides, strict=True)
    return tuple(stride if n > 1 else 0 for n, stride in steps), placement.offset


def _pattern(dtype: torch.dtype) -> float | int:
    """Return what fills the bands: NaN, an integer that no valid index reaches, or True."""
    if dtype.is_floating_point:
        return math.nan
    if dtype is torch.bool:
        return True
    return torch.iinfo(dtype).max // 3


@dataclass(frozen=True, slots=True)
class Guarded:
    """One guarded tensor: its view, the allocation around it, and how that looked before."""

    view: torch.Tensor
    base: torch.Tensor
    before: torch.Tensor
    placement: Placement
    stored: Shape

    def numbers(self) -> list[float]:
        """Return the numbers that the arena was filled with, row-major, expanded axes once."""
        core = self.base.as_strided(self.stored, self.placement.strides, self.placement.offset)
        wide = core.double() if core.is_floating_point() else core
        found: list[float] = wide.flatten().tolist()
        return found

    def copied(self) -> Guarded:
        """Return a tensor of the same form that holds the same, in an arena of its own."""
        base = self.base.clone()
        view = base.as_strided(self.view.shape, self.view.stride(), self.placement.offset)
        return replace(self, view=view, base=base, before=self.before.clone())

    def take(self, other: Guarded) -> None:
        """Hold from now on what another tensor of the same form holds."""
        self.base.copy_(other.base)
        self.before.copy_(other.before)

    def check(self, label: str) -> None:
        """Raise Trespass if any byte of the allocation changed since the tensor was placed."""
        after = self.base.view(torch.uint8)
        if torch.equal(after, self.before):
            return
        width = self.base.element_size()
        changed = torch.nonzero(after != self.before).flatten() // width
        raise Trespass(f"{label}: {self._describe(torch.unique(changed))}")

    def _describe(self, changed: torch.Tensor) -> str:
        """Say in words what was overwritten."""
        first = int(changed[0]) - self.placement.offset
        count = int(changed.numel())
        if first < 0:
            return f"{count} elements overwritten, the first one {-first} before the tensor"
        if first >= self.placement.span:
            past = first - self.placement.span + 1
            return f"{count} elements overwritten, the first one {past} past the tensor's end"
        return f"{count} elements of its own memory overwritten, the first at offset {first}"


def guard(
    values: Sequence[float] | Sequence[int] | torch.Tensor,
    shape: Shape,
    dtype: torch.dtype,
    layout: str,
    device: str = "cpu",
) -> Guarded:
    """Place numbers (row-major, in the layout's core shape) in an arena of their own."""
    placement = place(shape, layout)
    base = _blank(placement.offset + placement.span + BAND, dtype)
    _write(base, placement, core_shape(shape, layout), values)
    return _framed(base.to(device), placement, shape, layout)


def overlapping(
    values: Sequence[Sequence[float]],
    forms: Sequence[tuple[Shape, str]],
    dtype: torch.dtype,
    device: str = "cpu",
) -> list[Guarded]:
    """Place tensors (shape and layout) in one arena, each beginning an element after the last one.

    Of numbers that lie in one place those of the last tensor stay, whoever else reads them.
    """
    placements = [
        replace(near, offset=near.offset + k)
        for k, near in enumerate(place(shape, layout) for shape, layout in forms)
    ]
    base = _blank(max(at.offset + at.span for at in placements) + BAND, dtype)
    for numbers, at, (shape, layout) in zip(values, placements, forms, strict=True):
        _write(base, at, core_shape(shape, layout), numbers)
    base = base.to(device)
    return [
        _framed(base, at, shape, layout)
        for at, (shape, layout) in zip(placements, forms, strict=True)
    ]


def _blank(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Return an arena with nothing in it; torch.full, which is not left to the poisoning below."""
    return torch.full((length,), _pattern(dtype), dtype=dtype)


def _write(
    base: torch.Tensor, at: Placement, stored: Shape, values: Sequence[float] | torch.Tensor
) -> None:
    """Put numbers where a tensor lies, rounded to its dtype."""
    wide = torch.float64 if base.is_floating_point() else torch.int64
    plain = values if isinstance(values, torch.Tensor) else list(values)
    numbers = torch.as_tensor(plain, dtype=wide).to(base.dtype)
    if base.is_floating_point():
        _vary_nans(numbers)
    base.as_strided(stored, at.strides, at.offset).copy_(numbers.reshape(stored))


def _vary_nans(numbers: torch.Tensor) -> None:
    """Let every second NaN have other bits: all ones, as a kernel that counts on one NaN forgets.

    Who rounds such bits as if they were a number carries into the sign, and gets a 0.
    """
    bits = numbers.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[numbers.element_size()])
    (places,) = numbers.reshape(-1).isnan().nonzero(as_tuple=True)
    most = torch.iinfo(bits.dtype).max
    bits.reshape(-1)[places[1::4]] = most
    bits.reshape(-1)[places[3::4]] = -1


def _framed(base: torch.Tensor, at: Placement, shape: Shape, layout: str) -> Guarded:
    """Return a tensor in an arena that is filled."""
    view = base.as_strided(shape, at.strides, at.offset)
    return Guarded(view, base, base.view(torch.uint8).clone(), at, core_shape(shape, layout))


@contextmanager
def controlled() -> Iterator[None]:
    """Let a backend run with poisoned memory, and on one thread so that a rerun gives the same.

    torch fills fresh memory with NaN (integers: their maximum) while the block runs.
    It offers this only together with its deterministic mode, so operations that have a
    deterministic variant use it; operations without one still run (warn_only).  Memory that a
    backend obtains elsewhere is not poisoned.
    """
    threads = torch.get_num_threads()
    # The same switch as use_deterministic_algorithms, which takes a second to import a compiler.
    mode = torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic.*")
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.set_num_threads(threads)
