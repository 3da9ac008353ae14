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

from equivalence.budgets.outcome import Outcome, merged
from equivalence.cases.call import Numbers
from equivalence.cases.guard import Trespass, controlled
from equivalence.cases.updates import UpdateSpec, build_gradients, build_parameters
from equivalence.measure.call import Judge, compare, crash_text, judge_live
from spec.op import zeros_like
from spec.optim import adam, adamw, clip, sgd

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract

MOMENTS: dict[str, tuple[str, ...]] = {
    "sgd": ("momentum_buffer",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
}
"""The state fields that are tensors of the parameter's shape."""

COUNTED = ("adam", "adamw")
"""The optimizers that count the steps of each parameter."""

PAGES: dict[str, tuple[Any, Any]] = {
    "sgd": (sgd, sgd.Sgd),
    "adam": (adam, adam.Adam),
    "adamw": (adamw, adamw.AdamW),
}
"""The page of each optimizer, and its record of hyper-parameters."""


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


def reference_step(
    optimizer: str,
    parameter: Any,
    gradient: Any,
    moments: Mapping[str, Any],
    step: int,
    hyper: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Run one step of the reference on tensors of its worlds; a moment of None is "not yet"."""
    page, record = PAGES[optimizer]
    start: dict[str, Any] = dict(moments)
    if optimizer in COUNTED:
        nothing = zeros_like(parameter)
        start = {field: nothing if m is None else m for field, m in moments.items()}
        start["step"] = step
    return page.update(parameter, gradient, page.State(**start), record(**hyper))  # type: ignore[no-any-return]


def scaled_gradients(gradients: Sequence[Any], max_norm: float | None) -> list[Any]:
    """Clip the gradients of one step, tensors of the reference's worlds or None."""
    if max_norm is None:
        return list(gradients)
    scaled = iter(clip.clipped([g for g in gradients if g is not None], max_norm))
    return [None if g is None else next(scaled) for g in gradients]


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
    from equivalence.budgets.oracle import lift_one
    from equivalence.worlds.arithmetic import Arithmetic

    arithmetic = Arithmetic(contract)
    lifted = {field: None if t is None else lift_one(t, arithmetic) for field, t in moments.items()}
    decayed = decays_gradient(optimizer, hyper)
    p, g = lift_one(parameter, arithmetic), unsettled(lift_one(gradient, arithmetic), decayed)
    return advance(optimizer, p, g, lifted, step, hyper)


def unsettled(value: Any, decayed: bool) -> Any:
    """Let no operation on exact numbers count as exact, except on 0.

    An update may take (c g) g where the reference takes c (g g); only one of these may be exact.
    Both are 0 where g is, and a ball around 0 would have no root, and leave the element unjudged;
    not so where weight decay adds a multiple of the parameter to the gradient.
    """

    import flint

    from equivalence.worlds.bounded import Bounded

    def lifted(x: Bounded) -> Bounded:
        settled = x.v.is_zero() and not decayed
        return x if settled else Bounded(x.v, flint.arb(x.v), x.arithmetic)

    return value.map(lifted)


def decays_gradient(optimizer: str, hyper: Mapping[str, object]) -> bool:
    """Say whether an update adds a multiple of the parameter to its gradient."""
    return optimizer != "adamw" and bool(hyper.get("weight_decay"))


def advance(
    optimizer: str,
    parameter: Any,
    gradient: Any,
    moments: Mapping[str, Any],
    step: int,
    hyper: Mapping[str, Any],
) -> Expected:
    """Run one step of the reference on lifted tensors, and round what it leaves to storage."""
    from equivalence.worlds.bounded import stored

    left, state = reference_step(optimizer, parameter, gradient, moments, step, hyper)
    tensors = {"parameter": left.map(stored)}
    for field in MOMENTS[optimizer]:
        moment = getattr(state, field)
        tensors[field] = None if moment is None else moment.map(stored)
    return Expected(tensors, getattr(state, "step", None))


def measure_update(backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
    """Run the steps of a case and judge each of them against the reference in its shadow."""

    def judge(step: Step) -> Outcome:
        if case.spoiled:
            from equivalence.measure.spoiled import judge_spoiled

            return judge_spoiled(step, case, contract)
        from equivalence.budgets.oracle import lift_one
        from equivalence.worlds.arithmetic import Arithmetic

        arithmetic = Arithmetic(contract)

        def lift(tensor: Tensor | None) -> Any:
            return None if tensor is None else lift_one(tensor, arithmetic)

        expected = advance(
            case.optimizer,
            lift(step.before.params[step.parameter]),
            scaled_gradients(list(map(lift, step.gradients)), case.max_norm)[step.parameter],
            {field: lift(moment) for field, moment in step.moments(case.optimizer).items()},
            step.count,
            case.hyper_parameters(step.parameter),
        )
        return judge_step(step, expected, judge_live)

    return measure_steps(backend, case, judge)


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
            for field in MOMENTS[optimizer]
        }


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
