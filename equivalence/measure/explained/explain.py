"""An outcome with what explains it: the inputs of the bad element, and what such elements share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from equivalence.budgets.outcome import Detail, Outcome, Over, Wrong
from equivalence.budgets.reading import numbers
from equivalence.cases.built import Built
from equivalence.dtypes import DTYPES
from equivalence.measure.explained.common import in_common
from equivalence.measure.explained.inputs import shown
from equivalence.registry import OPS

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract

Needs = Callable[[str, tuple[int, ...]], Mapping[str, frozenset[tuple[int, ...]]] | None]
"""Says, of a result's name and an index, which entries of each tensor the element depends on."""


def explained(
    outcome: Outcome,
    tensors: Mapping[str, Tensor],
    dtype: str,
    needs: Needs,
    names: Sequence[str] = (),
) -> Outcome:
    """Return an outcome whose detail says what the element was made of, and what is common.

    tensors   what the backend was given, by name
    dtype     the name of the dtype of the case
    needs     says what an element depends on
    names     the results that were judged, if all of them are known
    """
    bare = replace(outcome, wrong=())
    if bare.detail is None:
        return bare
    try:
        detail = _told(outcome, bare.detail, tensors, dtype, needs, names)
    except Exception as error:
        # The verdict stands without it, and a row must not be lost to a sentence.
        said = f"what is common could not be said: {type(error).__name__}: {error}"
        detail = replace(bare.detail, common=(said,))
    return replace(bare, detail=detail)


def _told(
    outcome: Outcome,
    detail: Detail,
    tensors: Mapping[str, Tensor],
    dtype: str,
    needs: Needs,
    names: Sequence[str],
) -> Detail:
    """Return a detail with the inputs of its element, and with what such elements share."""
    found = next((each for each in outcome.wrong if each.result == detail.result), None)
    shape = () if found is None else found.judged.shape
    inputs = shown(tensors, detail.index, shape, needs(detail.result, detail.index))
    common = () if found is None else _common(found, tensors, dtype)
    beside = (*_results(outcome.over, names), *_kinds(outcome.over, detail.result))
    return replace(detail, inputs=inputs, common=(*common, *beside))


def explained_call(
    outcome: Outcome, built: Built, names: Sequence[str], contract: Contract | None
) -> Outcome:
    """Return the outcome of a call with what explains it; without a contract the page is not asked.

    names are those of all results, in the page's order.
    """

    def needs(result: str, place: tuple[int, ...]) -> Mapping[str, frozenset[Any]] | None:
        if contract is None or result not in names:
            return None
        from equivalence.measure.explained.needs import needed

        return needed(built, names.index(result), place, contract)

    case = built.case
    views = {name: item.view for name, item in built.tensors()}
    whole = case.direction == "vjp"
    differentiable = [name for k, name in enumerate(names) if k not in OPS[case.op].index_inputs]
    return explained(outcome, views, case.dtype, needs, differentiable if whole else names)


def _common(wrong: Wrong, tensors: Mapping[str, Tensor], dtype: str) -> tuple[str, ...]:
    arrays = {name: numbers(t).astype(float) for name, t in tensors.items() if t.numel()}
    least = DTYPES[dtype].store.min_normal
    return in_common(wrong.failing, wrong.judged, arrays, least)


def _results(over: Sequence[Over], names: Sequence[str]) -> tuple[str, ...]:
    """Say which result alone is wrong, where others were judged beside it."""
    bad = {entry.result for entry in over}
    good = [name for name in names if name not in bad]
    if len(bad) != 1 or not good:
        return ()
    return (f"only {bad.pop()} is over budget, and not {' or '.join(good)}",)


def _kinds(over: Sequence[Over], result: str) -> tuple[str, ...]:
    """Say what every wrong element of a result is, where that is no usual number."""
    own = {(entry.got, entry.exact) for entry in over if entry.result == result}
    count = sum(entry.count for entry in over if entry.result == result)
    got, exact = own.pop() if len(own) == 1 else ("", "")
    words = {"nan": "NaN", "inf": "infinite", "zero": "0"}
    if got not in words or got == exact or count < 2:
        return ()
    due = {"finite": "a normal number", "several": "something else"}.get(exact, words.get(exact))
    return (
        f"each of the {count} elements over budget is {words[got]} where {due or exact} is due",
    )
