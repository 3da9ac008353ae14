"""One step of an optimizer, as the pages of the reference take it, and what it may leave behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from spec.op import AnyTensor, zeros_like
from spec.optim import adam, adamw, clip, sgd

if TYPE_CHECKING:
    from equivalence.worlds.arithmetic import Arithmetic
    from equivalence.worlds.contract import Contract

MOMENTS: dict[str, tuple[str, ...]] = {
    "sgd": ("momentum_buffer",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
}
"""The state fields that are tensors of the parameter's shape."""

HAVE_A_STEP = ("adam", "adamw")
"""The optimizers that count the steps of each parameter."""

PAGES: dict[str, tuple[Any, Any]] = {
    "sgd": (sgd, sgd.Sgd),
    "adam": (adam, adam.Adam),
    "adamw": (adamw, adamw.AdamW),
}
"""The page of each optimizer, and its record of hyper-parameters."""


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
    page, record = PAGES[optimizer]
    start: dict[str, Any] = dict(moments)
    if optimizer in HAVE_A_STEP:
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


def lifted_moments(
    moments: Mapping[str, Tensor] | None, optimizer: str, arithmetic: Arithmetic
) -> dict[str, AnyTensor | None]:
    """Take an optimizer's moments as exact numbers; None for those that are not there yet."""
    from equivalence.budgets.oracle import lift_one

    return {
        field: None if moments is None else lift_one(moments[field], arithmetic)
        for field in MOMENTS[optimizer]
    }
