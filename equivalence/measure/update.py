"""One optimizer case, measured: several steps, every parameter and every state tensor at each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from equivalence.budgets.outcome import Outcome, mismatch, position
from equivalence.cases.updates.shorter import shorter
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.cases.updates.tensors import long
from equivalence.measure.call import judge_live
from equivalence.measure.distinct import Distinct, distinct, numbered
from equivalence.measure.reference import Expected, advance, scaled_gradients
from equivalence.measure.shadow import Step, judge_step, measure_steps
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
        self.clipped: list[Any] = []

    def __call__(self, step: Step, case: UpdateSpec) -> Outcome:
        """Judge one parameter after a step."""
        k = step.parameter
        before, gradient, moments = step.before.params[k], step.gradients[k], step.moments(case.optimizer)
        assert gradient is not None
        held = {field: tensor for field, tensor in moments.items() if tensor is not None}
        for field, tensor in {"parameter": before, **held}.items():
            if tensor.shape != gradient.shape:
                shapes = f"{list(gradient.shape)}, got {list(tensor.shape)}"
                return mismatch(f"before step {step.number}, {field} {k}: expected shape {shapes}")
        kinds = distinct([before, gradient, *held.values()])
        if not (kinds.finite and self._finite_norm(step, case)):
            from equivalence.measure.spoiled import judge_spoiled

            return judge_spoiled(step, case, kinds, self.arithmetic)
        expected = advance(
            case.optimizer,
            self._lift(kinds.rows(before)),
            self._gradient(step, case, kinds),
            {field: self._lift(kinds.rows(moment)) for field, moment in moments.items()},
            step.count,
            case.hyper_parameters(k, step.number),
        )
        return judge_kinds(step, expected, kinds)

    def _lift(self, tensor: Tensor | None) -> Any:
        from equivalence.budgets.oracle import lift_one

        return None if tensor is None else lift_one(tensor, self.arithmetic)

    def _finite_norm(self, step: Step, case: UpdateSpec) -> bool:
        """Say whether every gradient of the norm is finite, if one is clipped."""
        every = step.gradients if case.max_norm is not None else ()
        return all(g is None or bool(torch.isfinite(g).all()) for g in every)

    def _gradient(self, step: Step, case: UpdateSpec, kinds: Distinct) -> Any:
        """Return the gradient of each kind of elements, divided and clipped."""
        own = step.gradients[step.parameter]
        if case.max_norm is None:
            rows = self._lift(kinds.rows(own))
            return scaled_gradients([rows], None, case.grad_scale)[0]
        if step.number != self.number:
            # Zeros add nothing to a norm: one of each gradient stands for all.
            lifted = [None if g is None else self._lift(_kept(g)) for g in step.gradients]
            self.clipped = scaled_gradients(lifted, case.max_norm, case.grad_scale)
            self.number = step.number
        assert own is not None
        places = _places(own)[kinds.first]
        scaled = self.clipped[step.parameter].data
        return SpecTensor((len(places),), [scaled[place] for place in places])


def _kept(gradient: Tensor) -> Tensor:
    """Return a zero and then the entries of a gradient that are not 0."""
    flat = gradient.reshape(-1)
    return torch.cat([flat.new_zeros(1), flat[flat != 0]])


def _places(gradient: Tensor) -> Any:
    """Return where each entry of a gradient stands among those that are kept."""
    there = gradient.reshape(-1).double().numpy() != 0
    return np.where(there, np.cumsum(there), 0)


def judge_kinds(step: Step, expected: Expected, kinds: Distinct) -> Outcome:
    """Judge every element by what is expected of its kind.

    Of a long tensor, elements that are alike, the result too, are judged and counted once.
    """
    shape = tuple(step.before.params[step.parameter].shape)

    def judge(result: Tensor, allowed: Any) -> Outcome:
        if tuple(result.shape) != shape:
            return mismatch(f"shape {list(result.shape)} came where {list(shape)} is due")
        if not long(result.numel()):
            return judge_live(result, SpecTensor(shape, allowed.data))
        taken = result.reshape(-1)[kinds.judged.tolist()]
        first, _ = numbered(kinds.kinds, taken.double().numpy().view(np.uint64))
        due = SpecTensor((len(first),), [allowed.data[kind] for kind in kinds.kinds[first]])
        outcome = judge_live(taken[first.tolist()], due)
        if outcome.detail is None:
            return outcome
        (place,) = outcome.detail.index
        index = position(int(kinds.judged[first[place]]), shape)
        return replace(outcome, detail=replace(outcome.detail, index=index))

    return judge_step(step, expected, judge)
