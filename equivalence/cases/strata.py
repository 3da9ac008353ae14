"""Fixed strata: the first dozen cases of every row, the same in every run.

The op's family says which calls; a table of treatments lays inputs and cotangents out contiguous,
strided, offset, transposed and with stride 0, with exact zeros among mixed scales.
Shapes are small enough that the pure-Python oracle needs a fraction of a second for each.
"""

from __future__ import annotations

import math
from dataclasses import replace

from equivalence.cases.call import CaseSpec, Recipe, attribute_pairs
from equivalence.cases.domains import regimes
from equivalence.cases.families.family import Signature
from equivalence.cases.families.table import family_of
from equivalence.cases.fills import NONFINITE
from spec.ops import OPS

TREATMENTS: tuple[tuple[str, str, str], ...] = (
    ("contiguous", "normal", "strided"),
    ("strided", "mixed_zeros", "contiguous"),
    ("transposed", "normal", "transposed"),
    ("offset", "mixed_zeros", "expanded"),
    ("expanded", "one_hot", "padded"),
    ("padded", "mixed_zeros", "offset"),
    ("broadcast", "integers", "broadcast"),
    ("contiguous", "mixed", "contiguous"),
    ("transposed", "mixed_zeros", "strided"),
    ("strided", "one_hot", "transposed"),
    ("padded", "normal", "padded"),
    ("offset", "mixed_zeros", "broadcast"),
)
"""(layout of the inputs, regime of the cotangent, layout of the cotangent), one per stratum."""


def strata(op: str, direction: str, dtype: str) -> list[CaseSpec]:
    """Return the fixed cases of a row, in the order in which they run."""
    cases = [
        _case(op, direction, dtype, signature, number)
        for number, signature in enumerate(family_of(OPS[op]).strata(OPS[op]))
    ]
    ends = [
        _at_an_end(cases[number % len(cases)], number, regime)
        for number, regime in enumerate(NONFINITE)
    ]
    return cases + [case for case in ends if case is not None]


def _at_an_end(case: CaseSpec, number: int, regime: str) -> CaseSpec | None:
    """Fill one input with what is not finite, or just so; None where there is no such input."""
    suited = regimes(OPS[case.op], len(case.shapes))
    real = [k for k, among in enumerate(suited) if regime in among]
    if not real:
        return None
    at = real[number % len(real)]
    recipes = tuple(
        replace(recipe, regime=regime) if k == at else recipe
        for k, recipe in enumerate(case.recipes)
    )
    return replace(case, recipes=recipes)


def extras(op: str, direction: str, dtype: str) -> list[CaseSpec]:
    """Return the cases of a row that run without being counted: size 0 and rank 0."""
    return [
        _case(op, direction, dtype, signature, number)
        for number, signature in enumerate(family_of(OPS[op]).extras(OPS[op]))
    ]


def _case(op: str, direction: str, dtype: str, signature: Signature, number: int) -> CaseSpec:
    """Combine a shape, a treatment, and the regimes that come next in the inputs' domains."""
    shapes, attrs = signature
    layout, regime, cotangent_layout = TREATMENTS[number % len(TREATMENTS)]
    suited = regimes(OPS[op], len(shapes))
    recipes = tuple(
        Recipe(
            among[(number + 2 * k) % len(among)], number, layout if k == 0 else _other(number, k)
        )
        for k, among in enumerate(suited)
    )
    case = CaseSpec(op, direction, dtype, shapes, recipes, attribute_pairs(attrs))
    if direction == "vjp":
        # A lone cotangent must not be one of a regime's zeros: every gradient would be 0.
        lone = math.prod(case.output_shape()) == 1
        seed = Recipe("normal" if lone else regime, number, cotangent_layout)
        return replace(case, cotangent=seed)
    if direction == "jvp":
        return replace(case, tangent=Recipe(regime, number, cotangent_layout))
    return case


def _other(number: int, k: int) -> str:
    """Lay the later inputs out differently from the first."""
    return TREATMENTS[(number + 3 * k) % len(TREATMENTS)][0]
