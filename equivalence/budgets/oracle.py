"""The oracle: the pages of `spec`, run on Bounded scalars.

Inputs are the tensors that a backend receives, lifted exactly: rounding to a dtype happened before
anybody computed, and nobody is blamed for it.
Every result ends with the last step of its contract, rounding to storage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from equivalence.budgets.judge import Expected
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant, exact, stored
from equivalence.worlds.contract import Contract
from spec.op import AnyTensor, Op
from spec.ops import OPS
from spec.tensor import Tensor


def lift_one(tensor: torch.Tensor, arithmetic: Arithmetic) -> AnyTensor:
    """Lift one tensor exactly; every float must be finite."""
    values = tensor.detach().cpu().reshape(-1)
    shape = tuple(tensor.shape)
    if not tensor.is_floating_point():
        return Tensor(shape, values.tolist())
    numbers = values.double().tolist()
    if not all(map(math.isfinite, numbers)):
        raise ValueError(
            "a budget is defined for finite inputs; got an infinity or NaN. "
            "Rows about the edge of a domain are judged by equality, in a page's EDGES."
        )
    return Tensor(shape, exact(arithmetic, *numbers))


def store(tensor: AnyTensor, arithmetic: Arithmetic) -> Expected:
    """Round a computed tensor to storage, the last step; a constant enters the world first."""

    def last(x: Any) -> Bounded:
        return stored(x if isinstance(x, Bounded) else constant(arithmetic, x))

    return tensor.map(last)


def expected_value(
    op: Op | str, inputs: Sequence[torch.Tensor], attrs: Mapping[str, Any], contract: Contract
) -> Expected:
    """Say what a contract allows as the value of an op."""
    page = OPS[op] if isinstance(op, str) else op
    arithmetic = Arithmetic(contract)
    lifted = [lift_one(tensor, arithmetic) for tensor in inputs]
    world = {} if page.inputs else {"like": constant(arithmetic, 0)}
    return store(page.value(*lifted, **attrs, **world), arithmetic)


def expected_vjp(
    op: Op | str,
    inputs: Sequence[torch.Tensor],
    attrs: Mapping[str, Any],
    cotangents: torch.Tensor | Sequence[torch.Tensor],
    contract: Contract,
) -> list[Expected | None]:
    """Say what a contract allows as the gradients of an op; None at inputs of indices."""
    page = OPS[op] if isinstance(op, str) else op
    arithmetic = Arithmetic(contract)
    lifted = [lift_one(tensor, arithmetic) for tensor in inputs]
    if not isinstance(cotangents, torch.Tensor):
        (cotangents,) = cotangents
    gradients = page.vjp(tuple(lifted), lift_one(cotangents, arithmetic), **attrs)
    return [None if g is None else store(g, arithmetic) for g in gradients]
