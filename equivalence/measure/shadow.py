"""Run the steps of an optimizer case on a backend. The reference follows it step by step.

Before every judged step the reference copies the backend's own parameters and state exactly. Then
it judges this one step. So errors never add up to a wide budget, and a wrong update is found at the
step that makes it.
A parameter without a gradient must keep its value, state and step count, bit for bit.
Gradients belong to the caller, so the suite overwrites them as soon as a step returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from equivalence.answers import Malformed
from equivalence.budgets.outcome import Outcome, merged, mismatch
from equivalence.cases.built import Numbers
from equivalence.cases.guard import Guarded, Trespass, controlled
from equivalence.cases.updates.extras import idle_at
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.cases.updates.tensors import Gradients, build_parameters
from equivalence.measure.between.company import company
from equivalence.measure.between.events import (
    OFFERS,
    Snapshot,
    around,
    happen,
    lacking,
    overwrite,
    same_bits,
    snapshot,
    without,
)
from equivalence.measure.call import Judge, compare, crash_text
from equivalence.measure.reference import Expected
from equivalence.registry import OPTIMIZERS


@dataclass(frozen=True, slots=True)
class Step:
    """One update of one parameter, with the tensors before and after it.

    `gradients` are those of all parameters at this step. `count` is the number of the parameter's
    earlier updates, including those of a loaded state. `updated` says whether there were any.
    `idle` are moments of which no update by the parameter's settings knows: whether a handle holds
    them is its own affair.
    """

    number: int
    parameter: int
    before: Snapshot
    gradients: tuple[Tensor | None, ...]
    after: Snapshot
    count: int
    updated: bool
    idle: frozenset[str] = frozenset()

    def moments(self, optimizer: str) -> dict[str, Tensor | None]:
        """Return the parameter's moments before the step. A moment is None before an update."""
        k, state = self.parameter, self.before.state
        return {
            field: state[field][k] if self.updated and field in state else None
            for field in OPTIMIZERS[optimizer].moments
            if field not in self.idle
        }


def measure_steps(
    backend: Any,
    case: UpdateSpec,
    judge: Callable[[Sequence[Step], UpdateSpec], Outcome],
    numbers: Numbers | None = None,
) -> Outcome:
    """Step a backend through a case. The first failing step ends the case."""
    total, judge = Outcome(), _Judged(judge)
    try:
        for part in parts(backend, case, judge, numbers):
            total = merged(total, part)
            if part.failed:
                break
    except (Trespass, Malformed) as trespass:
        return replace(total, fraction=math.inf, problem=str(trespass))
    except NotImplementedError as error:
        return replace(total, refused=f"{type(error).__name__}: {error}")
    except Exception as error:
        return replace(total, crash=crash_text(error), end="fault" if judge.raised else "")
    return total


class _Judged:
    """A judge, and whether it raised: then the exception is not the backend's."""

    def __init__(self, judge: Callable[[Sequence[Step], UpdateSpec], Outcome]) -> None:
        self.judge, self.raised = judge, False

    def __call__(self, steps: Sequence[Step], case: UpdateSpec) -> Outcome:
        self.raised = True
        found = self.judge(steps, case)
        self.raised = False
        return found


def parts(
    backend: Any,
    case: UpdateSpec,
    judge: Callable[[Sequence[Step], UpdateSpec], Outcome],
    numbers: Numbers | None = None,
) -> Iterator[Outcome]:
    """Step the backend, and yield the verdict on each parameter after each step.

    What the backend raises is passed on.
    """
    device = backend.capabilities().device
    params = build_parameters(case, device, numbers)
    with controlled():
        handle = backend.optimizer(
            case.optimizer, [item.view for _, item in params], case.settings()
        )
    case, outcome = offered(case, lacking(handle, case))
    yield outcome
    yield merged(*_taken_over(params, handle))
    if case.grad_scale != 1.0:
        handle.set_grad_scale(case.grad_scale)
    in_turn = company(backend, case)
    counts = [case.start_step] * len(params)
    judged, gradients = case.judged(), Gradients(case, device, numbers)
    for number in range(case.steps):
        for event in case.before(number):
            problem = happen(handle, case, event, counts, device)
            if problem:
                yield mismatch(f"before step {number}: {problem}")
        in_turn()
        before = snapshot(handle) if number in judged else None
        guarded = gradients.at(number)
        given = () if before is None else _copies(guarded)
        with controlled():
            handle.step([None if item is None else item.view for _, item in guarded])
        _given_back(guarded)
        if before is not None:
            after = snapshot(handle)
            for (name, item), held in zip(params, after.params, strict=True):
                around(item, held, name)
            yield merged(
                *(_untouched(before, after, k, number) for k, g in enumerate(given) if g is None)
            )
            yield judge(
                [
                    Step(
                        number, k, before, given, after, count, count > 0, idle_at(case, k, number)
                    )
                    for k, count in enumerate(counts)
                    if given[k] is not None
                ],
                case,
            )
        counts = [n + (item is not None) for n, (_, item) in zip(counts, guarded, strict=True)]


def _taken_over(params: Sequence[tuple[str, Guarded]], handle: Any) -> Iterator[Outcome]:
    """Check that a handle starts from the given numbers, since steps continue from its own."""
    for (name, item), held in zip(params, snapshot(handle).params, strict=True):
        if not same_bits(item.view, held):
            yield mismatch(f"{name}: before the first step the handle holds other numbers")


def offered(case: UpdateSpec, lacks: Sequence[str]) -> tuple[UpdateSpec, Outcome]:
    """Leave the use of missing methods out of a case, and say so."""
    if not lacks:
        return case, Outcome()
    events = tuple(event for event in case.events if OFFERS[event.kind] not in lacks)
    hyper = case.hyper
    if "set_grad_scale" in lacks:
        hyper = tuple(pair for pair in hyper if pair[0] != "grad_scale")
    left_out = tuple(map(without, lacks))
    return replace(case, events=events, hyper=hyper), Outcome(left_out=left_out)


def _copies(guarded: Sequence[tuple[str, Guarded | None]]) -> tuple[Tensor | None, ...]:
    """Copy the given gradients to the host."""
    return tuple(None if item is None else item.view.cpu().clone() for _, item in guarded)


def _given_back(guarded: Sequence[tuple[str, Guarded | None]]) -> None:
    """Check that the given gradients are unchanged, and overwrite them as their owner."""
    given = {id(item): (name, item) for name, item in guarded if item is not None}
    for name, item in given.values():
        item.check(name)
    for _, item in given.values():
        overwrite(item)


def judge_step(step: Step, expected: Expected, judge: Judge) -> Outcome:
    """Judge one parameter and its state after a step."""
    k, after, when = step.parameter, step.after, f"after step {step.number}, "
    names: list[str] = []
    results: list[Tensor | None] = []
    allowed: list[Any] = []
    for field, tensor in expected.tensors.items():
        if tensor is None:
            continue
        row = after.params if field == "parameter" else after.state.get(field, ())
        found = row[k] if k < len(row) else None
        if found is None:
            problem = f"{when}{field} of parameter {k}: expected a tensor, got nothing"
            return mismatch(problem)
        names.append(f"{when}{'' if field == 'parameter' else field + ' of '}parameter {k}")
        results.append(found)
        allowed.append(tensor)
    outcome = compare(names, results, allowed, judge)
    if expected.step is None:
        return outcome
    counts: Sequence[Tensor | None] = after.state.get("step", ())
    count = counts[k] if k < len(counts) else None
    if count is None or int(count) != expected.step:
        problem = f"{when}step of parameter {k}: expected {expected.step}, got {count}"
        return replace(outcome, fraction=math.inf, problem=problem)
    return outcome


def _untouched(before: Snapshot, after: Snapshot, k: int, step: int) -> Outcome:
    """Check that a parameter without a gradient kept everything it had."""
    rows: list[tuple[str, Sequence[Tensor | None], Sequence[Tensor | None]]]
    rows = [("parameter", before.params, after.params)]
    rows += [(field, row, after.state.get(field, row)) for field, row in before.state.items()]
    for field, old, new in rows:
        if not same_bits(old[k], new[k]):
            problem = f"after step {step}, {field} of parameter {k} changed without a gradient"
            return mismatch(problem)
    return Outcome()
