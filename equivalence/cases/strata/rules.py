"""The design of a row: its factors, and which of their levels may meet.

A level is a value of a factor. The family of an op, its class of operators, names the factors of a
call: sizes, ranks, places, attributes. Every tensor adds two factors: its input distribution, which
is called its regime, and its layout. The calling pattern is the last factor.
A combination of levels is allowed if no rule and no page refuses it. It is shown if its call
can also show a mistake: enough elements are judged, and they differ from each other. Levels meet
in a shown call if there is one.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

from equivalence.cases.call import CALLING_PATTERNS
from equivalence.cases.covering import TRIPLES, Design, Factors, Levels, by_rules
from equivalence.cases.declared.calls import complete
from equivalence.cases.declared.inside import Form, Inside
from equivalence.cases.domains import COTANGENTS, grouped, regimes
from equivalence.cases.families.family import Call, Family
from equivalence.cases.families.meeting import RULES, SEEDS, SIGHT, column
from equivalence.cases.families.signatures import Shape, Signature, results
from equivalence.cases.families.table import family_of
from equivalence.cases.guard import LAYOUTS
from equivalence.cases.strata.classes import size_class
from equivalence.registry import remembering
from spec.op import Op

FEW = 250
"""A design seeks triples only among factors with at most so many combinations of levels."""

MOST_STRUCTURES = 3000
"""If a family has at most so many combinations of its own levels, the design tries all."""

FEW_STRUCTURES = 400
"""A larger family has a design of triples instead; it takes factors with so few combinations."""

ANY = 100
"""Every case costs as much as this number of entries, in addition to its own entries."""


def factors_of(op: Op, direction: str, inside: Inside | None = None) -> Factors:
    """Return the factors of a row: its family's, every tensor's, and the calling pattern.

    Of attributes that a declaration narrows, the levels are the declared values.
    """
    structure = family_of(op).factors(op if inside is None else inside.narrowed(op))
    inputs = 2 if op.variadic else len(op.inputs)
    seeds = direction in SEEDS
    recipes: dict[str, Any] = {f"layout_{k}": LAYOUTS for k in range(inputs)}
    recipes |= {"seed_layout": LAYOUTS} if seeds else {}
    recipes |= {f"regime_{k}": grouped(among) for k, among in enumerate(regimes(op, inputs))}
    recipes |= {"seed_regime": grouped(COTANGENTS)} if seeds else {}
    recipes["calling"] = CALLING_PATTERNS
    return {**structure, **recipes}


class Rules:
    """Decides whether levels may meet, and whether their call can show a mistake.

    Levels may be incomplete. A rule is asked as soon as its own levels are there.
    """

    def __init__(self, op: Op, direction: str, inside: Inside | None = None) -> None:
        """Find the family of the op. Inside says which calls a backend takes, if not all."""
        self.op = op if inside is None else inside.narrowed(op)
        self.direction = direction
        self.inside = inside
        self.family = family_of(op)
        self.structure = tuple(self.family.factors(self.op))
        self._own = frozenset(self.structure)
        self._by_rules = by_rules(*self.family.rules)
        self._calls: dict[tuple[Any, ...], tuple[Signature, tuple[Shape, ...]] | None] = {}

    def allowed(self, levels: Levels) -> bool:
        """Say whether levels may meet."""
        if not self._finished(levels):
            return self._by_rules({"direction": self.direction, **levels})
        return self._taken(levels) is not None

    def structures(self) -> list[dict[str, Any]]:
        """Return the family's own levels of which a call may be taken, or some of them."""
        factors = self.family.factors(self.op)
        every = (dict(zip(factors, own, strict=True)) for own in product(*factors.values()))
        rows = [levels for levels in every if self._call(levels) is not None]
        return rows[:: -(-len(rows) // MOST_STRUCTURES) or 1]

    def shown(self, levels: Levels) -> bool:
        """Say whether levels may meet, and whether their call can show a mistake."""
        if not self._finished(levels):
            return self.allowed(levels)
        call = self._taken(levels)
        return call is not None and all(rule(call) for rule in (*SIGHT, *self.family.shows))

    def cost(self, levels: Levels) -> float:
        """Return the cost of a case in entries."""
        call = self._call(levels)
        return ANY + (0 if call is None else sum(map(math.prod, call.shapes)))

    def _finished(self, levels: Levels) -> bool:
        """Say whether the levels make a call."""
        return levels.keys() >= self._own

    def _taken(self, levels: Levels) -> Call | None:
        """Return the call of some levels. It is None if they may not meet."""
        call = self._call(levels)
        if call is None or not all(rule(call) for rule in RULES):
            return None
        return call if self.inside is None or taken(self.inside, call) else None

    def _call(self, levels: Levels) -> Call | None:
        """Return the call of some levels. It is None if a rule or the page refuses it."""
        key = tuple([levels[name] for name in self.structure])
        if key not in self._calls:
            self._calls[key] = self._made({"direction": self.direction, **levels})
        known = self._calls[key]
        if known is None:
            return None
        (shapes, attributes), made = known
        return Call(self.op, self.direction, shapes, attributes, made, levels)

    def _made(self, levels: Levels) -> tuple[Signature, tuple[Shape, ...]] | None:
        """Make the call of some levels and the shapes of its results."""
        if not self._by_rules(levels):
            return None
        signature = self.family.call(self.op, self.direction, levels)
        made = results(self.op, signature)
        if made is None:
            return None
        if self.inside is not None:
            form = form_of(self.inside, self.op.name, signature, made)
            if not self.inside.structure(form):
                return None
        return signature, made


@remembering
def design(op: Op, direction: str) -> Design:
    """Return the design of an op in a direction. It is the same for all dtypes."""
    rules = Rules(op, direction)
    structure = rules.family.factors(rules.op)
    return Design(
        factors_of(op, direction),
        rules.shown,
        rules.allowed,
        few=FEW,
        blocks=_structures(rules.family, direction, tuple(structure.items())),
        cost=rules.cost,
        alike=size_class,
    )


_declared: dict[tuple[Op, str, str], Design] = {}
"""The designs of parts that are data: rows of several dtypes ask for the same."""


def declared_design(op: Op, direction: str, inside: Inside) -> Design:
    """Return the design of the part of an op that a backend takes."""
    if inside.part is None:
        return _of_part(op, direction, inside)
    key = (op, direction, repr(inside.part))
    if key not in _declared:
        _declared[key] = _of_part(op, direction, inside)
    return _declared[key]


def _of_part(op: Op, direction: str, inside: Inside) -> Design:
    rules = Rules(op, direction, inside)
    return Design(
        factors_of(op, direction, inside),
        rules.shown,
        rules.allowed,
        few=FEW,
        blocks=rules.structures(),
        cost=rules.cost,
        alike=size_class,
    )


def form_of(inside: Inside, op: str, signature: Signature, made: tuple[Shape, ...]) -> Form:
    """Return the form of a call in the row of a declaration."""
    shapes, attributes = signature
    own = complete(op, attributes)
    return Form(op, inside.direction, inside.dtype, tuple(shapes), own, made)


def taken(inside: Inside, call: Call) -> bool:
    """Say whether a call may be taken as far as it is chosen; a whole one is asked about."""
    columns = [column(call.op, k) for k in range(len(call.shapes))]
    layouts = [call.levels.get(f"layout_{k}") for k in columns]
    layouts.append(call.levels.get("seed_layout"))
    form = form_of(inside, call.op.name, (call.shapes, dict(call.attributes)), call.results)
    chosen = [(k, layout) for k, layout in enumerate(layouts) if layout is not None]
    if not all(inside.tensor(form, k, layout) for k, layout in chosen):
        return False
    if len(chosen) < len(layouts) - (call.direction not in SEEDS):
        return True
    return inside.takes(form.call(tuple(layout or LAYOUTS[0] for layout in layouts)))


@cache
def _structures(
    family: Family, direction: str, factors: tuple[tuple[str, tuple[Any, ...]], ...]
) -> list[dict[str, Any]]:
    """Return the combinations of a family's own levels that the design tries."""
    allowed = by_rules(*family.rules)

    def in_direction(levels: Levels) -> bool:
        return allowed({"direction": direction, **levels})

    names = [name for name, _ in factors]
    combinations = product(*(levels for _, levels in factors))
    rows = [
        row
        for row in (dict(zip(names, levels, strict=True)) for levels in combinations)
        if in_direction(row)
    ]
    if len(rows) <= MOST_STRUCTURES:
        return rows
    spread = rows[:: -(-len(rows) // MOST_STRUCTURES)]
    return Design(dict(factors), in_direction, few=FEW_STRUCTURES).rows(TRIPLES) + spread
