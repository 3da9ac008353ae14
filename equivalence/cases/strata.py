"""Fixed strata: the cases of a row that are the same in every run, by a covering design.

The factors are those by which the op's family makes a call (sizes, ranks, places, attributes), the
value regime and the layout of every input, those of the cotangent or the tangent, and the manner.
Every pair of levels meets that no rule excludes (`equivalence.cases.families.meeting`), extents by
their size class, and it meets in a case that has something to show if it can: what shows nothing is
no place to see two other levels meet.
Shapes are small enough that the pure-Python oracle needs a few milliseconds for most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from equivalence.cases.call import MANNERS, CaseSpec, Recipe, attribute_pairs
from equivalence.cases.covering import (
    PAIRS,
    SINGLES,
    TRIPLES,
    Design,
    Factors,
    Levels,
    by_rules,
    owners,
)
from equivalence.cases.domains import COTANGENTS, GROUPS, grouped, regimes
from equivalence.cases.families.family import Call, Family, Signature, result
from equivalence.cases.families.meeting import RULES, SEEDS, SIGHT, column
from equivalence.cases.families.table import family_of
from equivalence.cases.fills import source
from equivalence.cases.guard import LAYOUTS
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS

FEW = 250
"""Triples are sought among factors whose levels have no more combinations than this."""

MOST_STRUCTURES = 3000
"""Where what makes a call has no more combinations than this, all of them are tried, else those
among which the triples of FEW_STRUCTURES meet."""

FEW_STRUCTURES = 400

CLASSES = (16, 129, 513)
"""The largest extents of size classes: of a vector, of a tile and its neighbours, of some tiles."""

EXTENTS = ("extent", "rows", "inner", "columns", "classes")
"""The factors that are extents, where their levels are numbers."""

LENGTHS = ("extent", "columns", "classes")
"""Those of them along which an op goes: where in a row a number stands may matter."""

ANY = 100
"""What any case costs, in entries: as much time goes into a case as into so many of them."""

Numbered = tuple[int, Levels]
Owners = tuple[int, ...]
"""Whose a row is: the places of dtypes."""


def size_class(name: str, level: Any) -> Any:
    """Return the class of an extent, whose extents stand for each other beside other factors.

    They are no more than a vector holds, about a tile, beyond one, and beyond a block. One entry,
    and a level of any other factor, is a class of its own.
    """
    if name not in EXTENTS or not isinstance(level, int) or level == 1:
        return level
    return next((f"at most {most}" for most in CLASSES if level <= most), f"above {CLASSES[-1]}")


def factors_of(op: str, direction: str) -> Factors:
    """Return what a row varies: its family's factors, and the recipes of every tensor."""
    page = OPS[op]
    structure = family_of(page).factors(page)
    inputs = 2 if page.variadic else len(page.inputs)
    seeds = direction in SEEDS
    recipes: dict[str, Any] = {f"layout_{k}": LAYOUTS for k in range(inputs)}
    recipes |= {"seed_layout": LAYOUTS} if seeds else {}
    recipes |= {f"regime_{k}": grouped(among) for k, among in enumerate(regimes(page, inputs))}
    recipes |= {"seed_regime": grouped(COTANGENTS)} if seeds else {}
    recipes["manner"] = MANNERS
    return {**structure, **recipes}


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

    def cost(self, levels: Levels) -> float:
        """Return what a case of a structure costs: that of any case, and that of its entries."""
        call = self._call(levels)
        return ANY + (0 if call is None else sum(map(math.prod, call.shapes)))

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
    return Design(
        factors_of(op, direction),
        rules.shown,
        rules.allowed,
        few=FEW,
        blocks=blocks,
        cost=rules.cost,
        alike=size_class,
    )


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
    among = [name for name in DTYPES if name in dtypes] if dtype in dtypes else [dtype]
    places = len(among) if strength == PAIRS else 1
    rows = _designed(op, direction, strength, places)[among.index(dtype) % places]
    return [_case(op, direction, dtype, levels, number) for number, levels in rows]


def _designed(op: str, direction: str, strength: int, places: int) -> list[list[Numbered]]:
    """Return the rows that each of several dtypes has, by their numbers, with their regimes."""
    design = _design(op, direction)
    rows, everywhere = design.rows(strength), len(design.rows(SINGLES))
    whose = [owners(number, everywhere, places) for number in range(len(rows))]
    found: list[list[Numbered]] = [[] for _ in range(places)]
    cost = _Rules(op, direction).cost if strength > SINGLES else None
    for number, (levels, own) in enumerate(ungrouped(rows, whose, cost)):
        for place in own:
            found[place].append((number, levels))
    return found


def ungrouped(
    rows: Sequence[Levels],
    whose: Sequence[Owners],
    cost: Callable[[Levels], float] | None = None,
) -> Iterator[tuple[dict[str, Any], Owners]]:
    """Put a regime in the place of each group, and tell again whose each row is.

    An owner has all of a group before one comes again. Of those that are left it is one that has
    not met the length of the row, by its size class. Where it is told what a row costs, each meets
    every class, in some owner's rows: what is still missing has cheap ones of its own at the end.
    """
    told = _Regimes()
    for row, own in zip(rows, whose, strict=True):
        yield {name: told.chosen(row, name, own) for name in row}, own
    if cost is not None:
        last = list({place: None for own in whose for place in own})
        for number, row in enumerate(told.missing(sorted(rows, key=cost))):
            yield row, (last[number % len(last)],)


class _Regimes:
    """Which regimes of the groups have been met, and in rows of which lengths."""

    def __init__(self) -> None:
        self._turns: dict[tuple[int, str, str], tuple[int, list[str]]] = {}
        self._met: set[tuple[str, str, str, Any]] = set()

    def chosen(self, row: Levels, name: str, own: Owners) -> Any:
        """Return the level of a row, or the regime of its group that its owners meet now."""
        group = GROUPS.get(row[name], ()) if "regime" in name else ()
        if not group:
            return row[name]
        turn, left = self._turns.get((own[0], name, row[name]), (0, []))
        if not left:
            left = source(turn, f"{name} {row[name]}").sample(group, len(group))
            turn += 1
        regime = max(left, key=lambda one: len(self._beside(row, name, one) - self._met))
        self._met |= self._beside(row, name, regime)
        for place in own:
            self._turns[place, name, row[name]] = turn, [one for one in left if one != regime]
        return regime

    def missing(self, rows: Sequence[Levels]) -> Iterator[dict[str, Any]]:
        """Yield rows like those that there are, until each regime has met the extents of them."""
        for row, name in product(rows, rows[0] if rows else ()):
            for regime in GROUPS.get(row[name], ()) if "regime" in name else ():
                if beside := self._beside(row, name, regime) - self._met:
                    self._met |= beside
                    own = {other: self.chosen(row, other, (-1,)) for other in row if other != name}
                    yield {n: regime if n == name else own[n] for n in row}

    @staticmethod
    def _beside(row: Levels, name: str, regime: str) -> set[tuple[str, str, str, Any]]:
        lengths = ((length, row[length]) for length in LENGTHS if length in row)
        return {(name, regime, length, size_class(length, level)) for length, level in lengths}


def extras(op: str, direction: str, dtype: str) -> list[CaseSpec]:
    """Return the cases of a row that run without being counted: size 0 and rank 0."""
    page = OPS[op]
    plain = {name: levels[0] for name, levels in factors_of(op, direction).items()}
    plain |= {"seed_regime": "normal"} if direction in SEEDS else {}
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
    columns = [column(OPS[op], k) for k in range(len(shapes))]
    recipes = tuple(Recipe(levels[f"regime_{k}"], number, levels[f"layout_{k}"]) for k in columns)
    attrs = attribute_pairs(attributes)
    case = CaseSpec(op, direction, dtype, shapes, recipes, attrs, manner=levels["manner"])
    if direction not in SEEDS:
        return case
    recipe = Recipe(levels["seed_regime"], number, levels["seed_layout"])
    seed: dict[str, Any] = {SEEDS[direction]: recipe}
    return replace(case, **seed)
