"""Steps with gradients that are not finite: what they must spoil, and what they must leave alone.

A budget is defined for finite numbers. But a step works entry by entry, apart from the norm, so the
reference takes it twice: on floats, which tells the entries of its results that are finite, and on
Bounded scalars, zeros in the place of what is not finite, which judges those entries. The others
must not be finite.
A later step starts from what this one spoiled, and is judged in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from equivalence.budgets.oracle import lift_one
from equivalence.budgets.outcome import Outcome
from equivalence.measure.call import judge_live
from equivalence.measure.reference import Expected, advance, reference_step, scaled_gradients
from equivalence.measure.shadow import judge_step
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import NAN
from equivalence.worlds.bounded import Bounded
from spec.op import AnyTensor
from spec.tensor import Tensor as SpecTensor
from spec.tensor import zip_map

if TYPE_CHECKING:
    from equivalence.cases.updates import UpdateSpec
    from equivalence.measure.shadow import Step
    from equivalence.worlds.contract import Contract


def judge_spoiled(step: Step, case: UpdateSpec, contract: Contract) -> Outcome:
    """Judge one step that may have met numbers that are not finite."""
    k, arithmetic = step.parameter, Arithmetic(contract)
    before, moments = step.before.params[k], step.moments(case.optimizer)
    hyper = case.hyper_parameters(k)
    gradients = list(map(_floats, step.gradients))
    scaled = scaled_gradients(gradients, case.max_norm)[k]
    left, state = reference_step(
        case.optimizer, _floats(before), scaled, _each(moments, _floats), step.count, hyper
    )
    plain = {"parameter": left, **{field: getattr(state, field) for field in moments}}

    def lift(tensor: Tensor | None) -> Any:
        return None if tensor is None else lift_one(_zeroed(tensor), arithmetic)

    if all(_finite(gradient) for gradient in gradients):
        gradient = scaled_gradients(list(map(lift, step.gradients)), case.max_norm)[k]
    else:
        # A norm that is not finite leaves all of an entry or nothing: exact, as without clipping.
        values = torch.tensor(scaled.data, dtype=torch.float64)
        gradient = lift(values.reshape(before.shape))
    allowed = advance(
        case.optimizer, lift(before), gradient, _each(moments, lift), step.count, hyper
    )
    tensors = {field: _opened(plain[field], tensor) for field, tensor in allowed.tensors.items()}
    outcome = judge_step(step, Expected(tensors, allowed.step), judge_live)
    return outcome if outcome.failed else _spoiled(outcome, step, plain)


def _each(tensors: Mapping[str, Tensor | None], change: Any) -> dict[str, Any]:
    return {field: change(tensor) for field, tensor in tensors.items()}


def _floats(tensor: Tensor | None) -> AnyTensor | None:
    """Take a tensor to the world of floats."""
    if tensor is None:
        return None
    return SpecTensor(tuple(tensor.shape), tensor.double().reshape(-1).tolist())


def _finite(tensor: AnyTensor | None) -> bool:
    return tensor is None or all(map(math.isfinite, tensor.data))


def _zeroed(tensor: Tensor) -> Tensor:
    """Put zeros in the place of what is not finite."""
    return torch.where(torch.isfinite(tensor), tensor, torch.zeros_like(tensor))


def _opened(plain: AnyTensor | None, allowed: Any) -> Any:
    """Leave the entries open that the reference on floats does not leave finite."""

    def entry(number: float, x: Bounded) -> Bounded:
        return x if math.isfinite(number) else Bounded(x.v, NAN, x.arithmetic)

    return None if plain is None or allowed is None else zip_map(entry, plain, allowed)


def _spoiled(outcome: Outcome, step: Step, plain: Mapping[str, AnyTensor | None]) -> Outcome:
    """Refuse finite numbers where the reference has none."""
    k = step.parameter
    for field, reference in plain.items():
        if reference is None:
            continue
        got = (step.after.params if field == "parameter" else step.after.state[field])[k]
        for number, result in zip(reference.data, _data(got), strict=True):
            if not math.isfinite(number) and math.isfinite(result):
                problem = (
                    f"after step {step.number}, {field} of parameter {k}: {number} is due, "
                    f"got the finite {result}"
                )
                return replace(outcome, fraction=math.inf, problem=problem)
    return outcome


def _data(tensor: Tensor | None) -> list[float]:
    return [] if tensor is None else tensor.double().reshape(-1).tolist()
