"""Cases without their numbers: what a declaration could say of them, and plain numbers instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.domains import regimes
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.registry import OPS

Plain = TypeVar("Plain", CaseSpec, UpdateSpec)


def plain_numbers(case: Plain) -> Plain:
    """Return the case of the same types, attributes, layouts and pattern that has plain numbers."""
    return _plain_update(case) if isinstance(case, UpdateSpec) else _plain_call(case)


def signature(case: Any) -> Any:
    """Return what a case has in common with those of other numbers: the plain one of the seed 0.

    Of a large case, whose numbers are all plain, it is the call.
    """
    return _seedless(plain_numbers(getattr(case, "case", case)))


GENERIC = ("normal", "positive", "nonzero")
"""Regimes in which no number is special, and no two are the same: integers tie."""


def _plain_call(case: CaseSpec) -> CaseSpec:
    suited = regimes(OPS[case.op], len(case.shapes), case.attributes())
    recipes = tuple(
        replace(recipe, regime=_plainest(among))
        for recipe, among in zip(case.recipes, suited, strict=True)
    )
    seeds: dict[str, Any] = {n: replace(r, regime=GENERIC[0]) for n, r in case.seeds()}
    return replace(case, recipes=recipes, **seeds)


def _plainest(among: Sequence[str]) -> str:
    """Return the plainest regime of an input: of reals a generic one, of indices the first."""
    return next((regime for regime in GENERIC if regime in among), among[0])


def _plain_update(case: UpdateSpec) -> UpdateSpec:
    """Let no gradient be spoiled or zero, either."""

    def plain(recipe: Recipe) -> Recipe:
        return replace(recipe, regime="normal")

    events = tuple(replace(event, recipe=plain(event.recipe)) for event in case.events)
    numbers: dict[str, Any] = {n: plain(getattr(case, n)) for n in ("parameters", "gradients")}
    return replace(case, **numbers, events=events, spoiled=(), zeroed=())


def _seedless(case: Any) -> Any:
    def zero(recipe: Recipe) -> Recipe:
        return replace(recipe, seed=0)

    if isinstance(case, UpdateSpec):
        events = tuple(replace(event, recipe=zero(event.recipe)) for event in case.events)
        own: dict[str, Any] = {n: zero(getattr(case, n)) for n in ("parameters", "gradients")}
        return replace(case, **own, events=events)
    seeds: dict[str, Any] = {name: zero(recipe) for name, recipe in case.seeds()}
    return replace(case, recipes=tuple(map(zero, case.recipes)), **seeds)
