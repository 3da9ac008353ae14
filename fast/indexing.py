"""Which ops x[...] stands for, by NumPy's rules; the twin of spec.indexing.

Places side by side are a `slice`, others a `take`, and axes that come and go are one `reshape`.
To split is to slice, part by part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from fast.errors import Rejected

Axis = int | tuple[int, ...] | None
Lengths = int | Sequence[int]

ALL = slice(None)


class OutOfRange(Rejected, IndexError):
    """A place that there is not; a loop over a ref ends with it, as one over a list does."""


def steps(shape: Sequence[int], index: object) -> Iterator[tuple[str, dict[str, Any], list[int]]]:
    """Yield the ops that an index into a shape stands for: names, attributes, positions to take.

    What is no index is Rejected, and so is a place that there is not, which is an IndexError, too.
    """
    asked = _asked(index, len(shape))
    given = [one for one in asked if one is not None]
    ranges = [_places(one, extent) for one, extent in zip(given, shape, strict=False)]
    for axis, places in enumerate(ranges):
        if places == range(shape[axis]):
            continue
        if places.step == 1 or len(places) < 2:
            start = places.start if places else 0
            yield "slice", {"axis": axis, "start": start, "length": len(places)}, []
        else:
            yield "take", {"axis": axis}, list(places)
    if any(not isinstance(one, slice) for one in asked):
        left = iter(ranges)
        extents = [1 if one is None else len(next(left)) for one in asked]
        kept = [n for n, one in zip(extents, asked, strict=True) if not _is_int(one)]
        yield "reshape", {"shape": (*kept, *shape[len(ranges) :])}, []


def parted(index: Any, rank: int) -> tuple[Any, int, Any]:
    """Return an index without its list or tensor of integers, the axis that those take, and them.

    Of the axes that are left when the rest has been done: the integers are taken last.
    """
    given = list(index) if isinstance(index, tuple) else [index]
    rows = [k for k, one in enumerate(given) if _is_row(one)]
    if not rows:
        return index, 0, None
    place, *others = rows
    if others or any(map(_is_int, given)):
        raise Rejected(
            "index: a list or tensor of integers indexes one axis, beside slices; index the others "
            f"before it; got {len(rows)} of them, beside {len(given) - len(rows)} others"
        )
    integers = given[place]
    if not hasattr(integers, "tape") and is_mask(integers):
        raise Rejected(
            "index: a mask chooses by `where`: the shape of x[mask] would depend on its values; "
            f"got a mask of the shape {tuple(np.shape(integers))}"
        )
    named = sum(one is not None and one is not Ellipsis for one in given)
    widths = (rank - named if one is Ellipsis else 1 for one in given[:place])
    given[place] = ALL
    return tuple(given), sum(widths), integers


def is_mask(x: Any) -> bool:
    """Say whether a list, an array or a tensor holds truth values."""
    if isinstance(x, torch.Tensor):
        return x.dtype is torch.bool
    return np.asarray(x).dtype.kind == "b"


def _is_row(one: object) -> bool:
    """Say whether this may be integers for one axis: a list, a tensor, an array, or a ref."""
    return isinstance(one, list) or (hasattr(one, "shape") and not _is_int(one))


def _is_int(one: object) -> bool:
    return isinstance(one, Integral) and not isinstance(one, bool)


def _asked(index: object, rank: int) -> list[Any]:
    """List what an index asks, axis by axis, with slices in the place of its Ellipsis."""
    given = list(index) if isinstance(index, tuple) else [index]
    wrong = next((one for one in given if not _is_index(one)), ALL)
    if wrong is not ALL:
        raise Rejected(
            "index: an index is an int, a slice, None or an Ellipsis, or a tuple of these, and of "
            f"one axis a list or tensor of integers; got {type(wrong).__name__}"
        )
    dots = sum(one is Ellipsis for one in given)
    axes = len(given) - dots - sum(one is None for one in given)
    if dots > 1:
        raise Rejected(f"index: there is at most one Ellipsis; got {dots} of them")
    if axes > rank:
        raise OutOfRange(f"index: there is at most one place for each axis, {rank}; got {axes}")
    whole = [ALL] * (rank - axes)
    return [part for one in given for part in (whole if one is Ellipsis else [one])]


def _is_index(one: object) -> bool:
    """Say whether this asks something of an axis; a truth value does not."""
    parts = (one.start, one.stop, one.step) if isinstance(one, slice) else (one,)
    return one is Ellipsis or all(part is None or _is_int(part) for part in parts)


def _places(one: Any, extent: int) -> range:
    """Return the places that an int or a slice names, in order."""
    try:
        found = range(extent)[one]
    except IndexError:
        raise OutOfRange(f"index: a place lies in [-{extent}, {extent}); got {one}") from None
    except ValueError:
        raise Rejected(f"index: the step of a slice is not 0; got {one}") from None
    return found if isinstance(found, range) else range(found, found + 1)


def resolved(shape: Sequence[int], wanted: Any) -> Any:
    """Write out the one extent of a shape that is -1, which the others leave.

    What has none is returned as it is, for the page to judge; what leaves none is Rejected.
    """
    if not isinstance(wanted, Sequence) or -1 not in wanted:
        return wanted
    known = [extent for extent in wanted if extent != -1]
    rest = math.prod(known) if all(type(extent) is int for extent in known) else 0
    if len(wanted) - len(known) > 1 or rest <= 0 or math.prod(shape) % rest:
        raise Rejected(
            "reshape C2: one extent may be -1, where the others divide the number of entries; "
            f"got {tuple(wanted)} for {tuple(shape)}"
        )
    return tuple(math.prod(shape) // rest if extent == -1 else extent for extent in wanted)


def cuts(shape: Sequence[int], lengths: Any, axis: int) -> tuple[int, list[tuple[int, int]]]:
    """Return an axis, from the front, and the start and length of each part into which it is cut.

    The parts have one length, the last may be shorter, or they have several, which add up to it.
    """
    rank = len(shape)
    if type(axis) is not int or not -rank <= axis < rank:
        raise Rejected(f"split C1: the axis lies in [-{rank}, {rank}), got {axis!r}")
    extent = shape[axis]
    if type(lengths) is int and lengths > 0:
        lengths = [min(lengths, extent - start) for start in range(0, extent, lengths)] or [0]
    known = list(lengths) if isinstance(lengths, (tuple, list)) else [-1]
    if any(type(n) is not int or n < 0 for n in known) or sum(known) != extent:
        raise Rejected(
            f"split C2: lengths are an integer >= 1, or several >= 0 that add up to {extent}, "
            f"got {lengths!r}"
        )
    return axis % rank, list(zip(accumulate(known, initial=0), known, strict=False))


def even(shape: Sequence[int], count: Any, axis: int) -> Lengths:
    """Return the length at which an axis is cut into so many parts, or into fewer if it is short.

    As torch has it, an axis without entries is cut into so many parts of none.
    """
    if type(count) is not int or count < 1:
        raise Rejected(f"chunk C1: the count is an integer >= 1, got {count!r}")
    named = type(axis) is int and -len(shape) <= axis < len(shape)
    return (-(-shape[axis] // count) if named else 0) or [0] * count


class Indexed:
    """What reads like a tensor: places, axes and totals, each of them an op of its session."""

    __slots__ = ()

    if TYPE_CHECKING:
        session: Any
        shape: Any

    def __getitem__(self, index: object) -> Self:
        """Return the part at ints, slices, None, Ellipsis and integers, as NumPy means them."""
        found = self
        rest, axis, integers = parted(index, len(self.shape))
        for name, attributes, positions in steps(self.shape, rest):
            inputs = (found, positions) if positions else (found,)
            found = self.session.apply(name, inputs, attributes)
        if integers is not None:
            found = self.session.apply("take", (found, integers), {"axis": axis})
        return found

    def __abs__(self) -> Self:
        """Take the absolute value of each entry."""
        magnitude: Self = self.session.abs(self)
        return magnitude

    @property
    def T(self) -> Self:
        """The tensor with its axes in the opposite order."""
        transposed: Self = self.session.permute(self, axes=tuple(reversed(range(len(self.shape)))))
        return transposed

    def reshape(self, *shape: Any) -> Self:
        """Lay the entries out in another shape, given as extents or as one tuple; one may be -1."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        laid: Self = self.session.reshape(self, shape=wanted)
        return laid

    def split(self, lengths: Lengths, axis: int = 0) -> list[Self]:
        """Cut along an axis into parts of a length, or of several."""
        parts: list[Self] = self.session.split(self, lengths, axis=axis)
        return parts

    def chunk(self, count: int, axis: int = 0) -> list[Self]:
        """Cut along an axis into so many parts."""
        parts: list[Self] = self.session.chunk(self, count, axis=axis)
        return parts

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Add the entries along an axis, several, or all."""
        total: Self = self.session.sum(self, axes=_axes(axis), keepdims=keepdims)
        return total

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Average the entries along an axis, several, or all."""
        average: Self = self.session.mean(self, axes=_axes(axis), keepdims=keepdims)
        return average

    def max(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Take the largest entry along an axis, several, or all."""
        largest: Self = self.session.max(self, axes=_axes(axis), keepdims=keepdims)
        return largest

    def min(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Take the smallest entry along an axis, several, or all."""
        smallest: Self = self.session.min(self, axes=_axes(axis), keepdims=keepdims)
        return smallest

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """Find the first place of the largest entry along an axis, or among all."""
        return self.session.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """Find the first place of the smallest entry along an axis, or among all."""
        return self.session.argmin(self, axis=axis, keepdims=keepdims)


def _axes(axis: Axis) -> Any:
    return (axis,) if isinstance(axis, int) and not isinstance(axis, bool) else axis
