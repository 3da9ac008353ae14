"""One optimizer case, measured: several steps, every parameter and every state tensor at each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from equivalence.budgets.outcome import Outcome, merged, mismatch
from equivalence.cases.updates.shorter import shorter
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.distinct import Distinct, distinct, judge_kinds
from equivalence.measure.reference import Expected, advance, scaled_gradients
from equivalence.measure.shadow import Step, measure_steps
from spec.tensor import Tensor as SpecTensor

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract


def measure_update(backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
    """Run the steps of a case and judge each of them against the reference in its shadow."""
    left_out: tuple[str, ...] = ()
    if backend.capabilities().ring == "interpreted":
        case, left_out = shorter(case)
    outcome = measure_steps(backend, case, Judging(contract))
    return replace(outcome, left_out=(*outcome.left_out, *left_out))


class Judging:
    """The judgement of steps by a contract; what the parameters of one step share is kept."""

    def __init__(self, contract: Contract) -> None:
        """Start before the first step."""
        from equivalence.worlds.arithmetic import Arithmetic

        self.contract = contract
        self.arithmetic = Arithmetic(contract)
        self.number = -1
        self.finite = True
        self.clipped: list[Any] = []

    def __call__(self, steps: Sequence[Step], case: UpdateSpec) -> Outcome:
        """Judge the parameters of one step."""
        outcomes: list[Outcome] = []
        alike: dict[Any, list[tuple[Step, Distinct]]] = {}
        if steps:
            self._start(steps[0], case)
        for step in steps:
            held = _held(step, case)
            problem = _shape_problem(step, held)
            if problem:
                return mismatch(problem)
            kinds = distinct([*held.values(), there(step.gradients[step.parameter])])
            if not (kinds.finite and self.finite):
                from equivalence.measure.spoiled import judge_spoiled

                outcomes.append(judge_spoiled(step, case, kinds, self.arithmetic))
                continue
            hyper = tuple(case.hyper_parameters(step.parameter, step.number).items())
            alike.setdefault((hyper, step.count, *held), []).append((step, kinds))
        return merged(*outcomes, *(self._judge(found, case) for found in alike.values()))

    def _judge(self, alike: Sequence[tuple[Step, Distinct]], case: UpdateSpec) -> Outcome:
        """Judge parameters that a step treats alike, by one step of the reference."""
        one = alike[0][0]
        fields = one.moments(case.optimizer)

        def joined(field: str) -> Any:
            parts = [kinds.rows(_held(step, case).get(field)) for step, kinds in alike]
            return None if parts[0] is None else self._lift(torch.cat(list(map(there, parts))))

        gradient = [g for step, kinds in alike for g in self._gradient(step, case, kinds).data]
        expected = advance(
            case.optimizer,
            joined("parameter"),
            SpecTensor((len(gradient),), gradient),
            {field: joined(field) for field in fields},
            one.count,
            case.hyper_parameters(one.parameter, one.number),
        )
        outcomes: list[Outcome] = []
        start = 0
        for step, kinds in alike:
            part = slice(start, start + len(kinds.first))
            own = {
                field: None if t is None else SpecTensor((len(kinds.first),), t.data[part])
                for field, t in expected.tensors.items()
            }
            outcomes.append(judge_kinds(step, Expected(own, expected.step), kinds))
            start = part.stop
        return merged(*outcomes)

    def _lift(self, tensor: Tensor | None) -> Any:
        from equivalence.budgets.oracle import lift_one

        return None if tensor is None else lift_one(tensor, self.arithmetic)

    def _start(self, step: Step, case: UpdateSpec) -> None:
        """Clip the gradients of a step, if they are and all are finite."""
        self.number, self.finite = step.number, True
        if case.max_norm is None:
            return
        self.finite = all(g is None or bool(torch.isfinite(g).all()) for g in step.gradients)
        if self.finite:
            # Zeros add nothing to a norm: one of each gradient stands for all.
            lifted = [None if g is None else self._lift(_kept(g)) for g in step.gradients]
            self.clipped = scaled_gradients(lifted, case.max_norm, case.grad_scale)

    def _gradient(self, step: Step, case: UpdateSpec, kinds: Distinct) -> Any:
        """Return the gradient of each kind of elements, divided and clipped."""
        own = there(step.gradients[step.parameter])
        if case.max_norm is None:
            rows = self._lift(kinds.rows(own))
            return scaled_gradients([rows], None, case.grad_scale)[0]
        places = _places(own)[kinds.first]
        scaled = self.clipped[step.parameter].data
        return SpecTensor((len(places),), [scaled[place] for place in places])


def there(tensor: Tensor | None) -> Tensor:
    """Return a tensor that is known to be there."""
    assert tensor is not None
    return tensor


def _held(step: Step, case: UpdateSpec) -> dict[str, Tensor]:
    """Return what a parameter had before a step: its value, and the moments that there were."""
    moments = step.moments(case.optimizer).items()
    found = {field: moment for field, moment in moments if moment is not None}
    return {"parameter": step.before.params[step.parameter], **found}


def _shape_problem(step: Step, held: Mapping[str, Tensor]) -> str:
    """Say which tensor of a parameter has not the shape of its gradient, if one has not."""
    shape = there(step.gradients[step.parameter]).shape
    for field, tensor in held.items():
        if tensor.shape != shape:
            came = f"expected shape {list(shape)}, got {list(tensor.shape)}"
            return f"before step {step.number}, {field} of parameter {step.parameter}: {came}"
    return ""


def _kept(gradient: Tensor) -> Tensor:
    """Return a zero and then the entries of a gradient that are not 0."""
    flat = gradient.reshape(-1)
    return torch.cat([flat.new_zeros(1), flat[flat != 0]])


def _places(gradient: Tensor) -> Any:
    """Return where each entry of a gradient stands among those that are kept."""
    there = gradient.reshape(-1).double().numpy() != 0
    return np.where(there, np.cumsum(there), 0)
