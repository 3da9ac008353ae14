"""One step of an optimizer, as the pages of the reference take it, and what it may leave behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from torch import Tensor

from equivalence.measure.spent import of_oracle
from spec.optim import OPTIMIZERS, clip
from spec.scalar import lift
from spec.tensor import zip_map

if TYPE_CHECKING:
    from equivalence.worlds.arithmetic import Arithmetic
    from equivalence.worlds.contract import Contract


@dataclass(frozen=True, slots=True)
class Expected:
    """What one step may leave of one parameter: its value, its moments, its step count."""

    tensors: Mapping[str, Any]
    step: int | None


def reference_step(
    optimizer: str,
    parameter: Any,
    gradient: Any,
    moments: Mapping[str, Any],
    step: int,
    hyper: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Run one step of the reference on tensors of its worlds; a moment of None is "not yet"."""
    page = OPTIMIZERS[optimizer]
    known = {field: moment for field, moment in moments.items() if moment is not None}
    start = replace(page.init(parameter), **known, **({"step": step} if page.counted else {}))
    return page.update(parameter, gradient, start, page.hyper(**hyper))


def scaled_gradients(
    gradients: Sequence[Any], max_norm: float | None, grad_scale: float = 1.0
) -> list[Any]:
    """Divide and clip the gradients of one step, tensors of the reference's worlds or None."""
    if max_norm is None and grad_scale == 1.0:
        return list(gradients)
    scaled = iter(clip.scaling(max_norm, grad_scale)([g for g in gradients if g is not None]))
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
    p, g = lift_one(parameter, arithmetic), lift_one(gradient, arithmetic)
    return advance(optimizer, p, g, lifted, step, hyper)


@of_oracle
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

    return left_by(
        optimizer,
        parameter,
        gradient,
        moments,
        step,
        hyper,
        lambda tensor: tensor.map(stored),
    )


def left_by(
    optimizer: str,
    parameter: Any,
    gradient: Any,
    moments: Mapping[str, Any],
    step: int,
    hyper: Mapping[str, Any],
    store: Callable[[Any], Any],
) -> Expected:
    """Run one step of the reference on tensors of any world, which stores what the step leaves."""
    left, state = reference_step(optimizer, parameter, gradient, moments, step, hyper)
    tensors = {"parameter": store(left)}
    for field in OPTIMIZERS[optimizer].moments:
        moment = getattr(state, field)
        tensors[field] = None if moment is None else store(moment)
    return Expected(tensors, getattr(state, "step", None))


def decayed_apart(
    optimizer: str,
    parameter: Any,
    gradient: Any,
    moments: Mapping[str, Any],
    step: int,
    hyper: Mapping[str, Any],
    store: Callable[[Any], Any],
) -> Any:
    """Return the parameter by another program of decoupled decay: its share is subtracted.

    Where a page takes (1 - r) p, many libraries take p - r p; by how much that may err is seen
    where r is near 1. None where nothing decays apart.
    """
    if not (OPTIMIZERS[optimizer].decoupled and hyper.get("weight_decay")):
        return None
    share = Fraction(hyper["lr"]) * Fraction(hyper["weight_decay"])
    plain = {**hyper, "weight_decay": 0.0}
    left, _ = reference_step(optimizer, parameter, gradient, moments, step, plain)
    return store(zip_map(lambda x, p: x - lift(p, share) * p, left, parameter))


def held_state(
    moments: Mapping[str, Tensor] | None, step: int, optimizer: str, arithmetic: Arithmetic
) -> Any:
    """Return the page's state of these moments and this count, exactly; None if there are none."""
    if moments is None:
        return None
    from equivalence.budgets.oracle import lift_one

    page = OPTIMIZERS[optimizer]
    lifted = {field: lift_one(moments[field], arithmetic) for field in page.moments}
    return page.state(**lifted, **({"step": step} if page.counted else {}))
