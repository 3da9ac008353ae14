"""Symbols: a page run on expressions, also at sizes that are symbols themselves.

Importing this module registers sympy's expressions with the open functions of `spec.scalar`.
An extent may then be a symbol: a tensor stays a rule, a sum becomes a `Sum`, and one run of a page
speaks of all sizes at once.

* An index is typed by its extent, and so is a label; whoever collapses a sum can ask for the range.
* The variable of a closed sum is named by its height: ``_1`` if the body holds no sum, else one
  above the highest inside. So equal sums are equal expressions, and no name is captured.
* The largest of symbolically many is an opaque term ``largest(body, extent)``.
* Truth values are sympy's own. A choice that stays open is y + indicator(truth) * (x - y), which a
  sum can take apart; sympy's `Piecewise` is not used, for it moves conditions out of sums.
  Only the literal 0 is zero.

>>> n = extent("n")
>>> scalar.sum_over(n, lambda k: scalar.exp(entries("x", (n,))[k]))
Sum(exp(x[_1]), (_1, 0, n - 1))
>>> scalar.select(scalar.less(0, sympy.Symbol("a", positive=True)), "positive", "not")
'positive'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import sympy
from sympy.core.function import AppliedUndef
from sympy.logic.boolalg import Boolean

from spec import rng, scalar
from spec.op import AnyTensor
from spec.shape import Shape
from spec.tensor import tabulate

Expr: TypeAlias = Any
"""An expression of sympy, which has no type stubs."""


def extent(name: str) -> Expr:
    """Return a size: any integer from 1 on."""
    return sympy.Symbol(name, integer=True, positive=True)


def index(name: str, size: Expr) -> Expr:
    """Return any index k with 0 <= k < size."""
    return sympy.Idx(sympy.Symbol(name, integer=True), size)


def entries(name: str, shape: Shape, **assumptions: bool) -> AnyTensor:
    """Return a tensor of unknown real entries; the scalar tensor holds one unknown."""
    unknown = sympy.Symbol(name, real=True, **assumptions)
    base = sympy.IndexedBase(unknown) if shape else None
    return tabulate(shape, lambda *i: unknown if base is None else base[i])


def labels(name: str, shape: Shape, classes: Expr) -> AnyTensor:
    """Return a tensor of unknown indices k with 0 <= k < classes."""
    label = sympy.Function(name, integer=True, nonnegative=True)
    return tabulate(shape, lambda *i: label(*i, classes))


def extent_of(position: Expr) -> Expr | None:
    """Return the extent below which an index or a label is known to lie, or None."""
    if isinstance(position, sympy.Idx) and position.upper is not None:
        return position.upper + 1
    return position.args[-1] if isinstance(position, AppliedUndef) and position.is_integer else None


def height(body: Expr) -> int:
    """Return the height of the highest sum inside a body that is closed but for its indices."""
    names = (symbol.name for symbol in body.atoms(sympy.Symbol))
    return max((int(n[1:]) for n in names if n[0] == "_" and n[1:].isdigit()), default=0)


def variable(level: int) -> Expr:
    """Return the variable that a closed sum of this height binds."""
    return sympy.Symbol(f"_{level}", integer=True, nonnegative=True)


def fresh(size: Expr) -> Expr:
    """Return an index below size that occurs nowhere else."""
    return sympy.Idx(sympy.Dummy("k", integer=True), size)


def _closed(size: Expr, term: Callable[..., Any]) -> tuple[Expr, Expr]:
    """Return the variable of a new binder, and its body."""
    open_index = fresh(size)
    body = sympy.sympify(term(open_index))
    bound = variable(height(body) + 1)
    return bound, body.xreplace({open_index: bound})


@scalar.sum_extent.register(sympy.Expr)
def _sum_extent(size: Expr, term: Callable[..., Any]) -> Expr:
    bound, body = _closed(size, term)
    return sympy.Sum(body, (bound, 0, size - 1))


@scalar.dot_extent.register(sympy.Expr)
def _dot_extent(size: Expr, left: Callable[..., Any], right: Callable[..., Any]) -> Expr:
    return _sum_extent(size, lambda k: left(k) * right(k))


@scalar.max_extent.register(sympy.Expr)
def _max_extent(size: Expr, term: Callable[..., Any]) -> Expr:
    bound, body = _closed(size, term)
    return LARGEST(sympy.Lambda(bound, body), size)


@scalar.product_extent.register(sympy.Expr)
def _product_extent(size: Expr, term: Callable[..., Any]) -> Expr:
    bound, body = _closed(size, term)
    return PRODUCT(sympy.Lambda(bound, body), size)


PRODUCT: Expr = sympy.Function("product", real=True)
"""The product of a function on all indices below an extent."""

LARGEST: Expr = sympy.Function("largest", real=True)
"""The largest value of a function on all indices below an extent."""

INDICATOR: Expr = sympy.Function("indicator", real=True)
"""1 where a condition holds, 0 where it does not."""


@scalar.sum_terms.register(sympy.Expr)
def _sum_terms(terms: Sequence[Any]) -> Expr:
    return sympy.Add(*terms)


@scalar.max_terms.register(sympy.Expr)
def _max_terms(terms: Sequence[Any]) -> Expr:
    # Simplifying the largest of unknowns is slow, and nothing here needs it.
    return sympy.Max(*terms, evaluate=all(sympy.sympify(term).is_number for term in terms))


scalar.exp.register(sympy.Expr)(sympy.exp)
scalar.log.register(sympy.Expr)(sympy.log)
scalar.expm1.register(sympy.Expr)(lambda x: sympy.exp(x) - 1)
scalar.log1p.register(sympy.Expr)(lambda x: sympy.log(1 + x))
scalar.erf.register(sympy.Expr)(sympy.erf)
scalar.sqrt.register(sympy.Expr)(sympy.sqrt)
scalar.tanh.register(sympy.Expr)(sympy.tanh)
scalar.cos.register(sympy.Expr)(sympy.cos)
scalar.sin.register(sympy.Expr)(sympy.sin)
scalar.absolute.register(sympy.Expr)(sympy.Abs)
scalar.maximum.register(sympy.Expr)(sympy.Max)
scalar.kronecker.register(sympy.Expr)(sympy.KroneckerDelta)
scalar.less.register(sympy.Expr)(sympy.Lt)
scalar.equal.register(sympy.Expr)(sympy.Eq)


@scalar.pi_like.register(sympy.Expr)
def _pi_like(x: Expr) -> Expr:
    return sympy.pi


@rng.random_word.register(sympy.Expr)
def _random_word(seed: int, call: int, element: Expr) -> Expr:
    return WORD(seed, call, element)


WORD: Expr = sympy.Function("word", integer=True, nonnegative=True)
"""The random word of an element, of which nothing is known but that it is one number."""


@scalar.square.register(sympy.Expr)
def _square(x: Expr) -> Expr:
    return x**2


@scalar.divide.register(sympy.Expr)
def _divide(x: Expr, y: Expr) -> Expr:
    return sympy.sympify(x) / sympy.sympify(y)


@scalar.zero_like.register(sympy.Expr)
def _zero_like(x: Expr) -> Expr:
    return sympy.Integer(0)


@scalar.lift.register(sympy.Expr)
def _lift(like: Expr, constant: Fraction) -> Expr:
    return sympy.sympify(constant)


@scalar.is_zero.register(sympy.Expr)
def _is_zero(x: Expr, _: object) -> bool:
    return bool(x.is_Number and x == 0)


@scalar.select.register(Boolean)
def _select(truth: Expr, x: Any, y: Any) -> Any:
    if truth in (sympy.true, sympy.false):
        return x if truth == sympy.true else y
    return y + INDICATOR(truth) * (x - y)
