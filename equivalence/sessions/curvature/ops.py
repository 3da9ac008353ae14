"""Second derivatives of single ops: at every small call of an op's own design.

A call is one of those that `run` makes of the op's gradient: its shapes and its attributes. The
numbers are plain ones of each input's domain, ties and kinks among them, where both sides take the
same piece.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from typing import Any

from equivalence.budgets.ledger import Ledger
from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.domains import BY_DOMAIN, domain
from equivalence.cases.strata.fixed import strata
from equivalence.registry import OPS
from equivalence.runs.runner import PROFILES
from equivalence.sessions.curvature.judge import Curvature
from equivalence.sessions.numbers import normal
from equivalence.sessions.seen import Seen
from spec.op import Op
from spec.ops import OPS as BOOK

ENTRIES = 40
"""How many entries the inputs of a call, or its result, have at most: dual numbers take long."""

PLAIN = 3
"""How many regimes of a domain are drawn: integers, with their ties and kinks, and two others."""


def differentiated(page: Op) -> bool:
    """Say whether an op has inputs that move, and keeps the format in which a session computes.

    What converts rounds to another format, whose budget the coarser one does not hold. What moves
    buffers of a session asks for them, and a program that is differentiated has leaves alone.
    """
    return bool(page.moves) and not page.converts and not page.buffers


CURVES = tuple(name for name, page in BOOK.items() if differentiated(page))
"""The ops of the book whose second derivatives are judged one by one."""


@cache
def calls(name: str, strength: int) -> tuple[CaseSpec, ...]:
    """Return the small calls of an op's gradient, each shape with each attribute once."""
    found: dict[tuple[Any, ...], CaseSpec] = {}
    for case in strata(name, "vjp", "fp64", strength, ("fp64",)):
        if 0 < _entries(case) <= ENTRIES:
            found.setdefault((case.shapes, case.attrs), case)
    return tuple(found.values())


def _entries(case: CaseSpec) -> int:
    """Return how many entries the inputs have, or the result if it has more; 0 if one has none."""
    sizes = [sum(map(math.prod, case.shapes)), math.prod(case.output_shape())]
    return max(sizes) if all(map(math.prod, case.shapes)) else 0


def plain(case: CaseSpec, number: int) -> CaseSpec:
    """Give every tensor of a call plain numbers, by a number that is their seed and their turn."""
    page, attributes = OPS[case.op], case.attributes()

    def recipe(k: int, drawn: Recipe) -> Recipe:
        if k in page.index_inputs:
            return replace(drawn, seed=number, layout="contiguous")
        among = _regimes(page, 0 if page.variadic else k, attributes)
        return Recipe(among[(number + k) % len(among)], number)

    recipes = tuple(recipe(k, drawn) for k, drawn in enumerate(case.recipes))
    return replace(case, recipes=recipes, cotangent=Recipe(), calling="alone")


def _regimes(page: Op, k: int, attributes: Mapping[str, Any]) -> Sequence[str]:
    """Return the plain regimes of an input; the squares of what is large may overflow."""
    where = domain(page, k, attributes)
    return BY_DOMAIN["factors" if where == "moderate" else where][:PLAIN]


def judge_call(case: CaseSpec, precision: str) -> Ledger:
    """Judge the Hessian of the squares of an op's results, times a vector."""
    # A session counts the calls of a random op itself.
    attributes = {name: value for name, value in case.attrs if name != "counter"}

    def squares(ops: Any, *leaves: Any) -> Any:
        made = ops.apply(case.op, leaves, attributes)
        parts = made if isinstance(made, tuple) else (made,)
        return reduce(ops.add, [ops.sum(ops.mul(z, z)) for z in parts])

    inputs = [view.clone() for view in build(case).views()]
    curvature = Curvature(squares, inputs, precision)
    vectors = [normal(k, *x.shape) if x.is_floating_point() else None for k, x in enumerate(inputs)]
    curvature.judge_hvp(case.op, vectors)
    return curvature.ledger


def judge_op(name: str, precision: str, cases: int, number: int, seen: Seen) -> None:
    """Judge so many calls of an op, and as many as meet every level, or every pair of levels.

    The number is that of the first call's seed; after the last call the first has its turn again,
    with other numbers.
    """
    among = calls(name, PAIRS if cases > PROFILES["quick"] else SINGLES)
    for turn in range(max(cases, len(among))):
        case = plain(among[turn % len(among)], number + turn)
        seen.begin(f"judge_call(case_from_dict({case.to_dict()}), {precision!r})")
        seen.add(judge_call(case, precision))
