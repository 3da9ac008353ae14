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
from equivalence.measure.distinct import judge_kinds
from equivalence.measure.reference import Expected, advance, reference_step, scaled_gradients
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import NAN
from equivalence.worlds.bounded import Bounded
from spec.op import AnyTensor
from spec.tensor import Tensor as SpecTensor
from spec.tensor import zip_map

if TYPE_CHECKING:
    from equivalence.cases.updates.spec import UpdateSpec
    from equivalence.measure.distinct import Distinct
    from equivalence.measure.shadow import Step


def judge_spoiled(step: Step, case: UpdateSpec, kinds: Distinct, arithmetic: Arithmetic) -> Outcome:
    """Judge one step that may have met numbers that are not finite."""
    k = step.parameter
    before = kinds.rows(step.before.params[k])
    moments = _each(step.moments(case.optimizer), kinds.rows)
    hyper = case.hyper_parameters(k, step.number)
    gradients = list(map(_floats, step.gradients))
    clipped = scaled_gradients(gradients, case.max_norm, case.grad_scale)[k]
    scaled = SpecTensor((len(kinds.first),), [clipped.data[place] for place in kinds.first])
    left, state = reference_step(
        case.optimizer, _floats(before), scaled, _each(moments, _floats), step.count, hyper
    )
    plain = {"parameter": left, **{field: getattr(state, field) for field in moments}}

    def lift(tensor: Tensor | None) -> Any:
        return None if tensor is None else lift_one(_zeroed(tensor), arithmetic)

    if case.max_norm is None:
        rows = lift(kinds.rows(step.gradients[k]))
        gradient = scaled_gradients([rows], None, case.grad_scale)[0]
    elif all(_finite(gradient) for gradient in gradients):
        every = scaled_gradients(list(map(lift, step.gradients)), case.max_norm, case.grad_scale)[k]
        gradient = SpecTensor(scaled.shape, [every.data[place] for place in kinds.first])
    else:
        # A norm that is not finite leaves all of an entry or nothing: exact, as without clipping.
        gradient = lift(torch.tensor(scaled.data, dtype=torch.float64))
    allowed = advance(
        case.optimizer, lift(before), gradient, _each(moments, lift), step.count, hyper
    )
    tensors = {field: _opened(plain[field], tensor) for field, tensor in allowed.tensors.items()}
    outcome = judge_kinds(step, Expected(tensors, allowed.step), kinds)
    return outcome if outcome.failed else _spoiled(outcome, step, plain, kinds)


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


def _spoiled(
    outcome: Outcome, step: Step, plain: Mapping[str, AnyTensor | None], kinds: Distinct
) -> Outcome:
    """Refuse finite numbers where the reference has none."""
    k = step.parameter
    for field, reference in plain.items():
        got = (step.after.params if field == "parameter" else step.after.state[field])[k]
        if reference is None or got is None:
            continue
        due = (reference.data[kind] for kind in kinds.kinds)
        for number, result in zip(due, _data(kinds.taken(got)), strict=True):
            if not math.isfinite(number) and math.isfinite(result):
                problem = (
                    f"after step {step.number}, {field} of parameter {k}: {number} is due, "
                    f"got the finite {result}"
                )
                return replace(outcome, fraction=math.inf, problem=problem)
    return outcome


def _data(tensor: Tensor) -> list[float]:
    numbers: list[float] = tensor.double().reshape(-1).tolist()
    return numbers
