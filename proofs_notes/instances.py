"""Instances: an expression of symbolic size, written out at one size, in exact numbers.

Nothing here knows the calculus. So it can refute: an identity that fails at one instance is false,
and a normal form that differs from its expression at one instance is wrong.

>>> from equivalence.worlds.symbols import entries, extent
>>> from spec.scalar import sum_over
>>> n, x = extent("n"), entries("x", (extent("n"),))
>>> instance(sum_over(n, lambda k: x[k] ** 2 / n), {"n": 3, "x": [1, 2, 4]})
7
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypeAlias

import sympy
from sympy.core.function import AppliedUndef

from equivalence.worlds.symbols import INDICATOR, LARGEST

Expr: TypeAlias = Any


def instance(e: Expr, given: Mapping[str, Any]) -> Expr:
    """Return what an expression is, given its extents, indices, unknowns (numbers) and tensors.

    Tensors and tensors of labels are nested lists.
    """

    e = sympy.sympify(e)

    def of(part: Expr) -> Expr:
        return instance(part, given)

    if isinstance(e, sympy.Sum):
        ranges = [range(of(first), of(last) + 1) for _, first, last in e.limits]
        names = [name for name, _, _ in e.limits]
        places = (map(sympy.Integer, place) for place in itertools.product(*ranges))
        terms = (e.function.xreplace(dict(zip(names, k, strict=True))) for k in places)
        return sympy.Add(*map(of, terms))
    if isinstance(e, sympy.Indexed):
        return _entry(given[e.base.label.name], map(of, e.indices))
    if isinstance(e, sympy.Max):
        return max(map(of, e.args))
    if isinstance(e, AppliedUndef):
        return _applied(e, given)
    if isinstance(e, sympy.Idx):
        return sympy.sympify(given[e.label.name])
    if isinstance(e, sympy.Symbol):
        return sympy.sympify(given[e.name])
    return e.func(*map(of, e.args)) if e.args else e


def _applied(e: Expr, given: Mapping[str, Any]) -> Expr:
    if e.func == INDICATOR:
        (condition,) = e.args
        return sympy.Integer(bool(condition.func(*(instance(a, given) for a in condition.args))))
    if e.func == LARGEST:
        candidate, size = e.args
        places = map(sympy.Integer, range(instance(size, given)))
        return max(instance(candidate(k), given) for k in places)
    *places, _ = e.args
    return _entry(given[e.func.__name__], (instance(k, given) for k in places))


def _entry(nested: Any, place: Any) -> Expr:
    for k in place:
        nested = nested[int(k)]
    return sympy.sympify(nested)
