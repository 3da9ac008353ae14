"""Calling patterns: repeated calls, tensors with changed numbers, and results that are read late.

A backend may keep something between calls: a buffer for results, a cache by shape or by address, or
a plan for other numbers. A mistake in it does not show in the first call.
`CALLING_PATTERNS` in `equivalence.cases.call` explains each pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from equivalence.answers import gradients, in_memory, is_plain, several
from equivalence.cases.built import Built, build
from equivalence.cases.call import OTHERWISE, Recipe, handed
from equivalence.cases.guard import Guarded, Trespass, controlled
from equivalence.cases.strata.added.otherwise import otherwise
from equivalence.registry import OPS

Results = list[Tensor | None]


def observe(backend: Any, built: Built) -> Results:
    """Call a backend by the calling pattern of a case, and return the results.

    Trespass says that a call wrote to memory of another owner.
    """
    calling = built.case.calling
    if calling == "again":
        _called(backend, built)
    if calling == OTHERWISE:
        _after_other_calls(backend, built)
    if calling == "repeated":
        _after_other_numbers(backend, built)
    results = _called(backend, built)
    return _late(backend, built, results) if calling == "late" else results


def _called(backend: Any, built: Built) -> Results:
    """Make one call with poisoned fresh memory, and check that it wrote nowhere else."""
    results = _answer(backend, built)
    built.check()
    return results


def _answer(backend: Any, built: Built) -> Results:
    case = built.case
    attrs = handed(case.op, case.attributes(), case.dtype)
    with controlled():
        if case.direction == "vjp":
            seeds = [item.view for item in built.cotangents]
            found = backend.vjp(case.op, built.views(), attrs, seeds)
            return gradients(case.op, found, len(case.shapes))
        if case.direction == "value":
            made = backend.value(case.op, built.views(), attrs)
        else:
            tangents = [None if item is None else item.view for item in built.tangents]
            made = backend.jvp(case.op, built.views(), attrs, tangents)
    if OPS[case.op].results is None:
        return [is_plain(f"{case.direction} of {case.op}", made)]
    return several(f"{case.direction} of {case.op}", made, list(case.results()))


def _after_other_numbers(backend: Any, built: Built) -> None:
    """Make one call on the same tensors with other numbers."""
    own = [item.copied() for item in _memory(built)]
    _exchange(built, _memory(_other(built)))
    _called(backend, built)
    _exchange(built, own)


def _after_other_calls(backend: Any, built: Built) -> None:
    """Make calls of the same shapes whose attributes, strides or dtypes are other ones.

    They may refuse or fail: what they give is judged where they are cases of their own.
    """
    for other in otherwise(built.case, backend.capabilities().ops.get(built.case.op, ())):
        try:
            _called(backend, build(other, built.device))
        except Trespass:
            raise
        except Exception:
            continue


def _late(backend: Any, built: Built, results: Results) -> Results:
    """Read the results after another call, when the inputs hold other numbers.

    If a result is a view of an input, as that of `reshape` may be, the inputs keep their numbers.
    """
    other = _other(built)
    _called(backend, other)
    kept = [item.copied() for item in _memory(built)]
    if not any(_lies_in(result, built) for result in results):
        _exchange(built, _memory(other))
    seen: Results = [in_memory(r) if isinstance(r, Tensor) else r for r in results]
    _exchange(built, kept)
    return seen


def _lies_in(result: object, built: Built) -> bool:
    """Say whether a result shares memory with a tensor of the case."""
    if not isinstance(result, Tensor):
        return False
    where = result.untyped_storage().data_ptr()
    return any(where == item.base.untyped_storage().data_ptr() for item in _memory(built))


def _memory(built: Built) -> list[Guarded]:
    """Return the tensors of a case."""
    return [item for _, item in built.tensors()]


def _exchange(built: Built, others: Sequence[Guarded]) -> None:
    """Fill the tensors of a case with the numbers of other tensors of the same form."""
    for item, other in zip(_memory(built), others, strict=True):
        item.take(other)


def _other(built: Built) -> Built:
    """Construct tensors of the same form and distributions, with other numbers."""

    def reseeded(recipe: Recipe) -> Recipe:
        return replace(recipe, seed=recipe.seed + 1)

    case = built.case
    changed: dict[str, Any] = {name: reseeded(recipe) for name, recipe in case.seeds()}
    recipes = tuple(map(reseeded, case.recipes))
    return build(replace(case, recipes=recipes, **changed), built.device)
