"""Measure one case: run the backend, ask the oracle for bounds, and compare the results with them.

Only `expectation` needs the oracle's libraries. So a replay can judge recorded expectations on a
machine that has only torch.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from equivalence.answers import Malformed, in_memory
from equivalence.budgets.outcome import Outcome, merged, mismatch
from equivalence.cases.built import Built, build
from equivalence.cases.call import CaseSpec, Shape, dtype_of_result
from equivalence.cases.guard import Trespass
from equivalence.conventions import pages
from equivalence.measure.calling import observe
from equivalence.measure.explained.explain import explained_call
from equivalence.measure.kept import answered
from equivalence.measure.spent import of_oracle
from equivalence.registry import OPS
from spec.op import Op
from spec.several import unpacked

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract

Judge = Callable[[Tensor, Any], Outcome]

Expectation = Sequence[Any]
"""One expected tensor per result. It is None for the gradient of an index input."""


def result_names(case: CaseSpec) -> list[str]:
    """Return the names of a case's results in failures."""
    if case.direction != "vjp":
        what = "result" if case.direction == "value" else "tangent"
        if OPS[case.op].results is None:
            return [what]
        return [f"{what} {k} ({name})" for k, name in enumerate(case.results())]
    return [f"gradient of {name}" for name in OPS[case.op].names(len(case.shapes))]


def result_shapes(case: CaseSpec) -> list[Shape | None]:
    """Return the shapes of the results. The shape is None if there must be no result."""
    if case.direction != "vjp":
        return [tuple(each.shape) for each in case.results().values()]
    integer = OPS[case.op].index_inputs
    return [None if k in integer else shape for k, shape in enumerate(case.shapes)]


@of_oracle
def expectation(built: Built, contract: Contract, page: Op | None = None) -> Expectation:
    """Ask the oracle for the results of a case that the contract allows.

    The page of the operation is the reference, unless another page is given. The oracle answers for
    several results at once, and its answer is taken apart.
    """
    from equivalence.budgets import oracle

    case = built.case
    page = OPS[case.op] if page is None else page
    inputs = [view.cpu() for view in built.views()]
    attrs = case.attributes()
    if built.cotangent is not None:
        found: Expectation = oracle.expected_vjp(
            page, inputs, attrs, [built.cotangent.cpu()], contract
        )
        return found
    if case.direction == "value":
        whole = oracle.expected_value(page, inputs, attrs, contract)
    else:
        tangents = [None if item is None else item.view.cpu() for item in built.tangents]
        whole = oracle.expected_jvp(page, inputs, attrs, tangents, contract)
    return [whole] if page.results is None else list(unpacked(whole, case.results()).values())


def shape_problem(
    names: Sequence[str],
    shapes: Sequence[Shape | None],
    dtype: torch.dtype,
    results: Sequence[Tensor | None],
) -> str | None:
    """Describe a wrong count, type, shape or dtype of the results, or return None."""
    if len(results) != len(shapes):
        return f"expected {len(shapes)} results, got {len(results)}"
    for name, shape, result in zip(names, shapes, results, strict=True):
        if shape is None and result is not None:
            return f"{name}: an index input has no gradient, got one"
        if shape is None:
            continue
        if not isinstance(result, Tensor):
            return f"{name}: expected a tensor, got {type(result).__name__}"
        if tuple(result.shape) != shape:
            return f"{name}: expected shape {list(shape)}, got {list(result.shape)}"
        if result.dtype != dtype:
            return f"{name}: expected {dtype}, got {result.dtype}"
    return None


@of_oracle
def judge_live(result: Tensor, allowed: Any) -> Outcome:
    """Judge a result by an expectation that is not recorded."""
    from equivalence.budgets.judge import judge_tensor

    return judge_tensor(result, allowed)


def compare(
    names: Sequence[str],
    results: Sequence[Tensor | None],
    expected: Expectation,
    judge: Judge = judge_live,
) -> Outcome:
    """Judge every element of every result."""
    return merged(
        *(
            judge(in_memory(result), allowed).named(name)
            for name, result, allowed in zip(names, results, expected, strict=True)
            if result is not None and allowed is not None
        )
    )


def measure(backend: Any, case: CaseSpec, contract: Contract) -> Outcome:
    """Run one case on a backend and judge it. The backend runs before the oracle."""
    built = build(case, backend.capabilities().device)

    def ask(page: Op) -> Expectation:
        kept: Expectation = answered(
            case, page, contract, partial(expectation, built, contract, page)
        )
        return kept

    return _measured(backend, built, contract, ask)


def measure_built(backend: Any, built: Built, contract: Contract) -> Outcome:
    """Run a case whose tensors hold numbers of their own, and judge it."""
    return _measured(backend, built, contract, partial(expectation, built, contract))


def _measured(
    backend: Any, built: Built, contract: Contract, ask: Callable[[Op], Expectation]
) -> Outcome:
    """Run a call, and judge it by each page that the backend may follow."""
    case = built.case
    results = attempt(backend, built)
    if isinstance(results, Outcome):
        return results
    outcomes: list[Outcome] = []
    for page in pages(case.op, backend.capabilities().conventions):
        outcome = compare(result_names(case), results, ask(page))
        if not outcome.failed:
            return outcome
        outcomes.append(outcome)
    return explained_call(outcomes[0], built, result_names(case), contract)


def attempt(backend: Any, built: Built) -> list[Tensor | None] | Outcome:
    """Run one case on a backend. Without results to judge, return an Outcome with the reason."""
    case = built.case
    try:
        results = observe(backend, built)
    except (Trespass, Malformed) as broken:
        return mismatch(str(broken))
    except NotImplementedError as error:
        return refused(built, error)
    except Exception as error:
        return Outcome(crash=crash_text(error))
    problem = shape_problem(result_names(case), result_shapes(case), dtype_of_result(case), results)
    if problem is not None:
        return mismatch(problem)
    return results


def refused(built: Built, error: NotImplementedError) -> Outcome:
    """Return the outcome of a call that a backend refuses; it may have written nowhere."""
    try:
        built.check()
    except Trespass as broken:
        return mismatch(str(broken))
    return Outcome(refused=f"{type(error).__name__}: {error}")


def crash_text(error: Exception) -> str:
    """Return an exception as text, with the last three frames of its traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__}: {error} (in {places})"
