"""Large calls inside a declaration: as the whole op has them, changed as little as may be.

A large call that a backend does not take lies in another layout, has the declared attributes, or
becomes shorter until the backend takes it. If it takes none of a row in any such way, as it takes
no tensor of these ranks, calls of its own design are made long instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from equivalence.cases.call import CaseSpec, Recipe, Shape
from equivalence.cases.covering import SINGLES
from equivalence.cases.declared.inside import Inside
from equivalence.cases.families.table import family_of
from equivalence.cases.guard import core_shape
from equivalence.cases.shrink import accepted
from equivalence.cases.sizes import SizedCase, elements
from equivalence.cases.smaller.extents import renamed
from equivalence.cases.strata.fixed import strata
from equivalence.cases.updates.design import designed_updates
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.registry import OPS, OPTIMIZERS

SHORTEST = 16
"""A call whose extents are all this short is no large one."""

LENGTHS = (65_601, 4_099, 1_027, 259)
"""The extents that a call of the design may get: beyond a grid's axis, and beyond some blocks."""

MOST = 2**18
"""How many entries the largest tensor of such a call has at most."""

SUMMED = ("reals", "offset")
"""The regimes of numbers of which long sums are only bounded."""

MOST_ADDED = 2**15
"""How many such numbers are added up to one at most."""

FEW = 2
"""How many calls of the design are made long."""


def fitting(inside: Inside, case: SizedCase) -> SizedCase | None:
    """Return a large call as a backend takes it, changed as little as may be; None where it cannot.

    It may lie in another layout, have declared attributes, or be shorter.
    """
    exact = case.regime not in SUMMED
    for shorter in _shorter(case.case):
        changed = inside.with_values(shorter)
        for own in (shorter, *((changed,) if exact or _is_bounded(changed) else ())):
            laid = inside.laid(own)
            if laid is not None and _is_whole(laid) and not _is_read_singly(laid):
                return replace(case, case=laid)
    return None


def _is_bounded(case: CaseSpec) -> bool:
    """Say whether sums of reals are short enough to leave bounds.

    The attributes for which a size was chosen may have been others, under which nothing is added.
    """
    given = sum(map(math.prod, case.shapes))
    made = sum(math.prod(each.shape) for each in case.results().values())
    return given <= MOST_ADDED * made


def _is_read_singly(case: CaseSpec) -> bool:
    """Say whether the page of a call reads entries one by one, which no array gives."""
    return family_of(OPS[case.op]).bearing.singly(case.attributes())


def _shorter(case: CaseSpec) -> Iterator[CaseSpec]:
    """Yield a call, and then with its longest extent halved, again and again."""
    yield case
    while (longest := max((n for shape in case.shapes for n in shape), default=0)) > SHORTEST:
        case = renamed(case, longest, longest // 2 + 1)
        if not accepted(case):
            return
        yield case


def _is_whole(case: CaseSpec) -> bool:
    """Say whether every tensor holds all of its numbers, as large calls must: none is expanded."""
    recipes = [*zip(case.shapes, case.recipes, strict=True)]
    results = [tuple(each.shape) for each in case.results().values()]
    seeds = [(shape, recipe) for _, recipe in case.seeds() for shape in (*case.shapes, *results)]
    return all(core_shape(shape, r.layout) == shape for shape, r in (*recipes, *seeds))


def lengthened(op: str, direction: str, dtype: str, inside: Inside) -> list[SizedCase]:
    """Return a few calls of the design of a part, each with one of its extents made long."""
    found: dict[SizedCase, None] = {}
    for case in strata(op, direction, dtype, SINGLES, inside=inside):
        plain = _plain(case)
        extents = sorted({n for shape in case.shapes for n in shape}, reverse=True)
        lengths = LENGTHS[len(found) :]
        longer = (renamed(plain, n, length) for length, n in product(lengths, extents) if n > 1)
        possible = (own for own in longer if accepted(own) and not _is_read_singly(own))
        fits = (own for own in possible if elements(own) <= MOST)
        laid = (inside.laid(own) for own in fits)
        first = next((own for own in laid if own is not None and _is_whole(own)), None)
        if first is not None:
            found[SizedCase(first, "reals")] = None
        if len(found) == FEW:
            break
    return list(found)


def _plain(case: CaseSpec) -> CaseSpec:
    """Return a call by itself, of contiguous tensors whose numbers follow from its size."""
    seeds: dict[str, Any] = {n: Recipe("integers", r.seed) for n, r in case.seeds()}
    recipes = tuple(Recipe("integers", recipe.seed) for recipe in case.recipes)
    return replace(case, calling="alone", recipes=recipes, **seeds)


def fitting_update(inside: Inside, case: UpdateSpec) -> UpdateSpec | None:
    """Return large steps as a backend takes them, changed as little as may be; None if it cannot.

    The settings may be others of its own design, and the parameters of other ranks, or smaller.
    """
    own = [each for each, _ in designed_updates(case.optimizer, case.dtype, SINGLES, (), inside)]
    known = OPTIMIZERS[case.optimizer].tried
    # What is asked beside the hyper-parameters, such as clipping, has no large steps.
    plain = (tuple(pair for pair in each.hyper if pair[0] in known) for each in own)
    settings = dict.fromkeys((case.hyper, *plain))
    for shapes, hyper in product(_shapes(case.shapes), settings):
        among = replace(case, shapes=shapes, hyper=hyper)
        for layout in dict.fromkeys(("contiguous", *(each.parameters.layout for each in own))):
            laid = replace(
                among,
                parameters=replace(among.parameters, layout=layout),
                gradients=replace(among.gradients, layout=layout),
            )
            if inside.takes_case(laid):
                return laid
    return None


def _shapes(shapes: Sequence[Shape]) -> Iterator[tuple[Shape, ...]]:
    """Yield shapes of parameters: as they are, all of one rank, and the smaller ones alike."""
    largest = max(map(math.prod, shapes))
    while largest > SHORTEST:
        yield tuple(shape if math.prod(shape) <= largest else (largest,) for shape in shapes)
        for rank in (1, 2, 3, 4):
            yield tuple(_of_rank(min(math.prod(s), largest), rank) for s in shapes)
        largest = largest // 2 + 1


def _of_rank(count: int, rank: int) -> Shape:
    """Return a shape of some rank, of about so many elements."""
    if rank == 1:
        return (count,)
    narrow = (3,) * (rank - 1)
    return (max(1, count // math.prod(narrow)), *narrow)
