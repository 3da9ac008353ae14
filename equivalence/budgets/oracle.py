"""The oracle: the pages of `spec`, run on Bounded scalars.

Inputs are the tensors that a backend receives, lifted exactly: rounding to a dtype happened before
anybody computed, and nobody is blamed for it.
Every result ends with the last step of its contract, rounding to storage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch

from equivalence.budgets.judge import Expected
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant, either, exact, stored
from equivalence.worlds.contract import Contract
from spec.op import AnyTensor, Op
from spec.ops import OPS
from spec.tensor import Tensor, zip_map


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
    expected = store(page.value(*lifted, **attrs, **world), arithmetic)
    for form in contract.forms:
        if form.value is not None:
            expected = zip_map(either, expected, store(form.value(*lifted, **attrs), arithmetic))
    return expected


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
    seed = lift_one(cotangents, arithmetic)
    programs = [page.vjp, *(form.vjp for form in contract.forms if form.vjp is not None)]
    found = [
        [None if g is None else store(g, arithmetic) for g in vjp(tuple(lifted), seed, **attrs)]
        for vjp in programs
    ]
    return [
        None if rows[0] is None else reduce(lambda x, y: zip_map(either, x, y), rows)
        for rows in zip(*found, strict=True)
    ]
