"""Reads what comes from outside, moments, counts and gradients, and refuses what no update made.

Whoever writes a state has read all of it here before, so that writing has nothing to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fast.device import bridge
from fast.device.buffer import Buffer
from fast.errors import Rejected

if TYPE_CHECKING:
    from fast.optim._rule import Rule

MOST_STEPS = 2**30
"""The largest count that is taken: the kernels count in 32 bits."""


class State(NamedTuple):
    """One parameter's state, checked: its count, and its tensors, none where it is new."""

    age: int
    tensors: list[Tensor]


def dense(what: str, tensor: Tensor) -> Tensor:
    """Return a tensor of numbers, without the graph that made it; others are Rejected.

    Refused are sparse and nested tensors, those without memory, and dtypes of no real numbers.
    """
    source = bridge.dense(what, tensor)
    if source.dtype not in bridge.NUMBERS:
        raise Rejected(
            f"{what}: a tensor of {source.dtype} is not accepted; real numbers are, such as those "
            "of torch.float32"
        )
    return source


def number(what: str, value: Any) -> float:
    """Read one number, also of a tensor, as torch keeps a count; what is none is Rejected."""
    try:
        if isinstance(value, (Tensor, Buffer)):
            held = value.tensor if isinstance(value, Buffer) else value
            value = bridge.to_host(dense(what, held), torch.float64)
        elif isinstance(value, np.ndarray):
            value = bridge.to_host(value, torch.float64)
        return bridge.to_float(value)
    except Rejected as error:
        text = str(error)
        raise Rejected(text if text.startswith(what) else f"{what}: {text}") from error


def fields(rule: Rule) -> tuple[str, ...]:
    """Name the parts of a parameter's state under one rule."""
    return (*rule.states, *(("step",) if rule.counted else ()))


def checked(rule: Rule, view: Tensor, state: Any) -> State:
    """Read the state of a parameter whose moments are like `view`, or say what is wrong with it.

    The tensors are new, rounded to the dtype of `view`, and on its device.
    """
    expected = fields(rule)
    if not isinstance(state, Mapping) or set(state) != set(expected):
        came = list(state) if isinstance(state, Mapping) else type(state).__name__
        raise Rejected(f"{rule.name}: a state has {list(expected)}, got {came}")
    found = [_moment(rule, name, state[name], view) for name in rule.states]
    tensors = [tensor for tensor in found if tensor is not None]
    if tensors and len(tensors) != len(found):
        raise Rejected(f"{rule.name}: either all of {list(rule.states)} are None, or none is")
    if not rule.counted:
        return State(int(bool(tensors)), tensors)
    age = number(f"{rule.name}: step", state["step"])
    if not 0 <= age <= MOST_STEPS or age != int(age) or (age and not tensors):
        raise Rejected(
            f"{rule.name}: step counts the updates that made the state, at most {MOST_STEPS}; "
            f"got {age}"
        )
    return State(int(age), tensors if age else _unused(rule, tensors))


def _moment(rule: Rule, name: str, value: Any, view: Tensor) -> Tensor | None:
    if value is None:
        return None
    source = dense(f"{rule.name}: {name}", value) if isinstance(value, Tensor) else None
    if source is None or source.shape != view.shape:
        came = type(value).__name__ if source is None else f"one of {tuple(source.shape)}"
        raise Rejected(
            f"{rule.name}: {name} must be a tensor of shape {tuple(view.shape)}, got {came}"
        )
    moment = bridge.to_device(source, view.dtype, view.device)
    if not moment.isfinite().all():
        raise Rejected(f"{rule.name}: {name} has an entry that is not finite in {view.dtype}")
    if name in rule.squares and (moment < 0).any():
        raise Rejected(f"{rule.name}: {name} has an entry below 0, and it is a mean of squares")
    return moment


def _unused(rule: Rule, tensors: list[Tensor]) -> list[Tensor]:
    """Refuse moments that no update made, unless they are the zeros before the first one."""
    for name, tensor in zip(rule.states, tensors, strict=False):
        if tensor.any():
            raise Rejected(f"{rule.name}: {name} was made by at least one step, and step is 0")
    return []
