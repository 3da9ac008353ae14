"""Chapter 1. Numbers: what a page may do with a scalar.

A page never says which numbers it runs on.
It adds, subtracts and multiplies with the scalars' own operators, and does everything else through
the open functions of this chapter, so that one text runs on floats, exact fractions, dual numbers,
rounded formats, certified balls and symbols.
A *world* is a type that has registered its rules; worlds that need a library register from outside.

Three rules make this work:

* a scalar is never tested with Python's ``if``: `less`, `equal` and `is_zero` return the world's
  own truth value, and only `select` reads it;
* a reduction is `sum_over`, `dot_over`, `max_over` or `product_over`, never a loop of ``+``: the
  extent may be a symbol, and a world may charge for a sum as a whole;
* integers and fractions are exact constants and belong to every world.

>>> sum_over(4, lambda k: Fraction(k, 2))
Fraction(3, 1)
>>> double = Unary("double")
>>> rule = double.register(float)(lambda x: 2 * x)
>>> double(1.5)
3.0
"""

# This file is longer than the guide because what a page may do with a scalar stands in one place.

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from operator import mul
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

A = TypeVar("A")
Rule = TypeVar("Rule", bound=Callable[..., Any])

Extent: TypeAlias = Any
"""How many: an int, or a symbol of a world that proves for all sizes."""

CONSTANTS = frozenset({int, bool, Fraction})
"""Types whose values are exact constants of every world."""


class _Rules(dict[type, Callable[..., Any]]):
    """The rules of one open function; a type without its own has that of its nearest base class."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __missing__(self, kind: type) -> Callable[..., Any]:
        for base in kind.__mro__:
            if base in self:
                return self[base]
        known = ", ".join(sorted(k.__name__ for k in self)) or "no type"
        raise TypeError(
            f"{self.name} has no rule for scalars of type {kind.__name__}; it knows {known}. "
            f"Register one with spec.scalar.{self.name}.register({kind.__name__})."
        )


class OpenFunction:
    """A function that each world of scalars extends by registering its own rule."""

    __slots__ = ("name", "rules")

    def __init__(self, name: str) -> None:
        """Name the function; it starts without rules."""
        self.name = name
        self.rules = _Rules(name)

    def register(self, *kinds: type) -> Callable[[Rule], Rule]:
        """Return a decorator that makes a function the rule for scalars of these types."""

        def add(rule: Rule) -> Rule:
            for kind in kinds:
                self.rules[kind] = rule
            return rule

        return add

    def rule_for(self, kind: type) -> Callable[..., Any]:
        """Find the rule for a type or its nearest base class; TypeError if there is none."""
        return self.rules[kind]

    def replaced(self, kind: type, rule: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Set or remove (None) the rule of one type and return the rule it had before."""
        before = self.rules.pop(kind, None)
        if rule is not None:
            self.rules[kind] = rule
        return before


class Unary(OpenFunction):
    """An open function of one scalar."""

    def __call__(self, x: A, /) -> A:
        """Apply the rule of x's world."""
        result: A = self.rules[type(x)](x)
        return result


class Binary(OpenFunction):
    """An open function of two scalars; an exact constant takes the world of the other operand."""

    def __call__(self, x: A, y: A, /) -> A:
        """Apply the rule of the pair's world."""
        result: A = self.rules[_world(x, y)](x, y)
        return result


class Question(OpenFunction):
    """An open question about one or two scalars, answered in the world's own truth values."""

    def __call__(self, x: object, y: object = 0, /) -> Any:
        """Apply the rule of the pair's world; the second operand defaults to the constant 0."""
        return self.rules[_world(x, y)](x, y)


class Choice(OpenFunction):
    """The only reader of truth values."""

    def __call__(self, truth: object, x: A, y: A, /) -> A:
        """Return x where truth holds and y where it does not; dispatches on the truth."""
        result: A = self.rules[type(truth)](truth, x, y)
        return result


def _world(x: object, y: object) -> type:
    return type(y) if type(x) in CONSTANTS else type(x)


class Fold(OpenFunction):
    """An open reduction of finitely many terms, dispatched on the first that is no constant."""

    def __call__(self, terms: Sequence[A], *more: Sequence[A]) -> A:
        """Apply the rule of the terms' world; of nothing, the result is the constant 0."""
        if not terms:
            return cast("A", 0)
        kind: type = type(terms[0])
        if kind in CONSTANTS:
            every = (type(term) for row in (terms, *more) for term in row)
            kind = next((k for k in every if k not in CONSTANTS), kind)
        return cast("A", self.rule_for(kind)(terms, *more))


class OverExtent(OpenFunction):
    """An open reduction over an extent that is no int, dispatched on the extent's type."""

    def __call__(self, extent: object, *functions: Callable[..., A]) -> A:
        """Apply the rule of the extent's type."""
        return cast("A", self.rule_for(type(extent))(extent, *functions))


class Lift(OpenFunction):
    """How an exact constant enters a world."""

    def __call__(self, like: A, constant: Fraction, /) -> A:
        """Return the constant as a scalar of like's world."""
        return cast("A", self.rule_for(type(like))(like, constant))


exp, log, sqrt, tanh = Unary("exp"), Unary("log"), Unary("sqrt"), Unary("tanh")
expm1, log1p, erf = Unary("expm1"), Unary("log1p"), Unary("erf")
cos, sin, pi_like, stop = Unary("cos"), Unary("sin"), Unary("pi_like"), Unary("stop")
in_bf16 = Unary("in_bf16")
square, absolute, zero_like = Unary("square"), Unary("absolute"), Unary("zero_like")
divide, maximum, kronecker = Binary("divide"), Binary("maximum"), Binary("kronecker")
less, equal = Question("less"), Question("equal")
is_zero, is_nan = Question("is_zero"), Question("is_nan")
select, lift = Choice("select"), Lift("lift")
sum_terms, dot_terms, max_terms = Fold("sum_terms"), Fold("dot_terms"), Fold("max_terms")
sum_extent, dot_extent = OverExtent("sum_extent"), OverExtent("dot_extent")
max_extent, remembered = OverExtent("max_extent"), OverExtent("remembered")
products, product_extent = Fold("products"), OverExtent("product_extent")
recurrences = Fold("recurrences")


def sum_over(extent: Extent, term: Callable[..., A]) -> A:
    """Add term(k) for k < extent; a tuple of extents adds term(i, j, ...) as one sum."""
    terms = _collect(extent, term)
    return sum_extent(extent, term) if terms is None else sum_terms(terms)


def dot_over(extent: Extent, left: Callable[..., A], right: Callable[..., A]) -> A:
    """Add left(k) * right(k) for k < extent."""
    terms = _collect(extent, left)
    if terms is None:
        return dot_extent(extent, left, right)
    return dot_terms(terms, [right(k) for k in range(extent)])


def max_over(extent: Extent, term: Callable[..., A]) -> A:
    """Return the largest term; the extent must not be empty. NaN propagates."""
    terms = _collect(extent, term)
    return max_extent(extent, term) if terms is None else max_terms(terms)


def product_over(extent: Extent, term: Callable[..., A]) -> A:
    """Multiply term(k) for k < extent; a world may multiply in any order. Of nothing, it is 1."""
    terms = _collect(extent, term)
    if terms is None:
        return product_extent(extent, term)
    return cast("A", products_of_first(terms)[-1])


def products_of_first(terms: Sequence[Any]) -> list[Any]:
    """Return the products of the first terms, from none, which is 1, to all."""
    return [1, *cast("list[Any]", products(terms) if terms else [])]


def recurrence(terms: Sequence[Any], factors: Sequence[Any]) -> list[Any]:
    """Return r, where r[0] = terms[0], and r[k + 1] = r[k] * factors[k] + terms[k + 1].

    Each is a sum of products, and a world may form these and add them up in any order.
    """
    return cast("list[Any]", recurrences(terms, factors) if terms else [])


def _several(extent: Extent) -> TypeGuard[tuple[Extent, ...]]:
    return isinstance(extent, tuple)


def _collect(extent: Extent, term: Callable[..., A]) -> list[A] | None:
    """List all terms in row-major order, or None where an extent is no int."""
    if isinstance(extent, int):
        return [term(k) for k in range(extent)]
    if not _several(extent):
        return None
    indices: list[tuple[int, ...]] = [()]
    for n in extent:
        if not isinstance(n, int):
            return None
        indices = [(*index, k) for index in indices for k in range(n)]
    return [term(*index) for index in indices]


@is_nan.register(object)
def _never(x: object, _: object) -> bool:
    return False


@sum_terms.register(object)
def _sum_left_to_right(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


@dot_terms.register(object)
def _dot_left_to_right(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return sum_terms([a * b for a, b in zip(left, right, strict=True)])


@max_terms.register(object)
def _max_left_to_right(terms: Sequence[Any]) -> Any:
    largest = terms[0]
    for term in terms[1:]:
        largest = maximum(largest, term)
    return largest


@products.register(object)
def _multiplied_on(terms: Sequence[Any]) -> list[Any]:
    return list(accumulate(terms, mul))


@recurrences.register(object)
def _carried_on(terms: Sequence[Any], factors: Sequence[Any]) -> list[Any]:
    found = [terms[0]]
    for term, factor in zip(terms[1:], factors, strict=True):
        found.append(found[-1] * factor + term)
    return found


@sum_extent.register(tuple)
def _sum_axis_by_axis(extents: tuple[Extent, ...], term: Callable[..., Any]) -> Any:
    return _axis_by_axis(sum_over, extents, term)


@max_extent.register(tuple)
def _max_axis_by_axis(extents: tuple[Extent, ...], term: Callable[..., Any]) -> Any:
    return _axis_by_axis(max_over, extents, term)


@product_extent.register(tuple)
def _product_axis_by_axis(extents: tuple[Extent, ...], term: Callable[..., Any]) -> Any:
    return _axis_by_axis(product_over, extents, term)


def _axis_by_axis(
    fold: Callable[..., Any], extents: tuple[Extent, ...], term: Callable[..., Any]
) -> Any:
    if not extents:
        return term()
    first, *rest = extents
    if not rest:
        return fold(first, term)

    def inner(i: Extent) -> Any:
        return fold(tuple(rest), partial(term, i))

    return fold(first, inner)
