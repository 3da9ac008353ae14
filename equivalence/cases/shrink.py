"""Shrinking: from a failing case to a small one, by steps that each keep it failing.

Hypothesis shrinks what it drew; most failures show in fixed strata, which nobody drew.  So cases
shrink here as descriptions: fewer elements first, then plainer layouts, numbers and attributes.
A step is kept if the smaller case still fails, and the walk ends where no step does.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from equivalence.cases.built import allows
from equivalence.cases.call import WORDS, CaseSpec, Recipe, size_key
from equivalence.cases.domains import COTANGENTS, regimes
from equivalence.cases.smaller.axes import without_an_axis
from equivalence.cases.smaller.extents import lower_extents, with_lower_extents
from equivalence.cases.updates.levels import GRADIENTS, PARAMETERS, SCALES, choices, permitted_pairs
from equivalence.cases.updates.spec import COMPANY, HANDINGS, UpdateSpec
from equivalence.registry import OPS, OPTIMIZERS
from spec.op import Rejected

ATTEMPTS = 150
"""How many evaluations one failure may cost."""


def smallest(
    case: Any, fails: Callable[[Any], bool], smaller: Callable[[Any], Iterator[Any]]
) -> Any:
    """Return a failing case below which no step leads to another failing one."""
    tried = {case}

    def step(current: Any) -> Any:
        for candidate in smaller(current):
            if candidate in tried or len(tried) >= ATTEMPTS:
                continue
            tried.add(candidate)
            if fails(candidate):
                return candidate
        return None

    found = case
    while (lower := step(found)) is not None:
        found = lower
    return found


def _lower(number: int, least: int = 0) -> list[int]:
    """Return smaller numbers to try: the least, halfway, one less."""
    return sorted({n for n in (least, number // 2, number - 1) if least <= n < number})


def smaller_recipes(recipe: Recipe, among: Sequence[str]) -> Iterator[Recipe]:
    """Yield plainer recipes: layout, then regime, then seed."""
    if recipe.layout != "contiguous":
        yield replace(recipe, layout="contiguous")
    plainer = among[: among.index(recipe.regime)] if recipe.regime in among else among
    for regime in plainer:
        yield replace(recipe, regime=regime)
    for seed in _lower(recipe.seed):
        yield replace(recipe, seed=seed)


def smaller_calls(case: CaseSpec) -> Iterator[CaseSpec]:
    """Yield the cases one step below a call that its type rule accepts, the smallest first."""
    below = (lower for lower in _below_call(case) if size_key(lower) < size_key(case))
    return iter(sorted(filter(accepted, below), key=size_key))


def _below_call(case: CaseSpec) -> Iterator[CaseSpec]:
    if case.calling != "alone":
        yield replace(case, calling="alone")
    yield from with_lower_extents(case)
    yield from without_an_axis(case)
    for k, among in enumerate(regimes(OPS[case.op], len(case.shapes), case.attributes())):
        for recipe in smaller_recipes(case.recipes[k], among):
            recipes = (*case.recipes[:k], recipe, *case.recipes[k + 1 :])
            yield replace(case, recipes=recipes)
    for name, seed in case.seeds():
        for recipe in smaller_recipes(seed, COTANGENTS):
            changed: dict[str, Any] = {name: recipe}
            yield replace(case, **changed)
    for k in range(len(case.shapes) if OPS[case.op].variadic else 0):
        shapes = (*case.shapes[:k], *case.shapes[k + 1 :])
        yield replace(case, shapes=shapes, recipes=(*case.recipes[:k], *case.recipes[k + 1 :]))
    for k, (name, word) in enumerate(case.attrs):
        for lower in _lower(word) if name in WORDS else ():
            yield replace(case, attrs=(*case.attrs[:k], (name, lower), *case.attrs[k + 1 :]))
    defaults = OPS[case.op].attributes
    for pair in case.attrs:
        if defaults.get(pair[0], inspect.Parameter.empty) is not inspect.Parameter.empty:
            yield replace(case, attrs=tuple(other for other in case.attrs if other != pair))


def accepted(case: CaseSpec) -> bool:
    """Say whether the page's type rule accepts a case, and its calling pattern is possible."""
    try:
        OPS[case.op].type_rule(*case.types(), **case.attributes())
    except Rejected:
        return False
    return allows(case, case.calling)


def smaller_updates(case: UpdateSpec) -> Iterator[UpdateSpec]:
    """Yield the cases one step below some steps of an optimizer."""
    for steps in lower_extents(case.steps, 1):
        kept, zeroed = (
            [p for p in places if p[0] < steps] for places in (case.missing, case.zeroed)
        )
        events = tuple(event for event in case.events if event.step < steps)
        yield replace(case, steps=steps, missing=tuple(kept), zeroed=tuple(zeroed), events=events)
    if case.events:
        yield replace(case, events=())
    for k in range(len(case.events) if len(case.events) > 1 else 0):
        yield replace(case, events=(*case.events[:k], *case.events[k + 1 :]))
    if case.handing != HANDINGS[0]:
        yield replace(case, handing=HANDINGS[0])
    if case.company != COMPANY[0]:
        yield replace(case, company=COMPANY[0])
    if case.zeroed:
        yield replace(case, zeroed=())
    if case.missing:
        yield replace(case, missing=())
    if case.groups:
        yield replace(case, groups=())
    if case.shapes != ((1,),):
        yield replace(case, shapes=((1,),), missing=(), zeroed=(), groups=())
    if len(case.shapes) == 1:
        yield from _smaller_parameter(case)
    for shape in dict.fromkeys(case.shapes) if len(case.shapes) > 1 else ():
        yield replace(case, shapes=(shape,), missing=(), zeroed=(), groups=())
    for k in range(len(case.shapes) if 1 < len(case.shapes) <= 5 else 0):
        yield _without(case, k)
    for recipe in smaller_recipes(case.gradients, GRADIENTS):
        yield replace(case, gradients=recipe)
    for recipe in smaller_recipes(case.parameters, PARAMETERS):
        yield replace(case, parameters=recipe)
    for name, value in case.hyper:
        if name == "max_value" or name in OPTIMIZERS[case.optimizer].extras:
            yield replace(case, hyper=tuple(pair for pair in case.hyper if pair[0] != name))
            continue
        plainest = choices(case.optimizer).get(name, SCALES)[0]
        if value != plainest:
            yield replace(
                case, hyper=permitted_pairs(case.optimizer, {**dict(case.hyper), name: plainest})
            )


def _smaller_parameter(case: UpdateSpec) -> Iterator[UpdateSpec]:
    """Yield the case with its one parameter smaller: fewer axes, or one of them shorter."""
    (shape,) = case.shapes
    if len(shape) > 1:
        yield replace(case, shapes=((math.prod(shape),),))
    for axis, extent in enumerate(shape):
        for lower in lower_extents(extent, min(extent, 1)):
            yield replace(case, shapes=((*shape[:axis], lower, *shape[axis + 1 :]),))


def _without(case: UpdateSpec, dropped: int) -> UpdateSpec:
    """Leave out one parameter of several, wherever it is named."""
    places = {k: k - (k > dropped) for k in range(len(case.shapes)) if k != dropped}
    groups = (
        (tuple(places[k] for k in members if k in places), pairs) for members, pairs in case.groups
    )
    return replace(
        case,
        shapes=tuple(shape for k, shape in enumerate(case.shapes) if k != dropped),
        missing=tuple((step, places[k]) for step, k in case.missing if k in places),
        zeroed=tuple((step, places[k]) for step, k in case.zeroed if k in places),
        spoiled=tuple((step, places[k], what) for step, k, what in case.spoiled if k in places),
        groups=tuple(group for group in groups if group[0]),
    )
