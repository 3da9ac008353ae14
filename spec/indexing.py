"""Chapter 24. Indexing: which ops x[...] stands for.

An index is an int, a slice, None or an Ellipsis, or a tuple of these, and means what it means in
NumPy: an int picks a place and drops its axis, a slice keeps it, None makes a new axis, and an
Ellipsis stands for all axes that are left. One axis may be indexed by a list or tensor of integers.
Places side by side are a `slice`, others a `take`, and axes that come and go are one `reshape` at
the end. To split is to slice, part by part.

>>> [(s.op, dict(s.attributes)) for s in steps((3, 4), (slice(None), 1))]
[('slice', {'axis': 1, 'start': 1, 'length': 1}), ('reshape', {'shape': (3,)})]
>>> steps((3,), slice(None, None, -1))
[Step(op='take', attributes={'axis': 0}, positions=(2, 1, 0))]
>>> resolved((2, 6), (3, -1)), steps((3, 4), ...)
((3, 4), [])
>>> cuts((2, 7), 3, -1), cuts((2, 7), (6, 1), 1)
((1, [(0, 3), (3, 3), (6, 1)]), (1, [(0, 6), (6, 1)]))
"""

# This file is longer than the guide because it holds all that a ref reads like a tensor by.
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self, TypeVar

from spec.answers import as_python
from spec.op import holds
from spec.refusals import OutOfRange as OutOfRange
from spec.refusals import Unsupported, refuse
from spec.shape import Shape, normalize_axis
from spec.tensor import is_tensor, tensor
from spec.worlds import is_number

Axis = int | tuple[int, ...] | None
Lengths = int | Sequence[int]
R = TypeVar("R")

KINDS = (
    "an index is an int, a slice, None or an Ellipsis, or a tuple of these, and of one axis a list "
    "or tensor of integers"
)
MASKED = "a mask chooses by `where`: the shape of x[mask] would depend on its values"
ALONE = "a list or tensor of integers indexes one axis, beside slices; index the others before it"


@dataclass(frozen=True)
class Step:
    """One op of an index: its name, its attributes, and the positions that `take` takes."""

    op: str
    attributes: Mapping[str, Any]
    positions: tuple[int, ...] = ()


def steps(shape: Shape, index: object) -> list[Step]:
    """Return the ops that an index into a shape stands for; none for all of it.

    What is no index is Rejected, and so is a place that there is not, which is an IndexError, too.
    """
    asked = _asked(index, len(shape))
    extents = iter(enumerate(shape))
    found: list[Step] = []
    result: list[int] = []
    for one in asked:
        if one is None:
            result.append(1)
            continue
        axis, extent = next(extents)
        places = _places(one, extent)
        if places != range(extent):
            found.append(_along(axis, places))
        if isinstance(one, slice):
            result.append(len(places))
    if any(not isinstance(one, slice) for one in asked):
        found.append(Step("reshape", {"shape": (*result, *(extent for _, extent in extents))}))
    return found


def parted(index: Any, rank: int) -> tuple[Any, int, Any]:
    """Return an index without its list or tensor of integers, the axis that those take, and them.

    Of the axes that are left when the rest has been done: the integers are taken last.
    """
    asked = index
    given: list[Any] = [*index] if isinstance(index, tuple) else [index]
    rows = [k for k, one in enumerate(given) if _is_row(one)]
    if not rows:
        return asked, 0, None
    place, *others = rows
    if others or any(map(_is_int, given)):
        raise refuse("index", ALONE, f"{len(rows)} of them, beside {len(given) - len(rows)} others")
    integers = given[place]
    if not hasattr(integers, "tape"):
        integers = integers if is_tensor(integers) else tensor(integers)
        if integers.data and holds(integers, bool):
            raise refuse("index", MASKED, f"a mask of the shape {integers.shape}")
    named = sum(one is not None and one is not Ellipsis for one in given)
    widths = (rank - named if one is Ellipsis else 1 for one in given[:place])
    given[place] = slice(None)
    return tuple(given), sum(widths), integers


def _is_row(one: Any) -> bool:
    """Say whether this may be integers for one axis: a list, a tensor, an array, or a ref."""
    return isinstance(one, list) or (hasattr(one, "shape") and not _is_int(one))


def _asked(index: Any, rank: int) -> list[Any]:
    """List what an index asks, axis by axis, with slices in the place of its Ellipsis."""
    given: list[Any] = [*index] if isinstance(index, tuple) else [index]
    for one in given:
        if not _is_index(one):
            raise refuse("index", KINDS, type(one).__name__)
    places = [k for k, one in enumerate(given) if one is Ellipsis]
    if len(places) > 1:
        raise refuse("index", "there is at most one Ellipsis", f"{len(places)} of them")
    axes = sum(one is not None and one is not Ellipsis for one in given)
    if axes > rank:
        raise OutOfRange(f"index: there is at most one place for each axis, {rank}; got {axes}")
    for k in places:
        given[k : k + 1] = [slice(None)] * (rank - axes)
    return given


def _is_index(one: Any) -> bool:
    """Say whether this asks something of an axis; a truth value does not."""
    asks: Any = one
    bounds = (asks.start, asks.stop, asks.step) if isinstance(one, slice) else (asks,)
    return one is Ellipsis or all(bound is None or _is_int(bound) for bound in bounds)


def _is_int(one: object) -> bool:
    return not isinstance(one, bool) and isinstance(one, Integral)


def _places(one: Any, extent: int) -> range:
    """Return the places that an int or a slice names, in order."""
    if not _is_int(one):
        if one.step == 0:
            raise refuse("index", "the step of a slice is not 0", one)
        asked: slice[Any, Any, Any] = one
        return range(extent)[asked]
    if not -extent <= one < extent:
        raise OutOfRange(f"index: a place lies in [-{extent}, {extent}); got {one}")
    return range(one % extent, one % extent + 1)


def _along(axis: int, places: range) -> Step:
    """Return the op for places along an axis."""
    if places.step == 1 or len(places) < 2:
        start = places.start if places else 0
        return Step("slice", {"axis": axis, "start": start, "length": len(places)})
    return Step("take", {"axis": axis}, tuple(places))


def resolved(shape: Shape, wanted: Any) -> Any:
    """Write out the one extent of a shape that is -1, which the others leave.

    What has none is returned as it is, for the page to judge; what leaves none is Rejected.
    """
    asked: Any = wanted
    given: list[Any] = [*asked] if isinstance(wanted, (tuple, list)) else []
    if -1 not in given:
        return asked
    known = [extent for extent in given if extent != -1]
    total, rest = math.prod(shape), math.prod(known) if all(map(_is_int, known)) else 0
    if len(given) - len(known) > 1 or rest <= 0 or total % rest:
        rule = "one extent may be -1, where the others divide the number of entries"
        raise refuse("reshape C2", rule, f"{tuple(given)} for {shape}")
    return tuple(total // rest if extent == -1 else extent for extent in given)


def cuts(shape: Shape, lengths: Any, axis: int) -> tuple[int, list[tuple[int, int]]]:
    """Return an axis, from the front, and the start and length of each part into which it is cut.

    The parts have one length, the last may be shorter, or they have several, which add up to it.
    """
    at = normalize_axis(axis, len(shape))
    if at is None:
        raise refuse("split C1", f"the axis lies in [-{len(shape)}, {len(shape)})", repr(axis))
    extent = shape[at]
    each: Any = lengths
    if _is_int(lengths) and lengths > 0:
        each = [min(lengths, extent - start) for start in range(0, extent, lengths)] or [0]
    known: list[Any] = [*each] if isinstance(each, (tuple, list)) else [-1]
    if any(not _is_int(n) or n < 0 for n in known) or sum(known) != extent:
        rule = f"lengths are an integer >= 1, or several >= 0 that add up to {extent}"
        raise refuse("split C2", rule, repr(lengths))
    return at, list(zip(accumulate(known, initial=0), known, strict=False))


def even(shape: Shape, count: Any, axis: int) -> Lengths:
    """Return the length at which an axis is cut into so many parts, or into fewer if it is short.

    As torch has it, an axis without entries is cut into so many parts of none.
    """
    if not _is_int(count) or count < 1:
        raise refuse("chunk C1", "the count is an integer >= 1", repr(count))
    at = normalize_axis(axis, len(shape))
    extent: int = 0 if at is None else shape[at]
    return -(-extent // count) or [0] * count


class Parts:
    """What makes several refs of one: parts, each a `slice`, or entries with their places."""

    def split(self, x: R, lengths: Lengths, *, axis: int = 0) -> list[R]:
        """Cut along an axis into parts of a length, the last may be shorter, or of several."""
        ops: Any = self
        at, parts = cuts(ops.own("split", x).shape, lengths, axis)
        return [ops.slice(x, axis=at, start=start, length=length) for start, length in parts]

    def chunk(self, x: R, count: int, *, axis: int = 0) -> list[R]:
        """Cut an axis into so many parts of one length; the last may be shorter, or missing."""
        ops: Any = self
        return self.split(x, even(ops.own("chunk", x).shape, count, axis), axis=axis)

    def max_with_indices(self, x: R, *, axis: int, keepdims: bool = False) -> tuple[R, Any]:
        """Take the largest entries along an axis, and find their places.

        Of a tie, the first has the whole cotangent; `max` shares it out. So it is in torch.
        """
        return self._with_indices("argmax", x, axis, keepdims)

    def min_with_indices(self, x: R, *, axis: int, keepdims: bool = False) -> tuple[R, Any]:
        """Take the smallest entries along an axis, and find their places, as for the largest."""
        return self._with_indices("argmin", x, axis, keepdims)

    def _with_indices(self, op: str, x: R, axis: int, keepdims: bool) -> tuple[R, Any]:
        """Find places, and gather what lies there."""
        ops: Any = self
        flag: Any = keepdims
        if not isinstance(flag, bool):
            raise refuse("max_with_indices", "keepdims is True or False", repr(flag))
        places = ops.apply(op, (x,), {"axis": axis, "keepdims": True})
        found = ops.gather(x, places, axis=axis)
        if keepdims:
            return found, places
        at = normalize_axis(axis, len(places.shape))
        shape = tuple(n for k, n in enumerate(places.shape) if k != at)
        return ops.reshape(found, shape=shape), ops.apply(op, (x,), {"axis": axis})


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
        for step in steps(self.shape, rest):
            inputs = (found, tensor(list(step.positions))) if step.op == "take" else (found,)
            found = self.session.apply(step.op, inputs, dict(step.attributes))
        if integers is not None:
            found = self.session.apply("take", (found, integers), {"axis": axis})
        return found

    def __abs__(self) -> Self:
        """Take the absolute value of each entry."""
        magnitude: Self = self.session.abs(self)
        return magnitude

    def __pow__(self, power: Any) -> Self:
        """Raise each entry to a power, which is a number."""
        if not is_number(as_python(power)):
            others = "write ops.exp(y * ops.log(x)) for others"
            raise Unsupported(f"pow: a power is a number; {others}; got {type(power).__name__}")
        raised: Self = self.session.pow(self, c=power)
        return raised

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
