"""Reads the gradients of parameters from every form a caller may hand in, after checking all.

The forms are: the sparse map, the dense gradients, and host gradients by leaf id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.device.bridge import to_device, to_host
from fast.device.buffer import Buffer
from fast.errors import Rejected, SessionError
from fast.optim._state import dense
from fast.runtime.gradmap import DenseGrads, GradMap, parameter_leaves
from fast.runtime.param import Param
from fast.runtime.store import Store
from fast.tape import Tape

Pairs = list[tuple[Param, Tensor]]


def gathered(rule: str, store: Store, tape: Tape, grads: Any) -> Pairs:
    """Pair parameters with their gradients, a parameter once per leaf that was reached.

    Host gradients are dense real numbers of their parameter's shape, those of frozen parameters
    too, which go nowhere; others are Rejected. The tensors hang on no graph of torch's.
    """
    if isinstance(grads, (GradMap, DenseGrads)):
        grads.check()
        if grads.store is not store:
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
            found.append((owner, _checked(rule, owner, given, store.options.device)))
    for leaf, (owner, _) in tape.uses.items():
        if leaf not in tape.leaves and _present(grads, leaf) and grads[leaf] is not None:
            _check_frozen(rule, owner, grads[leaf])
    return found


def _present(grads: Any, leaf: int) -> bool:
    return leaf in grads if isinstance(grads, Mapping) else leaf < len(grads)


def _entry(rule: str, grads: Any, leaf: int, owner: Param) -> Any:
    if not _present(grads, leaf):
        raise Rejected(
            f"{rule}: the gradient of {owner.name!r}, leaf {leaf}, is missing; None stands for a "
            "parameter that the loss did not reach"
        )
    return grads[leaf]


def _checked(rule: str, owner: Param, given: Any, device: torch.device) -> Tensor:
    held = _read(rule, owner, given)
    tensor = held if isinstance(given, Buffer) else to_device(held, owner.dtype, device)
    _check_shape(rule, owner, tensor)
    return tensor


def _check_frozen(rule: str, owner: Param, given: Any) -> None:
    """Refuse what would be refused if the parameter were trained; nothing goes to the device."""
    held = _read(rule, owner, given)
    _check_shape(rule, owner, held if isinstance(held, Tensor) else to_host(held, owner.dtype))


def _read(rule: str, owner: Param, given: Any) -> Any:
    """Return a tensor or a buffer as a dense tensor, and other data as they are."""
    tensor = given.tensor if isinstance(given, Buffer) else given
    if not isinstance(tensor, Tensor):
        return given
    return dense(f"{rule}: the gradient of {owner.name!r}", tensor)


def _check_shape(rule: str, owner: Param, tensor: Tensor) -> None:
    if tuple(tensor.shape) != owner.shape:
        raise Rejected(
            f"{rule}: the gradient of {owner.name!r} must have the shape {owner.shape}, "
            f"got {tuple(tensor.shape)}"
        )
