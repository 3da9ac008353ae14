"""Fixed strata: the cases of a row that are the same in every run, by a covering design.

The factors are those by which the op's family makes a call (sizes, ranks, places, attributes), the
value regime and the layout of every input, those of the cotangent or the tangent, and the manner.
Every pair of levels meets that no rule below excludes, and it meets in a case that has something to
show if it can: what shows nothing (RULES of sight) is no place to see two other levels meet.
Shapes are small enough that the pure-Python oracle needs a few milliseconds for most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from equivalence.cases.call import MANNERS, CaseSpec, Recipe, attribute_pairs, counts
from equivalence.cases.covering import (
    PAIRS,
    SINGLES,
    TRIPLES,
    Design,
    Factors,
    Levels,
    by_rules,
    dealt,
)
from equivalence.cases.domains import COTANGENTS, regimes
from equivalence.cases.families.family import Call, Family, Signature, result
from equivalence.cases.families.table import family_of
from equivalence.cases.fills import ENDS, NONFINITE, source
from equivalence.cases.guard import LAYOUTS, core_shape, is_own
from equivalence.dtypes import DTYPES
from spec.op import Op
from spec.ops import OPS

FEW = 250
"""Triples are sought among factors whose levels have no more combinations than this."""

MOST_STRUCTURES = 3000
"""Where what makes a call has no more combinations than this, all of them are tried, else those
among which the triples of FEW_STRUCTURES meet."""

FEW_STRUCTURES = 400

VANISHING = ("integers", "mixed_zeros")
"""Regimes of cotangents in which a lone number may be 0."""

GROUPS = {
    "at_an_end": ENDS,
    "not_finite": tuple(regime for regime in NONFINITE if regime not in ENDS),
}
"""Regimes that are one level of a design."""

_SEEDS = {"vjp": "cotangent", "jvp": "tangent"}


def layouts_are_their_own(call: Call) -> bool:
    """A layout that a shape is too short for is another one, which has its own turn."""
    return all(
        is_own(shape, layout)
        for k, shape in enumerate(call.shapes)
        if (layout := _level(call, "layout", k)) is not None
    )


def the_seeds_layout_is_its_own(call: Call) -> bool:
    """So it is with the layout of the cotangent or the tangent."""
    return "seed_layout" not in call.levels or is_own(call.result, call.levels["seed_layout"])


def a_lone_cotangent_is_not_zero(call: Call) -> bool:
    """Every gradient would be 0."""
    return math.prod(call.result) != 1 or call.levels.get("seed_regime") not in VANISHING


def a_lone_input_has_no_second(call: Call) -> bool:
    """Where one of many tensors is passed, what would be the second's is the first's."""
    if not _is_variadic(call.op) or len(call.shapes) > 1:
        return True
    pairs = ((f"{name}_0", f"{name}_1") for name in ("regime", "layout"))
    return all(
        call.levels[first] == call.levels[second]
        for first, second in pairs
        if first in call.levels and second in call.levels
    )


def tensors_can_be_one(call: Call) -> bool:
    """One memory for several tensors of real numbers needs several, and of one shape if shared."""
    real = [shape for k, shape in enumerate(call.shapes) if k not in call.op.index_inputs]
    seeds = {"vjp": [call.result], "jvp": real}.get(call.direction, [])
    return {
        "shared": len({*real, *seeds}) < len(real) + len(seeds),
        "overlapping": len(real) + len(seeds) > 1,
    }.get(call.levels.get("manner", ""), True)


RULES: tuple[Callable[[Call], bool], ...] = (
    layouts_are_their_own,
    the_seeds_layout_is_its_own,
    a_lone_cotangent_is_not_zero,
    a_lone_input_has_no_second,
    tensors_can_be_one,
)
"""Which levels may meet, beside those that a page refuses and those that a family names."""


def enough_is_judged(call: Call) -> bool:
    """Few elements do not count."""
    return counts(call.judged())


def numbers_differ(call: Call) -> bool:
    """Where every tensor is one number throughout, the results are, too.

    The gradients of a linear op depend on the cotangent alone, and on where it is sent.
    """
    linear = call.op.kind == "linear" and call.direction in _SEEDS and not call.op.index_inputs
    if linear and math.prod(call.result) == 1:
        return False
    seed = call.levels.get("seed_layout")
    if seed is not None and math.prod(core_shape(call.result, seed)) > 1:
        return True
    spread = [
        layout is None or math.prod(core_shape(shape, layout)) > 1
        for k, shape in enumerate(call.shapes)
        for layout in [_level(call, "layout", k)]
    ]
    undecided = seed is None and call.direction in _SEEDS
    return undecided or (not linear and (not spread or any(spread)))


def tensors_have_numbers_of_their_own(call: Call) -> bool:
    """Tensors that are one, or nearly, have the numbers of one of them, whatever was chosen."""
    return call.levels.get("manner") not in ("shared", "overlapping")


SIGHT: tuple[Callable[[Call], bool], ...] = (
    enough_is_judged,
    numbers_differ,
    tensors_have_numbers_of_their_own,
)
"""What a call needs to show anything, beside what its family names."""


def _level(call: Call, name: str, k: int) -> Any:
    """Return the level of an input's factor, None while it is not chosen."""
    return call.levels.get(f"{name}_{_column(call.op, k)}")


def _column(op: Op, k: int) -> int:
    """Return whose factors an input has: of many tensors, every second one has the same."""
    return k % 2 if _is_variadic(op) else k


@cache
def _is_variadic(op: Op) -> bool:
    """Say whether an op takes any number of tensors, which a record reads off a signature."""
    return op.variadic


def factors_of(op: str, direction: str) -> Factors:
    """Return what a row varies: its family's factors, and the recipes of every tensor."""
    page = OPS[op]
    structure = family_of(page).factors(page)
    inputs = 2 if page.variadic else len(page.inputs)
    seeds = direction in _SEEDS
    recipes: dict[str, Any] = {f"layout_{k}": LAYOUTS for k in range(inputs)}
    recipes |= {"seed_layout": LAYOUTS} if seeds else {}
    recipes |= {f"regime_{k}": grouped(among) for k, among in enumerate(regimes(page, inputs))}
    recipes |= {"seed_regime": grouped(COTANGENTS)} if seeds else {}
    recipes["manner"] = MANNERS
    return {**structure, **recipes}


def grouped(among: Sequence[str]) -> tuple[str, ...]:
    """Let the regimes of what is not finite be one level, and those at a format's ends another.

    Which regime of a group a case has follows from its number, so that each of them meets a few
    levels of every other factor, and all of them together meet each.
    """
    plain = tuple(regime for regime in among if regime not in NONFINITE)
    return (*plain, *(name for name, group in GROUPS.items() if group[0] in among))


def _regime(level: str, place: str, number: int) -> str:
    """Return the regime of a level in a case."""
    group = GROUPS.get(level)
    return level if group is None else source(number, place).choice(group)


class _Rules:
    """What may meet in a row, and what shows something, asked of unfinished calls as well."""

    def __init__(self, op: str, direction: str) -> None:
        """Find the family."""
        self.op = OPS[op]
        self.direction = direction
        self.family = family_of(self.op)
        self.structure = tuple(self.family.factors(self.op))
        self._by_rules = by_rules(*self.family.rules)
        self._calls: dict[tuple[Any, ...], tuple[Signature, Any] | None] = {}

    def allowed(self, levels: Levels) -> bool:
        """Say whether a call may be."""
        if not self._finished(levels):
            return self._by_rules({"direction": self.direction, **levels})
        call = self._call(levels)
        return call is not None and all(rule(call) for rule in RULES)

    def shown(self, levels: Levels) -> bool:
        """Say whether a call may be, and has something to show."""
        if not self.allowed(levels):
            return False
        call = self._call(levels) if self._finished(levels) else None
        return call is None or all(rule(call) for rule in (*SIGHT, *self.family.shows))

    def _finished(self, levels: Levels) -> bool:
        return all(name in levels for name in self.structure)

    def _call(self, levels: Levels) -> Call | None:
        """Return the call of a structure, None where a rule of the family or the page refuses."""
        key = tuple(levels[name] for name in self.structure)
        if key not in self._calls:
            self._calls[key] = self._made({"direction": self.direction, **levels})
        known = self._calls[key]
        if known is None:
            return None
        (shapes, attributes), shape = known
        return Call(self.op, self.direction, shapes, attributes, shape, levels)

    def _made(self, levels: Levels) -> tuple[Signature, Any] | None:
        """Make a call of the levels of a structure, if it may be."""
        if not self._by_rules(levels):
            return None
        signature = self.family.call(self.op, self.direction, levels)
        shape = result(self.op, signature)
        return None if shape is None else (signature, shape)


@cache
def _design(op: str, direction: str) -> Design:
    """Return the design of all rows of an op and a direction, whatever their dtype."""
    rules = _Rules(op, direction)
    structure = family_of(OPS[op]).factors(OPS[op])
    blocks = _structures(family_of(OPS[op]), direction, tuple(structure.items()))
    return Design(factors_of(op, direction), rules.shown, rules.allowed, few=FEW, blocks=blocks)


@cache
def _structures(
    family: Family, direction: str, factors: tuple[tuple[str, tuple[Any, ...]], ...]
) -> list[dict[str, Any]]:
    """Return the levels of a family's own factors that are tried together."""
    allowed = by_rules(*family.rules)

    def in_direction(levels: Levels) -> bool:
        return allowed({"direction": direction, **levels})

    names = [name for name, _ in factors]
    chosen = product(*(levels for _, levels in factors))
    rows = [
        row
        for row in (dict(zip(names, levels, strict=True)) for levels in chosen)
        if in_direction(row)
    ]
    if len(rows) <= MOST_STRUCTURES:
        return rows
    spread = rows[:: -(-len(rows) // MOST_STRUCTURES)]
    return Design(dict(factors), in_direction, few=FEW_STRUCTURES).rows(TRIPLES) + spread


def strata(
    op: str,
    direction: str,
    dtype: str,
    strength: int = SINGLES,
    dtypes: Sequence[str] = (),
) -> list[CaseSpec]:
    """Return the fixed cases of a row, those of the weaker designs first.

    dtypes are those in which a backend has this row, this one among them. A dtype is a factor like
    others: in a design of pairs every level meets every dtype, and two levels meet in one of them.
    """
    design = _design(op, direction)
    cases = [
        _case(op, direction, dtype, levels, number)
        for number, levels in enumerate(design.rows(strength))
    ]
    if strength != PAIRS or dtype not in dtypes:
        return cases
    among = [name for name in DTYPES if name in dtypes]
    return dealt(cases, len(design.rows(SINGLES)), among.index(dtype), len(among))


def extras(op: str, direction: str, dtype: str) -> list[CaseSpec]:
    """Return the cases of a row that run without being counted: size 0 and rank 0."""
    page = OPS[op]
    plain = {name: levels[0] for name, levels in factors_of(op, direction).items()}
    plain |= {"seed_regime": "normal"} if direction in _SEEDS else {}
    return [
        _with_recipes(op, direction, dtype, signature, plain, number)
        for number, signature in enumerate(family_of(page).extras(page))
    ]


def _case(op: str, direction: str, dtype: str, levels: Levels, number: int) -> CaseSpec:
    """Return the case of a row of the design."""
    page = OPS[op]
    signature = family_of(page).call(page, direction, levels)
    return _with_recipes(op, direction, dtype, signature, levels, number)


def _with_recipes(
    op: str,
    direction: str,
    dtype: str,
    signature: Signature,
    levels: Mapping[str, Any],
    number: int,
) -> CaseSpec:
    """Give every tensor of a call the regime and the layout that are chosen for it."""
    shapes, attributes = signature
    columns = [_column(OPS[op], k) for k in range(len(shapes))]
    recipes = tuple(
        Recipe(_regime(levels[f"regime_{k}"], f"regime {k}", number), number, levels[f"layout_{k}"])
        for k in columns
    )
    attrs = attribute_pairs(attributes)
    case = CaseSpec(op, direction, dtype, shapes, recipes, attrs, manner=levels["manner"])
    if direction not in _SEEDS:
        return case
    seed: dict[str, Any] = {
        _SEEDS[direction]: Recipe(
            _regime(levels["seed_regime"], "seed", number), number, levels["seed_layout"]
        )
    }
    return replace(case, **seed)
