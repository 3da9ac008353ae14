"""What a family is, and what each says of the ops that are called so.

A family is a set of ops that are called alike: the same shapes and attributes suit them all.
An op is told from its record alone, by what its type rule accepts, so that a page that is called
like another one needs no entry here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from equivalence.cases.covering import Factors, Levels, Rule, by_rules, covering
from equivalence.cases.domains import Domain, usual
from equivalence.cases.families.exactly import Small
from equivalence.cases.families.growing import Bearing, Growths
from equivalence.cases.families.signatures import Draw, Shape, Signature, results
from spec.op import Op

Picks = tuple[int, int, int]
"""Numbers by which an op of a stateful run finds its operands, read modulo what there is."""

Operands = tuple[tuple[Any, ...], dict[str, Any]]
"""Ids of entries, or for indices a list of integers or the name of a natural; and attributes."""

Sample = tuple[list[Tensor], dict[str, Any]]
"""Inputs and attributes of a call as people test with it."""

FACTOR = 64.0
"""The largest magnitude that is multiplied, so that a run stays within the range of fp32."""

FEW = 1.0
"""The largest magnitude of those that are multiplied along an axis."""

TERM = 2.0**16
"""The largest magnitude that is added or compared."""


class Offer(Protocol):
    """What a stateful run's tape offers as operands: numbers, and integers that an op returned."""

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

    def buffer(self, pick: int, shape: Shape, domain: Domain = "real") -> Any:
        """Pick a named buffer of a shape, of numbers in a domain; None where there is none."""


class Sampler(Protocol):
    """What draws the tensors of a call as people test with it: a matrix, or what goes with one."""

    rows: int
    columns: int

    def normal(self, *shape: int) -> Tensor:
        """Draw normal numbers."""

    def below(self, bound: int, *shape: int) -> Tensor:
        """Draw integers in [0, bound)."""

    def matrix(self) -> Tensor:
        """Draw a matrix of normal numbers."""

    def entries(self, op: Op, k: int) -> Tensor:
        """Draw a matrix for one input of an op, away from the edge of its domain."""


class Call(NamedTuple):
    """A call that a design has chosen so far: its structure, and some levels of its recipes."""

    op: Op
    direction: str
    shapes: tuple[Shape, ...]
    attributes: Mapping[str, Any]
    results: tuple[Shape, ...]
    levels: Levels

    def judged(self) -> int:
        """Count the elements that a case of this call asks for."""
        if self.direction != "vjp":
            return sum(map(math.prod, self.results))
        real = (s for k, s in enumerate(self.shapes) if k not in self.op.index_inputs)
        return sum(map(math.prod, real))


Sight = Callable[[Call], bool]
"""Says whether the results of a call may show anything: whether they differ from each other."""


def matrices(sampler: Sampler, op: Op) -> Sample:
    """Take matrices of one shape, and the plainest attributes."""
    return [sampler.entries(op, k) for k in range(len(op.inputs))], usual(op)


@dataclass(frozen=True, kw_only=True)
class Family:
    """A way of being called, and what the judge asks of the ops that are called so.

    factors(op) are what makes a call: size classes, ranks, places, attributes.
    rules say which of their levels may meet, and call(op, direction, levels) is what they make.
    shows say whether a call, as far as it is chosen, has something to show.
    empty(op) are calls with no element or one, of which those count that the op accepts.
    draw(draw, op, direction) draws a call, larger than what counts.
    small(draw, op) draws a call of extents from 0 to 3, for the laws, which are exact.
    growths(op) are the ways in which calls grow to real sizes, and bearing says with what numbers.
    operands(op, offer, picks) finds operands in a stateful run, None where nothing fits.
    sample(sampler, op) is the call that people test with.
    keeps_shape says that every result has the shape of the inputs, which are all alike.

    Calls that break a constraint stand on each page, as REFUSED: they are no matter of a family.
    """

    name: str
    factors: Callable[[Op], Factors]
    rules: tuple[Rule, ...]
    call: Callable[[Op, str, Levels], Signature]
    empty: Callable[[Op], tuple[Signature, ...]]
    draw: Callable[[Draw, Op, str], Signature]
    small: Small
    growths: Growths
    operands: Callable[[Op, Offer, Picks], Operands | None]
    sample: Callable[[Sampler, Op], Sample] = matrices
    shows: tuple[Sight, ...] = ()
    bearing: Bearing = field(default=Bearing())
    keeps_shape: bool = False

    def takes(self, op: Op) -> bool:
        """Say whether an op is called like this: its type rule accepts every level.

        Calls of the family name every attribute that the op has, but for the world of its numbers.
        What acts on every entry alike is told from what acts on rows by an input of rank 0.
        """
        singles = self.singles(op)
        told = (*singles, *(self.empty(op) if self.keeps_shape else ()))
        return self._knows(op, singles) and all(self._suits(op, call) for call in told)

    def takes_in_part(self, op: Op) -> bool:
        """Say whether the type rule accepts every level in some call, though not in every one.

        So it is where an attribute suits some extents only. A level whose call is refused is
        looked for in the calls that are accepted.
        """
        factors = {"direction": ("value",), **self.factors(op)}
        may = by_rules(*self.rules)
        empty = self.empty(op) if self.keeps_shape else ()

        def accepted(levels: Levels) -> bool:
            return may(levels) and self._suits(op, self.call(op, "value", levels))

        rows = [row for row in covering(factors, may, 1) if accepted(row)]
        met = {level for row in rows for level in row.items()}
        wanted = {(name, level) for name, among in factors.items() for level in among} - met
        calls = [self.call(op, "value", row) for row in rows]
        return (
            bool(rows)
            and self._knows(op, calls)
            and all(self._suits(op, signature) for signature in empty)
            and all(any(accepted({**row, name: level}) for row in rows) for name, level in wanted)
        )

    def _knows(self, op: Op, calls: Iterable[Signature]) -> bool:
        """Say whether calls name every attribute of an op."""
        named = {name for _, attributes in calls for name in attributes}
        return op.attributes.keys() - {"like"} <= named

    def _suits(self, op: Op, signature: Signature) -> bool:
        found = results(op, signature)
        return found is not None and (not self.keeps_shape or {*found} == {signature[0][0]})

    def singles(self, op: Op) -> tuple[Signature, ...]:
        """Return calls in which every level of every factor is met."""
        factors = {"direction": ("value",), **self.factors(op)}
        rows = covering(factors, by_rules(*self.rules), 1)
        return tuple(self.call(op, "value", levels) for levels in rows)

    def extras(self, op: Op) -> tuple[Signature, ...]:
        """Return the calls without elements, or with one, that the op accepts."""
        return tuple(s for s in self.empty(op) if results(op, s) is not None)


def everything(shape: Shape) -> bool:
    """Fit any shape."""
    return True


def has_elements(shape: Shape) -> bool:
    """Fit shapes with elements."""
    return math.prod(shape) > 0


def is_matrix(shape: Shape) -> bool:
    """Fit two axes."""
    return len(shape) == 2


def varied(factors: Factors) -> Callable[[Op], Factors]:
    """Return the same factors for every op."""
    return lambda op: factors
