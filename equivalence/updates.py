"""One optimizer case, measured: several steps, every parameter and every state tensor at each.

The reference shadows the backend: before every step it takes over the backend's own parameters and
state, exactly, and judges the one step that follows.  So errors never pile up into a wide budget,
and a wrong update is found at the step that makes it.
A parameter that gets no gradient must keep value, state and step, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from equivalence.cases import Numbers
from equivalence.guard import Trespass, controlled
from equivalence.measure import Judge, compare, crash_text, judge_live
from equivalence.outcome import Outcome, merged
from equivalence.update_cases import UpdateSpec, build_gradients, build_parameters

if TYPE_CHECKING:
    from equivalence.contract import Contract

MOMENTS: dict[str, tuple[str, ...]] = {
    "sgd": ("momentum_buffer",),
    "adamw": ("exp_avg", "exp_avg_sq"),
}
"""The state fields that are tensors of the parameter's shape; adamw also counts its steps."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of everything that an optimizer holds."""

    params: tuple[Tensor, ...]
    state: Mapping[str, tuple[Tensor | None, ...]]


@dataclass(frozen=True, slots=True)
class Expected:
    """What one step may leave of one parameter: its value, its moments, its step count."""

    tensors: Mapping[str, Any]
    step: int | None


def snapshot(handle: Any) -> Snapshot:
    """Copy what an optimizer holds, to the host."""
    state = {
        field: tuple(None if t is None else torch.as_tensor(t).detach().cpu().clone() for t in row)
        for field, row in handle.state().items()
    }
    return Snapshot(tuple(p.detach().cpu().clone() for p in handle.params()), state)


def hyper_record(optimizer: str, hyper: Mapping[str, Any]) -> Any:
    """Return the reference's record of hyper-parameters."""
    from spec.optim import adamw, sgd

    return sgd.Sgd(**hyper) if optimizer == "sgd" else adamw.AdamW(**hyper)


def reference_state(optimizer: str, moments: Mapping[str, Any], step: int) -> Any:
    """Return the reference's state from lifted moments; None stands for "not yet"."""
    from spec.optim import adamw, sgd

    if optimizer == "sgd":
        return sgd.State(moments["momentum_buffer"])
    return adamw.State(moments["exp_avg"], moments["exp_avg_sq"], step)


def reference_update(optimizer: str, parameter: Any, gradient: Any, state: Any, hyper: Any) -> Any:
    """Run one step of the reference on lifted tensors."""
    from spec.optim import adamw, sgd

    module: Any = sgd if optimizer == "sgd" else adamw
    return module.update(parameter, gradient, state, hyper)


def expected_step(
    optimizer: str,
    parameter: Tensor,
    gradient: Tensor,
    moments: Mapping[str, Tensor | None],
    step: int,
    hyper: Mapping[str, Any],
    contract: Contract,
) -> Expected:
    """Return what the contract allows after one step from the given numbers."""
    from equivalence.oracle import lift_one
    from equivalence.worlds.arithmetic import Arithmetic

    arithmetic = Arithmetic(contract)
    lifted = {field: None if t is None else lift_one(t, arithmetic) for field, t in moments.items()}
    p, g = lift_one(parameter, arithmetic), lift_one(gradient, arithmetic)
    return advance(optimizer, p, g, lifted, step, hyper)


def advance(
    optimizer: str,
    parameter: Any,
    gradient: Any,
    moments: Mapping[str, Any],
    step: int,
    hyper: Mapping[str, Any],
) -> Expected:
    """Run one step of the reference on lifted tensors, and round what it leaves to storage."""
    start = {
        field: _nothing(optimizer, parameter) if moment is None else moment
        for field, moment in moments.items()
    }
    state = reference_state(optimizer, start, step)
    record = hyper_record(optimizer, hyper)
    return stored_result(
        optimizer, *reference_update(optimizer, parameter, gradient, state, record)
    )


def _nothing(optimizer: str, like: Any) -> Any:
    """Return a moment before the first step: zeros for adamw, None for sgd."""
    from spec.op import zeros_like

    return None if optimizer == "sgd" else zeros_like(like)


def stored_result(optimizer: str, parameter: Any, state: Any) -> Expected:
    """Round what a step leaves to storage."""
    from equivalence.worlds.bounded import stored

    tensors = {"parameter": parameter.map(stored)}
    for field in MOMENTS[optimizer]:
        moment = getattr(state, field)
        tensors[field] = None if moment is None else moment.map(stored)
    return Expected(tensors, getattr(state, "step", None))


def measure_update(backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
    """Run the steps of a case and judge each of them against the reference in its shadow."""

    def judge(step: Step) -> Outcome:
        k, before = step.parameter, step.before
        moments = {
            field: before.state[field][k] if step.updated and field in before.state else None
            for field in MOMENTS[case.optimizer]
        }
        expected = expected_step(
            case.optimizer,
            before.params[k],
            step.gradient,
            moments,
            step.count,
            case.hyper_parameters(),
            contract,
        )
        return judge_step(step, expected, judge_live)

    return measure_steps(backend, case, judge)


@dataclass(frozen=True, slots=True)
class Step:
    """One update of one parameter: what there was before, its gradient, and what there is after.

    count is the number of updates the parameter had before; updated says whether it had one here.
    """

    number: int
    parameter: int
    before: Snapshot
    gradient: Tensor
    after: Snapshot
    count: int
    updated: bool


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
        handle = backend.optimizer(case.optimizer, params, dict(case.hyper))
    counts = [case.start_step] * len(params)
    for number in range(case.steps):
        before = snapshot(handle)
        guarded = build_gradients(case, number, device, numbers)
        with controlled():
            handle.step([None if item is None else item.view for _, item in guarded])
        after = snapshot(handle)
        for k, (position, item) in enumerate(guarded):
            if item is None:
                yield _untouched(before, after, k, number)
                continue
            item.check(position)
            updated = counts[k] > 0
            yield judge(Step(number, k, before, item.view.cpu(), after, counts[k], updated))
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
            return Outcome(fraction=math.inf, problem=problem)
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
            return Outcome(fraction=math.inf, problem=problem)
    return Outcome()


def _same_bits(old: Tensor | None, new: Tensor | None) -> bool:
    """Compare two tensors bit for bit; a state that appears as zeros counts as none."""
    if old is None or new is None:
        present = new if old is None else old
        return present is None or not bool(torch.any(present != 0))
    return torch.equal(
        old.contiguous().flatten().view(torch.uint8), new.contiguous().flatten().view(torch.uint8)
    )
