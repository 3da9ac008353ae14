"""Extents that are known, and still no ints: a tensor of such a shape stays a rule.

A page treats such an extent as it treats a symbol: nothing is written down, and an entry is
computed when somebody asks for it, once for each index.
`Listed` extents take indices that are ints, for the worlds whose scalars are single numbers; sums
list their terms. So one entry of a large result costs what that entry costs.

>>> from spec.tensor import tabulate
>>> squares = tabulate((Listed(10**9),), lambda i: i * i)
>>> squares[31_622], scalar.sum_over(Listed(4), lambda k: squares[k])
(999950884, 14)
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from spec import axes, rng, scalar
from spec.op import Op
from spec.shape import Shape, indices


class Extent:
    """A number of indices, which reckons like the int that it is."""

    __slots__ = ("number",)

    __array_ufunc__ = None
    """numpy leaves operations with an extent to the extent."""

    def __init__(self, number: int) -> None:
        """Hold the number."""
        self.number = number

    def __index__(self) -> int:
        """Return the number."""
        return self.number

    def __repr__(self) -> str:
        """Show the number, as an error does."""
        return str(self.number)

    def __divmod__(self, other: int) -> tuple[int, int]:
        """Return quotient and remainder, as ints: parts of an index."""
        return divmod(self.number, other)

    def __hash__(self) -> int:
        """Hash as the int that it equals."""
        return hash(self.number)


def _reckons(name: str, operation: Callable[[Any, Any], Any], flipped: bool) -> None:
    def rule(self: Extent, other: Any) -> Any:
        pair = (self.number, other.number if isinstance(other, Extent) else other)
        found = operation(*(reversed(pair) if flipped else pair))
        return type(self)(found) if type(found) is int else found

    setattr(Extent, name, rule)


for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv"):
    _exactly = (lambda x, y: Fraction(x) / y) if _name == "truediv" else getattr(operator, _name)
    _reckons(f"__{_name}__", _exactly, False)
    _reckons(f"__r{_name}__", _exactly, True)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _reckons(f"__{_name}__", getattr(operator, _name), False)


class Listed(Extent):
    """An extent whose indices are ints."""


@scalar.remembered.register(Extent)
def kept_by_index(extent: Extent, entry: Callable[..., Any]) -> Callable[..., Any]:
    """Keep each entry by its index; of an array, the very object is asked for again."""
    found: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def look(*index: Any) -> Any:
        key = tuple(id(i) if isinstance(i, np.ndarray) else operator.index(i) for i in index)
        if key not in found:
            # The index is kept with its entry, so that no other array takes its place.
            found[key] = index, entry(*index)
        return found[key][1]

    return look


def _listed(fold: Callable[..., Any]) -> Callable[..., Any]:
    def rule(extent: Listed, *functions: Callable[..., Any]) -> Any:
        return fold(*([function(k) for k in range(extent.number)] for function in functions))

    return rule


scalar.sum_extent.register(Listed)(_listed(scalar.sum_terms))
scalar.dot_extent.register(Listed)(_listed(scalar.dot_terms))
scalar.max_extent.register(Listed)(_listed(scalar.max_terms))


def _product_of(terms: Sequence[Any]) -> Any:
    return scalar.products_of_first(terms)[-1]


scalar.product_extent.register(Listed)(_listed(_product_of))


_OF_SYMBOLS = axes.sent_to.rules[object]


@axes.sent_to.register(int, Extent)
def _sent(
    place: Any,
    extents: Shape,
    position: Callable[..., Any],
    term: Callable[..., Any],
    onto: Any,
) -> Any:
    if all(isinstance(n, (int, Extent)) for n in extents):
        every = indices(tuple(map(operator.index, extents)))
        sent = [(position(*j), j) for j in every]
        if all(isinstance(p, (int, Extent)) for p, _ in sent):
            terms = [term(*j) for p, j in sent if p == place]
            return scalar.sum_terms(terms if onto is None else [onto, *terms])
    return _OF_SYMBOLS(place, extents, position, term, onto)


@rng.random_word.register(Extent)
def _random_word(seed: int, call: int, element: Extent) -> Any:
    return rng.random_word(seed, call, element.number)


def as_one(
    fold: scalar.OverExtent, kind: type[Extent], rule: Callable[[Shape, Callable[..., Any]], Any]
) -> None:
    """Let a reduction over several extents of a kind be one, as it is over ints.

    The reductions of a book take symbols one after the other, which is less than any order.
    """
    others = fold.rules[tuple]

    def whole(extents: Shape, term: Callable[..., Any]) -> Any:
        mine = any(isinstance(n, kind) for n in extents)
        return rule(extents, term) if mine else others(extents, term)

    fold.register(tuple)(whole)


def _all_terms(fold: Callable[..., Any]) -> Callable[[Shape, Callable[..., Any]], Any]:
    def rule(extents: Shape, term: Callable[..., Any]) -> Any:
        return fold([term(*index) for index in indices(tuple(map(operator.index, extents)))])

    return rule


as_one(scalar.sum_extent, Listed, _all_terms(scalar.sum_terms))
as_one(scalar.max_extent, Listed, _all_terms(scalar.max_terms))
as_one(scalar.product_extent, Listed, _all_terms(_product_of))


def entered(op: Op, attributes: Mapping[str, Any], kind: type[Extent]) -> dict[str, Any]:
    """Return attributes in which what the page calls a shape or an extent is of a kind."""
    declared = inspect.signature(op.value).parameters
    found = dict(attributes)
    for name, value in attributes.items():
        annotation = declared[name].annotation
        if annotation == "Shape":
            found[name] = tuple(map(kind, value))
        elif annotation == "Extent":
            found[name] = kind(value)
    return found
