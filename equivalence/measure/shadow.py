"""The steps of a case, taken by a backend, with a reference in its shadow.

Before every step the reference takes over the backend's own parameters and state, exactly, and
judges the one step that follows.  So errors never pile up into a wide budget, and a wrong update is
found at the step that makes it.
A parameter that gets no gradient must keep value, state and step, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equivalence.budgets.outcome import Outcome, merged, mismatch
from equivalence.cases.built import Numbers
from equivalence.cases.guard import Trespass, controlled
from equivalence.cases.updates import UpdateSpec, build_gradients, build_parameters
from equivalence.measure.call import Judge, compare, crash_text
from equivalence.measure.reference import Expected
from spec.optim import OPTIMIZERS


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of everything that an optimizer holds."""

    params: tuple[Tensor, ...]
    state: Mapping[str, tuple[Tensor | None, ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """One update of one parameter: what there was before, and what there is after.

    gradients are those of all parameters at this step; count is the number of updates the parameter
    had before; updated says whether it had one here.
    """

    number: int
    parameter: int
    before: Snapshot
    gradients: tuple[Tensor | None, ...]
    after: Snapshot
    count: int
    updated: bool

    def moments(self, optimizer: str) -> dict[str, Tensor | None]:
        """Return the parameter's moments before the step, None where there are none yet."""
        k, state = self.parameter, self.before.state
        return {
            field: state[field][k] if self.updated and field in state else None
            for field in OPTIMIZERS[optimizer].moments
        }


def snapshot(handle: Any) -> Snapshot:
    """Copy what an optimizer holds, to the host."""
    state = {
        field: tuple(None if t is None else torch.as_tensor(t).detach().cpu().clone() for t in row)
        for field, row in handle.state().items()
    }
    return Snapshot(tuple(p.detach().cpu().clone() for p in handle.params()), state)


def measure_steps(
    backend: Any,
    case: UpdateSpec,
    judge: Callable[[Step], Outcome],
    numbers: Numbers | None = None,
) -> Outcome:
    """Step a backend through a case; the first failing step ends it."""
    total = Outcome()
    try:
        for part in _parts(backend, case, judge, numbers):
            total = merged(total, part)
            if part.failed:
                break
    except Trespass as trespass:
        return replace(total, fraction=math.inf, problem=str(trespass))
    except Exception as error:
        return replace(total, crash=crash_text(error))
    return total


def _parts(
    backend: Any, case: UpdateSpec, judge: Callable[[Step], Outcome], numbers: Numbers | None
) -> Iterator[Outcome]:
    """Step the backend, and yield the verdict on each parameter after each step."""
    device = backend.capabilities().device
    params = [item.view for _, item in build_parameters(case, device, numbers)]
    with controlled():
        handle = backend.optimizer(case.optimizer, params, case.settings())
    counts = [case.start_step] * len(params)
    for number in range(case.steps):
        before = snapshot(handle)
        guarded = build_gradients(case, number, device, numbers)
        with controlled():
            handle.step([None if item is None else item.view for _, item in guarded])
        after = snapshot(handle)
        gradients = tuple(None if item is None else item.view.cpu() for _, item in guarded)
        for k, (position, item) in enumerate(guarded):
            if item is None:
                yield _untouched(before, after, k, number)
                continue
            item.check(position)
            updated = counts[k] > 0
            yield judge(Step(number, k, before, gradients, after, counts[k], updated))
            counts[k] += 1


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
        if not _same_bits(old[k], new[k]):
            problem = f"after step {step}, {field} of parameter {k} changed without a gradient"
            return mismatch(problem)
    return Outcome()


def _same_bits(old: Tensor | None, new: Tensor | None) -> bool:
    """Compare two tensors bit for bit; a state that appears as zeros counts as none."""
    if old is None or new is None:
        present = new if old is None else old
        return present is None or not bool(torch.any(present != 0))
    return torch.equal(
        old.contiguous().flatten().view(torch.uint8), new.contiguous().flatten().view(torch.uint8)
    )
