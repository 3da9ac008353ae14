"""Pieces of a page: the intervals on which what it asks of an entry has one answer.

A page that compares an entry with numbers is another formula in every interval between them. On
such a piece each comparison is a constant, and the page can be differentiated.

>>> from equivalence.worlds.symbols import entries, extent, index
>>> from spec.ops import OPS
>>> n = extent("n")
>>> p, x = index("p", n), entries("x", (n,), positive=True)
>>> z = OPS["hardtanh"].value(x)
>>> [(number, within(number, z)[p]) for number in numbers_of_pieces(x[p], z[p])]
[(1/2, x[p]), (2, 1)]
"""

from __future__ import annotations

from typing import Any

import sympy

from equivalence.worlds.symbols import INDICATOR
from spec.op import AnyTensor

Expr = Any


def numbers_of_pieces(entry: Expr, *found: Expr) -> list[Expr]:
    """Return a number of every piece of expressions in an entry, whose sign is known.

    A piece lies between two of the numbers with which the entry is compared, or beyond them all.
    """
    sign = 1 if entry.is_positive else -1
    asked = {number for e in found for f in _questions(e) for number in _numbers(f)}
    borders = sorted({abs(number) for number in asked if sign * number > 0})
    lows = [sympy.Integer(0), *borders]
    between = [(low + high) / 2 for low, high in zip(lows, borders, strict=False)]
    return [sign * number for number in (*between, lows[-1] + 1)]


def within(number: Expr, x: AnyTensor) -> AnyTensor:
    """Answer every question that a tensor's entries ask as it is answered for a number."""

    def decided(e: Expr) -> Expr:
        e = sympy.sympify(e)
        return e.xreplace({f: _answer(f, number) for f in _questions(e)})

    return x.map(decided)


def _questions(e: Expr) -> set[Expr]:
    return {f for f in sympy.sympify(e).atoms(sympy.Function) if f.func == INDICATOR}


def _numbers(question: Expr) -> list[Expr]:
    return [a for a in question.args[0].args if a.is_number]


def _answer(question: Expr, number: Expr) -> Expr:
    """Return 1 where a comparison of an entry with a number holds of another number, else 0."""
    relation = question.args[0]
    return sympy.Integer(
        bool(relation.func(*(a if a.is_number else number for a in relation.args)))
    )
