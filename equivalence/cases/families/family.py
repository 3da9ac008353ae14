"""What a family is, and the small tools with which the families say what they know.

A family is a set of ops that are called alike: the same shapes and attributes suit them all.
An op is told from its record alone, by what its type rule accepts, so that a page that is called
like another one needs no entry here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels, Rule, by_rules, covering
from equivalence.cases.domains import Domain
from spec.op import Op, Rejected

Shape = tuple[int, ...]

Signature = tuple[tuple[Shape, ...], dict[str, Any]]
"""The shapes of the inputs, and the attributes."""

Draw = Callable[[st.SearchStrategy[Any]], Any]

Picks = tuple[int, int, int]
"""Numbers by which an op of a life finds its operands, read modulo what there is."""

Operands = tuple[tuple[Any, ...], dict[str, Any]]
"""Ids of entries, or for indices a list of integers or the name of a natural; and attributes."""

FACTOR = 64.0
"""The largest magnitude that is multiplied, so that a life stays within the range of fp32."""

FEW = 1.0
"""The largest magnitude of those that are multiplied along an axis."""

TERM = 2.0**16
"""The largest magnitude that is added or compared."""

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257)
"""Small numbers, primes, and the neighbours of every likely tile."""


class Offer(Protocol):
    """What the tape of a life offers as operands: numbers, and integers that an op has returned."""

    @property
    def shapes(self) -> Mapping[int, Shape]:
        """The shapes of the entries, by their ids."""

    def entry(
        self, pick: int, fits: Callable[[Shape], bool], most: float = TERM, domain: Domain = "real"
    ) -> int | None:
        """Pick one of the latest entries that fit, of numbers up to a magnitude in a domain."""

    def indices(self, pick: int, extent: int) -> Any:
        """Pick integers of the tape that lie in [0, extent), or write such numbers down."""

    def labels(self, pick: int, rows: int, classes: int) -> Any:
        """Pick a vector of so many labels, or write labels down."""

    def positions(self, pick: int, shape: Shape, extent: int) -> Any:
        """Pick integers in [0, extent), of a shape but for its first extent, or write such down."""

    def cast(self, pick: int) -> tuple[int, str] | None:
        """Pick an entry and a format, so that what goes back fits the format it comes to."""

    def mask(self, pick: int, shape: Shape) -> Any:
        """Write a mask down."""


@dataclass(frozen=True)
class Call:
    """A call that a design has chosen so far: its structure, and some levels of its recipes."""

    op: Op
    direction: str
    shapes: tuple[Shape, ...]
    attributes: Mapping[str, Any]
    result: Shape
    levels: Levels

    def judged(self) -> int:
        """Count the elements that a case of this call asks for."""
        if self.direction != "vjp":
            return math.prod(self.result)
        real = (s for k, s in enumerate(self.shapes) if k not in self.op.index_inputs)
        return sum(map(math.prod, real))


Sight = Callable[[Call], bool]
"""Says whether the results of a call may show anything: whether they differ from each other."""


@dataclass(frozen=True)
class Family:
    """A way of being called, and what the judge asks of the ops that are called so.

    factors(op) are what makes a call: size classes, ranks, places, attributes.
    rules say which of their levels may meet, in which direction, and call(op, direction, levels) is
    the call that they make.
    shows say whether a call, as far as it is chosen, has something to show.
    empty(op) are calls with no element or one, of which those count that the op accepts.
    draw(draw, op, direction) draws a call, larger than what counts.
    operands(op, offer, picks) finds operands in a life, None where nothing fits.
    keeps_shape says that the result has the shape of the inputs, which are all alike.
    """

    name: str
    factors: Callable[[Op], Factors]
    rules: tuple[Rule, ...]
    call: Callable[[Op, str, Levels], Signature]
    empty: Callable[[Op], tuple[Signature, ...]]
    draw: Callable[[Draw, Op, str], Signature]
    operands: Callable[[Op, Offer, Picks], Operands | None]
    shows: tuple[Sight, ...] = ()
    keeps_shape: bool = False

    def takes(self, op: Op) -> bool:
        """Say whether an op is called like this: its type rule accepts every level.

        What acts on every entry alike is told from what acts on rows by an input of rank 0.
        """
        told = (*self.singles(op), *(self.empty(op) if self.keeps_shape else ()))
        return all(self._suits(op, signature) for signature in told)

    def _suits(self, op: Op, signature: Signature) -> bool:
        shape = result(op, signature)
        return shape is not None and (not self.keeps_shape or shape == signature[0][0])

    def singles(self, op: Op) -> tuple[Signature, ...]:
        """Return calls in which every level of every factor is met."""
        factors = {"direction": ("value",), **self.factors(op)}
        rows = covering(factors, by_rules(*self.rules), 1)
        return tuple(self.call(op, "value", levels) for levels in rows)

    def extras(self, op: Op) -> tuple[Signature, ...]:
        """Return the calls without elements, or with one, that the op accepts."""
        return tuple(s for s in self.empty(op) if result(op, s) is not None)


RANKS = (2, 1, 3, 4, 5, 6)

PLACES = ("last", "first", "middle")
"""Where among the axes the one lies that a family is about."""

BESIDE = ("few", "many", "square", "behind one")
"""How many slices lie beside that axis: a few, more than 256, as many as it has entries, or a few
behind a leading axis of one entry."""

NAMES = ("positive", "negative")
"""How an axis is named: from the front, or from the back."""

MANY = 259
SHORT = 2
"""The longest axis beside which there are many slices."""

SQUARE = (8, 9, 31, 33)
"""The extents of axes beside which there are as many slices."""


def place_is_its_own(rank: int, place: str) -> bool:
    """Of one axis the only place is the last, and of two none is a middle one."""
    return place == "last" or rank > 2 or (rank == 2 and place == "first")


def many_lie_beside_short_ones(rows: str, rank: int, extent: int) -> bool:
    """Many slices need an axis beside the other, and cost too much where that is long."""
    fits = {"many": extent <= SHORT, "square": extent in SQUARE, "behind one": rank > 2}
    return rows == "few" or (rank > 1 and fits[rows])


def one_entry_leads_where_the_other_axis_does_not(rows: str, place: str) -> bool:
    """An axis of one entry leads alone."""
    return rows != "behind one" or place != "first"


def around(levels: Levels, most: int = 600, beside: int = 1) -> tuple[Shape, int]:
    """Return a shape with an axis of some extent at some place, and where that is.

    The other axes hold more than ENOUGH entries with it, and at least so many without it, as long
    as the whole has at most so many.
    """
    rank, extent = levels["rank"], levels["extent"]
    axis = {"first": 0, "middle": rank // 2, "last": max(rank - 1, 0)}[levels.get("place", "last")]
    if not rank:
        return (), axis
    others = [(3, 2, 1, 2, 3)[k] for k in range(rank - 1)]
    for k in range(rank - 1):
        if math.prod(others[: k + 1]) * extent > most:
            others[k] = 1
    if others and levels.get("rows") == "many":
        others = [MANY, *(1 for _ in others[1:])]
    elif others and levels.get("rows") == "square":
        others = [extent, *(1 for _ in others[1:])]
    elif len(others) > 1 and levels.get("rows") == "behind one":
        wanted = max(-(-(ENOUGH + 1) // extent), beside)
        others = [1, max(2, min(wanted, max(most // extent, 2))), *(1 for _ in others[2:])]
    elif others:
        rest = math.prod(others[1:])
        wanted = max(-(-(ENOUGH + 1) // (rest * extent)), -(-beside // rest))
        others[0] = max(others[0], min(wanted, max(most // (rest * extent), 1)))
    return (*others[:axis], extent, *others[axis:]), axis


def named(axis: int, rank: int, name: str) -> int:
    """Return an axis by its name from the front, or from the back."""
    return axis - rank if name == "negative" else axis


def result(op: Op, signature: Signature) -> Shape | None:
    """Return the shape of a call's result, or None where the page refuses the call."""
    shapes, attributes = signature
    types = [op.type_at(0 if op.variadic else k, shape) for k, shape in enumerate(shapes)]
    try:
        return op.check_types(*types, **attributes).shape
    except Rejected:
        return None


def always(*signatures: Signature) -> Callable[[Op], tuple[Signature, ...]]:
    """Return the same calls for every op."""
    return lambda op: signatures


def extent(draw: Draw, most: int, least: int = 1) -> int:
    """Draw one extent between bounds, preferring the neighbours of tiles."""
    choices = [n for n in EXTENTS if least <= n <= most]
    number: int = draw(st.sampled_from(choices or [least]))
    return number


def shape(draw: Draw, least: int, most: int, min_rank: int = 0, max_rank: int = 4) -> Shape:
    """Draw a shape with between least and most elements (least is met by the last axis)."""
    rank: int = draw(st.integers(max(min_rank, 1 if least > 1 else 0), max_rank))
    extents: list[int] = []
    for position in range(rank):
        size = math.prod(extents)
        last = position == rank - 1
        extents.append(extent(draw, max(most // size, 1), -(-least // size) if last else 1))
    order: list[int] = draw(st.permutations(range(rank)))
    return tuple(extents[k] for k in order)


def named_axis(draw: Draw, axis: int, rank: int) -> int:
    """Draw one of the two names of an axis: from the front, or negative from the back."""
    return axis - rank if draw(st.booleans()) else axis


def everything(shape: Shape) -> bool:
    """Fit any shape."""
    return True


def has_elements(shape: Shape) -> bool:
    """Fit shapes with elements."""
    return math.prod(shape) > 0


def is_matrix(shape: Shape) -> bool:
    """Fit two axes."""
    return len(shape) == 2
