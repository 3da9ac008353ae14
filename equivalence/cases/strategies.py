"""Hypothesis strategies that draw cases from the pages' type rules.

What is drawn is always a compact `CaseSpec`, never a tensor: it shrinks on structure, prints in one
line, and the same strategies serve anyone who tests a kernel.  The family of an op draws shapes
and attributes; the page has the last word on every draw.  A draw that it refuses is discarded and
counted.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from equivalence.cases.built import allows
from equivalence.cases.call import CALLING_PATTERNS, CaseSpec, Recipe, attribute_pairs
from equivalence.cases.declared.calls import complete
from equivalence.cases.declared.inside import Form, Inside
from equivalence.cases.domains import COTANGENTS, regimes
from equivalence.cases.families.signatures import Shape, refusal, results
from equivalence.cases.families.table import family_of
from equivalence.cases.guard import LAYOUTS
from equivalence.draws import reproducible
from equivalence.registry import OPS


@cache
def recipes(among: tuple[str, ...]) -> st.SearchStrategy[Recipe]:
    """Draw a recipe for one tensor from the regimes that suit it."""
    return st.builds(
        Recipe, st.sampled_from(among), st.integers(0, 2**16 - 1), st.sampled_from(LAYOUTS)
    )


_CALLING = st.sampled_from(("alone", *CALLING_PATTERNS))


@st.composite
def case_specs(
    draw: Any,
    op: str,
    direction: str,
    dtype: str,
    refused: Counter[str] | None = None,
    inside: Inside | None = None,
) -> CaseSpec:
    """Draw a case of one operation that its page accepts; what it says of others is counted.

    Of a backend that takes a part of the op, the case is inside.
    """
    page = OPS[op] if inside is None else inside.narrowed(OPS[op])
    shapes, attrs = signature = family_of(OPS[op]).draw(draw, page, direction)
    if (said := refusal(page, signature)) is not None:
        if refused is not None:
            refused[said] += 1
        reject()
    if inside is not None and not inside.structure(_form(inside, op, shapes, attrs)):
        reject()
    suited = regimes(page, len(shapes), attrs)
    case = CaseSpec(
        op=op,
        direction=direction,
        dtype=dtype,
        shapes=shapes,
        recipes=tuple(draw(recipes(among)) for among in suited),
        attrs=attribute_pairs(attrs),
        cotangent=draw(recipes(COTANGENTS)) if direction == "vjp" else None,
        tangent=draw(recipes(COTANGENTS)) if direction == "jvp" else None,
    )
    if inside is not None:
        laid = inside.laid(case)
        case = reject() if laid is None else laid
    calling = draw(_CALLING)
    return replace(case, calling=calling) if allows(case, calling) else case


def _form(inside: Inside, op: str, shapes: tuple[Shape, ...], attrs: dict[str, Any]) -> Form:
    """Return the form of a call that the page accepts."""
    made = results(OPS[op], (shapes, attrs))
    assert made is not None, "the page has accepted it"
    return Form(op, inside.direction, inside.dtype, shapes, complete(op, attrs), made)


def quiet(examples: int, *phases: Phase) -> settings:
    """Return settings under which nothing is stored, timed or printed."""
    return settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


def draw_many(strategy: st.SearchStrategy[Any], number: int, seed_: int) -> list[Any]:
    """Draw a list of distinct examples; the same seed always draws the same list.

    It is shorter, or empty, where nearly all draws are discarded.
    """
    drawn: dict[Any, None] = {}

    @seed(seed_)
    @quiet(number, Phase.generate)
    @given(strategy)
    def collect(example: Any) -> None:
        drawn.setdefault(example)

    with suppress(Unsatisfiable), reproducible():
        collect()
    return list(drawn)
