"""The error of every kind of arithmetic step, formed once from a contract.

A contract names formats, roundings and freedoms. `Steps` says what follows from them for one step:
how far its result may be from the exact one, whether exact operands give an exact result, what may
be flushed, and where overflow starts. Three number systems read this record, and none of them asks
the contract itself: balls (`equivalence.worlds.arithmetic`), arrays of pairs
(`equivalence.worlds.vectorized.widths`) and sets of special values
(`equivalence.worlds.special_values.sets`).

* Addition, subtraction, multiplication and a root of a number are *plain* steps: the exact result
  is rounded to the format of computation, and then to that of storage if every step may pass it.
* A quotient has an error of its own before it is rounded, or multiplies by a rounded reciprocal.
* An elementary function has its declared error in place of the first rounding.
* A sum rounds in the format of accumulation along any tree; a dot product may round its factors to
  a narrower format first. Both end like a plain step if that format is not the last.
* The last step of a result rounds it to the format of storage, unless it is there already. So does
  a cast, whose format of storage is the one that it names.

>>> from equivalence.worlds.contract import BF16, FP32, Contract
>>> steps = Steps.of(Contract("half", FP32, BF16, division="full", flush="outputs"))
>>> steps.unit == FP32.unit, steps.division.relative / steps.unit, steps.stores
(True, 3.0, True)
>>> steps.last.flushed == BF16.min_normal, steps.reads
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

from equivalence.worlds.contract import BF16, FP64, Contract, Format, FunctionError, Rounding
from spec.scalar import cos, erf, exp, expm1, log, log1p, sin, sqrt, tanh

FUNCTIONS = tuple(f.name for f in (exp, log, sqrt, tanh, cos, sin, expm1, log1p, erf))
"""The elementary functions that a contract speaks of."""


TINIEST = math.ulp(0.0)
"""The smallest number that Python's floats hold: of fp64 they have no half of a subnormal."""


class RoundingStep(NamedTuple):
    """Rounding to one format.

    A number y becomes one between (1 - below) y and (1 + above) y, give or take 2^exponent where
    subnormal numbers are spaced. A result whose magnitude is below `flushed` may also become 0.
    """

    format: Format
    below: float
    above: float
    exponent: int
    flushed: float

    @classmethod
    @cache
    def to(cls, format: Format, rounding: Rounding, flushed: bool) -> RoundingStep:
        """Return the rounding to a format.

        Truncation errs by a whole place toward 0, and faithful rounding by a whole place either
        way; rounding to nearest errs by half a place.
        """
        unit = format.unit
        errors = {"nearest": (unit, unit), "toward_zero": (2 * unit, 0.0)}
        below, above = errors.get(rounding, (2 * unit, 2 * unit))
        exponent = format.least_exponent - (rounding == "nearest")
        return cls(format, below, above, exponent, format.min_normal if flushed else 0.0)

    @property
    def relative(self) -> float:
        """The larger of the two relative errors."""
        return max(self.below, self.above)

    @property
    def to_nearest(self) -> bool:
        """Whether it is to nearest, ties to even."""
        return self.above == self.below == self.format.unit

    def settled(self, x: float) -> tuple[int, int] | None:
        """Return the one number that x becomes, m 2^e as (m, e); None where several may come of it.

        Only rounding to nearest names one. Faithful rounding returns either neighbour; who
        truncates in a kernel may round to nearest on the host; and a flush returns any number as
        small. Beyond the largest number of the format the places go on, so that what became too
        large shows.
        """
        if not self.to_nearest or 0.0 < abs(x) < self.flushed:
            return None
        last = max(math.frexp(x)[1] - self.format.precision, self.format.least_exponent)
        return round(math.ldexp(x, -last)), last

    def widened(self) -> RoundingStep:
        """Return a rounding as precise, in a format that overflows as late as any.

        What underflows stays as it was.
        """
        return self._replace(format=replace(self.format, max_exponent=FP64.max_exponent))


class Division(NamedTuple):
    """How a quotient is formed: x times the rounded reciprocal of y, or directly.

    A direct quotient may be off by `relative` of itself before it is rounded.
    """

    reciprocal: bool
    relative: float

    @property
    def correct(self) -> bool:
        """Whether the quotient is the exact one, rounded once."""
        return not self.reciprocal and not self.relative


class FunctionStep(NamedTuple):
    """How far a computed y = f(x) may be from f(x): (relative + slope |x|) |y| + absolute.

    exact says that a representable f(x) is returned as it is. units says how many units roundoff
    another function may err by in its place.
    """

    relative: float
    slope: float
    absolute: float
    exact: bool
    units: float

    @classmethod
    @cache
    def of(cls, error: FunctionError, first: RoundingStep) -> FunctionStep:
        """Return the step of a declared error, in place of the first rounding of a plain step.

        Below the smallest normal number the places do not shrink further: who errs by n units
        roundoff of a result errs by n halves of the smallest subnormal there, and the rounding that
        is replaced accounts for one of them.
        """
        unit, further = first.relative, max(0.0, error.units - 1.0)
        underflow = max(math.ldexp(further, first.exponent), TINIEST) if further else 0.0
        return cls(
            error.relative * unit,
            error.slope * unit,
            error.absolute + underflow,
            error.exact_values,
            error.units,
        )

    @property
    def roundings(self) -> int:
        """How many roundings the function counts as: as many as its error has units."""
        return max(1, math.ceil(self.units))


@dataclass(frozen=True)
class Steps:
    """What each kind of step of a contract's arithmetic may lose.

    plain       the roundings of the result of a plain step, one after the other
    division    how a quotient is formed, before it is rounded like a plain step
    functions   the errors of the elementary functions, by name
    sums        the rounding of each partial sum
    finishes    whether a sum ends with a plain step
    factors     the rounding of the factors of a dot product; None: they are read as they are
    last        the rounding to storage
    to_bf16     the rounding to bf16 where a page asks for it on the way
    reads       whether a subnormal operand may be read as any number as small
    stable      whether programs count that are as stable as the page, in another order of steps
    """

    plain: tuple[RoundingStep, ...]
    division: Division
    functions: Mapping[str, FunctionStep]
    sums: RoundingStep
    finishes: bool
    factors: RoundingStep | None
    last: RoundingStep
    to_bf16: RoundingStep
    reads: bool
    stable: bool

    @classmethod
    def of(cls, contract: Contract) -> Steps:
        """Form the record of a contract."""
        flushed = contract.flush != "none"
        unit = contract.compute.unit
        wide, narrow = contract.accumulate or contract.compute, contract.dot_inputs
        first = RoundingStep.to(contract.compute, "nearest", flushed)
        lost = flushed and contract.stores_flushed
        last = RoundingStep.to(contract.store, contract.store_rounding, lost)
        rounding, flush = contract.casts.get(BF16.name, ("nearest", contract.flush))
        passes = contract.steps == "storage" and contract.store != contract.compute
        return cls(
            plain=(first, last) if passes else (first,),
            division=Division(
                reciprocal=contract.division == "reciprocal",
                relative=3 * unit if contract.division == "full" else 0.0,
            ),
            functions={f: FunctionStep.of(contract.function(f), first) for f in FUNCTIONS},
            sums=RoundingStep.to(wide, contract.accumulate_rounding, flushed),
            finishes=passes or wide.precision > contract.compute.precision,
            factors=(
                None if narrow is None else RoundingStep.to(narrow, contract.dot_rounding, flushed)
            ),
            last=last,
            to_bf16=RoundingStep.to(BF16, rounding, flush != "none"),
            reads=contract.flush == "inputs_outputs",
            stable=contract.freedom == "stable",
        )

    def widened(self) -> Steps:
        """Return the steps as they are, except that they overflow as late as any format does."""
        return replace(
            self,
            plain=tuple(step.widened() for step in self.plain),
            sums=self.sums.widened(),
            last=self.last.widened(),
            to_bf16=self.to_bf16.widened(),
        )

    @cached_property
    def unit(self) -> float:
        """The unit roundoff of computation."""
        return self.plain[0].relative

    @cached_property
    def largest(self) -> float:
        """The largest number that a plain step may return."""
        return min(step.format.max_finite for step in self.plain)

    @cached_property
    def smallest(self) -> float:
        """The smallest number that is normal in every format of a plain step."""
        return max(step.format.min_normal for step in self.plain)

    @cached_property
    def turning(self) -> float:
        """The largest exact result that a plain step may leave finite.

        One rounding to nearest brings down what lies less than half a place above the largest.
        """
        format = self.plain[0].format
        if len(self.plain) > 1 or self.largest >= FP64.max_finite:
            return self.largest
        return math.nextafter(self.largest + format.unit * 2.0**format.max_exponent, 0.0)

    @cached_property
    def largest_sum(self) -> float:
        """The largest number that a partial sum may be, if it is to end as a plain step."""
        return min(self.largest, self.sums.format.max_finite)

    @cached_property
    def product(self) -> float:
        """The relative error of a product that is rounded before it is added to others."""
        return max(self.unit, self.sums.relative)

    @cached_property
    def enlarging(self) -> float:
        """By how much of itself a rounding on the way to a sum may enlarge a number, at most."""
        formats = [self.plain[0].format, self.sums.format]
        if self.factors is not None:
            formats.append(self.factors.format)
        return 2 * max(format.unit for format in formats)

    @cached_property
    def narrowed(self) -> bool:
        """Whether results are stored in another format than that of computation."""
        return self.last.format != self.plain[0].format

    @cached_property
    def stores(self) -> bool:
        """Whether the last step rounds: results are not in the format of storage before it."""
        return self.narrowed and len(self.plain) == 1

    @cached_property
    def narrows(self) -> bool:
        """Whether rounding to bf16 on the way rounds: the steps before it are finer."""
        return self.plain[-1].format.precision > self.to_bf16.format.precision
