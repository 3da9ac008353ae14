"""Reads the gradients of parameters from every form a caller may hand in, after checking all.

The forms are: the sparse map, the dense gradients, and host gradients by leaf id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.bridge import to_device
from fast.buffer import Buffer
from fast.errors import Rejected, SessionError
from fast.gradmap import DenseGrads, GradMap, parameter_leaves
from fast.param import Param
from fast.tape import Tape

Pairs = list[tuple[Param, Tensor]]


def gathered(rule: str, session: object, tape: Tape, grads: Any, device: torch.device) -> Pairs:
    """Pair parameters with their gradients, a parameter once per leaf that was reached."""
    if isinstance(grads, (GradMap, DenseGrads)):
        grads.check()
        if grads.session is not session:
            raise SessionError(f"{rule}: these gradients are of another session")
        return grads.totals()
    if not isinstance(grads, (Mapping, Sequence)) or isinstance(grads, str):
        raise Rejected(
            f"{rule}: grads must be what backward() or backward_dense() returned, or host "
            f"gradients by leaf id (a mapping or a sequence); got {type(grads).__name__}"
        )
    found = []
    for leaf, owner in parameter_leaves(tape.leaves):
        given = _entry(rule, grads, leaf, owner)
        if given is not None:
            found.append((owner, _checked(rule, owner, given, device)))
    return found


def _entry(rule: str, grads: Any, leaf: int, owner: Param) -> Any:
    present = leaf in grads if isinstance(grads, Mapping) else leaf < len(grads)
    if not present:
        raise Rejected(
            f"{rule}: the gradient of {owner.name!r}, leaf {leaf}, is missing; None stands for a "
            "parameter that the loss did not reach"
        )
    return grads[leaf]


def _checked(rule: str, owner: Param, given: Any, device: torch.device) -> Tensor:
    tensor = given.tensor if isinstance(given, Buffer) else to_device(given, owner.dtype, device)
    if tuple(tensor.shape) != owner.shape:
        raise Rejected(
            f"{rule}: the gradient of {owner.name!r} must have the shape {owner.shape}, "
            f"got {tuple(tensor.shape)}"
        )
    return tensor
