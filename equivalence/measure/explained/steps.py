"""One step of an optimizer, explained: its numbers and settings beside the bad element."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from equivalence.budgets.outcome import Outcome
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.explained.explain import explained
from equivalence.measure.shadow import Step


def explained_step(outcome: Outcome, step: Step, case: UpdateSpec) -> Outcome:
    """Return the outcome of a step with its parameter, gradient, moments and settings."""
    k = step.parameter
    given: dict[str, Tensor | None] = {
        f"parameter {k} before the step": step.before.params[k],
        f"gradient {k}": step.gradients[k],
    }
    given |= {
        f"{field} {k} before the step": t for field, t in step.moments(case.optimizer).items()
    }
    tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
    outcome = explained(outcome, tensors, case.dtype, lambda result, place: None)
    if outcome.detail is None:
        return outcome
    detail = outcome.detail
    settings = (("settings", _settings(step, case)), ("earlier steps", str(step.count)))
    return replace(outcome, detail=replace(detail, inputs=(*detail.inputs, *settings)))


def _settings(step: Step, case: UpdateSpec) -> str:
    """Write the hyper-parameters of a step, and what the case does to its gradients."""
    own = case.hyper_parameters(step.parameter, step.number)
    number = step.number
    limits = case.limits(step.parameter, number)
    beside = {
        "grad_scale": case.grad_scale_at(number),
        "max_value": limits.max_value,
        "max_norm": limits.max_norm,
    }
    plain = {"grad_scale": 1.0, "max_value": None, "max_norm": None}
    own |= {name: value for name, value in beside.items() if value != plain[name]}
    return ", ".join(f"{name}={value!r}" for name, value in own.items())
