"""A failing case once more with its very numbers, but laid out or called in the plain way.

Where it passes so, the layout or the calling pattern is what the backend does not bear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from equivalence.budgets.outcome import Outcome
from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.guard import Guarded
from equivalence.cases.updates.spec import COMPANY, HANDINGS, UpdateSpec
from equivalence.cases.updates.tensors import Gradients, build_parameters
from equivalence.measure.call import measure_built
from equivalence.measure.shadow import measure_steps
from equivalence.measure.update import judging, shorter

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract

CONTIGUOUS, ALONE, OWN = "contiguous", "called alone", "given gradients of their own"
"""What a case may be made: each tensor row-major, one lone call, a fresh tensor a gradient."""

MOST_STEPS = 32
"""Longer lives of an optimizer are not lived again."""

Ways = tuple[str, ...]


def ways(case: Any) -> Sequence[Ways]:
    """Return in which ways a case can be made plainer: in one respect each, then in all."""
    own: CaseSpec | UpdateSpec = getattr(case, "case", case)  # that of a large one
    laid = any(recipe.layout != CONTIGUOUS for recipe in _recipes(own))
    apart = [CONTIGUOUS] if laid else []
    if isinstance(own, UpdateSpec):
        if own.steps > MOST_STEPS:
            return ()
        apart += [OWN] if own.handing != HANDINGS[0] else []
        apart += [ALONE] if own.company != COMPANY[0] else []
    elif own.calling != "alone":
        apart.append(ALONE)
    # Tensors that overlap hold other numbers where they are laid out in another way.
    tied = isinstance(own, CaseSpec) and own.calling == "overlapping"
    single = [(way,) for way in apart if not (tied and way == CONTIGUOUS)]
    return [*single, *([tuple(apart)] if len(apart) > 1 else [])]


def no_ways(case: Any) -> Sequence[Ways]:
    """Return no way, for cases that are plain or that nothing was recorded of."""
    return ()


def _recipes(case: CaseSpec | UpdateSpec) -> Sequence[Recipe]:
    if isinstance(case, UpdateSpec):
        return (case.parameters, case.gradients)
    return (*case.recipes, *(recipe for _, recipe in case.seeds()))


def plain(recipe: Recipe) -> Recipe:
    """Return a recipe of a tensor that lies row-major."""
    return replace(recipe, layout=CONTIGUOUS)


def call_plainly(backend: Any, case: CaseSpec, contract: Contract, way: Ways) -> Outcome:
    """Put a call with the numbers of a case in some ways, and judge it."""
    device, built = backend.capabilities().device, build(case, backend.capabilities().device)
    plainer = replace(case, calling="alone") if ALONE in way else case
    if CONTIGUOUS in way:
        plainer = laid_plainly(plainer)
    whole = CONTIGUOUS in way
    numbers = {name: _listed(item, stored=not whole) for name, item in built.tensors()}
    return measure_built(backend, build(plainer, device, numbers), contract)


def laid_plainly(case: CaseSpec) -> CaseSpec:
    """Return a case whose tensors lie row-major."""
    seeds: dict[str, Any] = {name: plain(recipe) for name, recipe in case.seeds()}
    return replace(case, recipes=tuple(map(plain, case.recipes)), **seeds)


def update_plainly(backend: Any, case: UpdateSpec, contract: Contract, way: Ways) -> Outcome:
    """Take the steps of a case with its numbers in some ways, and judge them."""
    device = backend.capabilities().device
    if backend.capabilities().ring == "interpreted":
        case, _ = shorter(case)
    changed, numbers = case, _numbers(case, device, stored=CONTIGUOUS not in way)
    if CONTIGUOUS in way:
        changed = replace(case, parameters=plain(case.parameters), gradients=plain(case.gradients))
    if OWN in way:
        changed = replace(changed, handing=HANDINGS[0])
    if ALONE in way:
        changed = replace(changed, company=COMPANY[0])
    return measure_steps(backend, changed, judging(backend, contract), numbers)


def _numbers(case: UpdateSpec, device: str, *, stored: bool) -> dict[str, list[float]]:
    """Return the numbers of parameters and gradients, by their positions."""
    gradients = Gradients(case, device)
    found = {name: _listed(item, stored=stored) for name, item in build_parameters(case, device)}
    for step in range(case.steps):
        made = [(name, item) for name, item in gradients.at(step) if item is not None]
        found |= {name: _listed(item, stored=stored) for name, item in made}
    return found


def _listed(item: Guarded, *, stored: bool) -> list[float]:
    """Return the numbers of a tensor, row-major; stored: what an expanded axis holds, once."""
    whole: list[float] = item.numbers() if stored else item.view.flatten().tolist()
    return whole
