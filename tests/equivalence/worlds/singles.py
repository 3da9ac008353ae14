"""A machine that really rounds: the declared arithmetic, run with every freedom it has.

A `Single` is a number of float32 (or of whatever format its contract computes in).
Where a contract leaves a choice, the machine draws it: the order of a sum, whether a product is
rounded before it is added, the error of a function up to its declared bound, whether a result is
stored in between, whether a subnormal number is flushed.
It knows nothing of balls or budgets; roundings are those of `spec.rounded`, from exact fractions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import methodcaller
from typing import Any

import flint

from equivalence.worlds.contract import Contract, Format
from equivalence.worlds.steps import FUNCTIONS
from spec import scalar
from spec.formats import pi
from spec.rounded import Format as IeeeFormat
from spec.tensor import Tensor


def ieee(format: Format) -> IeeeFormat:
    """Return the format of `spec.rounded` that a contract names."""
    return IeeeFormat(format.name, format.precision, format.max_exponent)


class Machine:
    """A contract and the source of its freedoms."""

    def __init__(self, contract: Contract, rng: random.Random) -> None:
        """Prepare the formats."""
        self.contract = contract
        self.rng = rng
        self.compute = ieee(contract.compute)
        self.storage = ieee(contract.store)
        self.sums = ieee(contract.accumulate or contract.compute)
        self.tiny = Fraction(2) ** contract.compute.min_exponent

    def flips(self) -> bool:
        """Toss a coin."""
        return self.rng.random() < 0.5

    def round(self, exact: Fraction, format: IeeeFormat | None = None) -> Fraction:
        """Round one step to nearest, and perhaps flush or store it."""
        number = Fraction((format or self.compute).round(exact))
        if self.contract.flush != "none" and abs(number) < self.tiny and self.flips():
            return Fraction(0)
        if self.contract.steps == "storage" and self.flips():
            return self.store(number)
        return number

    def store(self, number: Fraction) -> Fraction:
        """Round to storage as the contract says; faithful rounding is either of the others."""
        kind = self.contract.store_rounding
        if kind == "nearest" or (kind == "faithful" and self.flips()):
            return Fraction(self.storage.round(number))
        return truncated(number, self.contract.store)

    def dot_input(self, number: Fraction) -> Fraction:
        """Round a factor of a dot product, if the contract does."""
        format = self.contract.dot_inputs
        if format is None:
            return number
        if self.contract.dot_rounding == "nearest":
            return Fraction(ieee(format).round(number))
        return truncated(number, format)


def truncated(number: Fraction, format: Format) -> Fraction:
    """Drop the bits that a format has no place for."""
    nearest = Fraction(ieee(format).round(number))
    if abs(nearest) <= abs(number):
        return nearest
    # Below the midpoint of the last place, rounding to nearest is truncation.
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    last = Fraction(2) ** max(exponent - format.precision + 1, format.least_exponent)
    return (1 if number > 0 else -1) * (size // last * last)


class Single:
    """A number in the machine; exact is what it was before its last rounding, if a product."""

    __slots__ = ("exact", "machine", "number")

    def __init__(self, number: Fraction, machine: Machine, exact: Fraction | None = None) -> None:
        """Hold a number of the format."""
        self.number = number
        self.machine = machine
        self.exact = number if exact is None else exact

    def __add__(self, other: Any) -> Single:
        """Add and round once; a product may arrive unrounded (contraction)."""
        return self._sum(other, 1, 1)

    def __sub__(self, other: Any) -> Single:
        """Subtract and round once."""
        return self._sum(other, 1, -1)

    def __rsub__(self, other: Any) -> Single:
        """Subtract from a constant."""
        return self._sum(other, -1, 1)

    def __mul__(self, other: Any) -> Single:
        """Multiply and round once."""
        exact = self.number * number_of(other, self.machine)
        rounded = self.machine.round(exact)
        # A rounding that flushed or stored is no contraction any more.
        plain = rounded == self.machine.compute.round(exact)
        return Single(rounded, self.machine, exact if plain else None)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Single:
        """Change the sign."""
        return Single(-self.number, self.machine, -self.exact)

    def _sum(self, other: Any, mine: int, its: int) -> Single:
        machine = self.machine
        left = self.number
        right = number_of(other, machine)
        if machine.contract.contraction and machine.flips():
            if machine.flips():
                left = self.exact
            elif isinstance(other, Single):
                right = other.exact
        return Single(machine.round(mine * left + its * right), machine)


def number_of(x: Any, machine: Machine) -> Fraction:
    """Return an operand's number; a constant is rounded into the format."""
    if isinstance(x, Single):
        return x.number
    return Fraction(machine.compute.round(Fraction(x)))


def machine_of(*operands: Any) -> Machine:
    """Return the machine of the first operand that is no constant."""
    return next(x.machine for x in operands if isinstance(x, Single))


def singles(values: Tensor[Any, Any], machine: Machine) -> Tensor[Any, Any]:
    """Put a tensor of floats into the machine; ints are indices and stay."""
    return values.map(lambda x: x if isinstance(x, int) else Single(Fraction(x), machine))


def _function(name: str, evaluate: Callable[[Any], Any]) -> Callable[[Single], Single]:
    def rule(x: Single) -> Single:
        machine = x.machine
        contract = machine.contract
        error = contract.function(name)
        true = evaluate(flint.arb(flint.fmpq(x.number.numerator, x.number.denominator))).mid()
        mantissa, exponent = true.man_exp()
        exact = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        if error.exact_values and true == evaluate(flint.arb(float(x.number))):
            return Single(machine.round(exact), machine)
        room = Fraction(error.relative) - 1 + Fraction(error.slope) * abs(x.number)
        drawn = Fraction(machine.rng.uniform(-0.999, 0.999)) * room
        wrong = exact * (1 + drawn * Fraction(contract.compute.unit))
        wrong += Fraction(error.absolute) * Fraction(machine.rng.uniform(-1, 1))
        return Single(machine.round(wrong), machine)

    return rule


for _name in FUNCTIONS:
    getattr(scalar, _name).register(Single)(_function(_name, methodcaller(_name)))
scalar.pi_like.register(Single)(lambda x: Single(x.machine.round(pi(200)), x.machine))
scalar.square.register(Single)(lambda x: x * x)
scalar.absolute.register(Single)(lambda x: Single(abs(x.number), x.machine))
scalar.zero_like.register(Single)(lambda x: Single(Fraction(0), x.machine))
scalar.lift.register(Single)(lambda like, c: Single(number_of(c, like.machine), like.machine))
scalar.is_zero.register(Single)(lambda x, _: x.number == 0)


@scalar.divide.register(Single)
def _divide(x: Any, y: Any) -> Single:
    machine = machine_of(x, y)
    above, below = number_of(x, machine), number_of(y, machine)
    if machine.contract.division == "reciprocal" and machine.flips():
        return Single(machine.round(above * machine.round(1 / below)), machine)
    return Single(machine.round(above / below), machine)


@scalar.maximum.register(Single)
def _maximum(x: Any, y: Any) -> Single:
    machine = machine_of(x, y)
    return Single(max(number_of(x, machine), number_of(y, machine)), machine)


@scalar.less.register(Single)
def _less(x: Any, y: Any) -> bool:
    machine = machine_of(x, y)
    return number_of(x, machine) < number_of(y, machine)


@scalar.equal.register(Single)
def _equal(x: Any, y: Any) -> bool:
    machine = machine_of(x, y)
    return number_of(x, machine) == number_of(y, machine)


@scalar.sum_terms.register(Single)
def _sum_terms(terms: Sequence[Any]) -> Single:
    machine = machine_of(*terms)
    return _along_some_tree([number_of(x, machine) for x in terms], machine)


@scalar.dot_terms.register(Single)
def _dot_terms(left: Sequence[Any], right: Sequence[Any]) -> Single:
    machine = machine_of(*left, *right)
    products = []
    for x, y in zip(left, right, strict=True):
        a, b = (machine.dot_input(number_of(z, machine)) for z in (x, y))
        fused = machine.contract.contraction and machine.flips()
        products.append(a * b if fused else Fraction(machine.sums.round(a * b)))
    return _along_some_tree(products, machine)


def _along_some_tree(terms: list[Fraction], machine: Machine) -> Single:
    """Add two terms at a time, in an order drawn anew, until one is left; zeros start sums."""
    terms = [*terms, Fraction(0)]
    while len(terms) > 1:
        pair = [terms.pop(machine.rng.randrange(len(terms))) for _ in range(2)]
        terms.append(Fraction(machine.sums.round(sum(pair, Fraction(0)))))
    return Single(machine.round(terms[0]), machine)
