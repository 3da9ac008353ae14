"""Reads what comes from outside, moments, counts and gradients, and refuses what no update made.

Whoever writes a state has read all of it here before, so that writing has nothing to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """One parameter's state, checked: its count, and its tensors, none where it is new.

    The tensors follow the rule's states; an optional one may be None.
    """

    age: int
    tensors: list[Tensor | None]


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


def fits(rule: Rule, names: Iterable[Any]) -> bool:
    """Say whether these are the parts of a state, all but optional ones."""
    given, expected = set(names), set(fields(rule))
    return expected - set(rule.optional) <= given <= expected


def told(rule: Rule) -> str:
    """Write which parts a state has."""
    required = [name for name in fields(rule) if name not in rule.optional]
    return f"{required}" + (f" and may have {list(rule.optional)}" if rule.optional else "")


class Owner(NamedTuple):
    """Whose state is read, as messages have it: who reads, and of what, where that is not clear."""

    who: str
    of: str = ""

    def state(self) -> str:
        """Name the state."""
        return f"{self.who}: the state of {self.of}" if self.of else f"{self.who}: a state"

    def part(self, name: str) -> str:
        """Name one part of it."""
        return f"{self.who}: the {name} of {self.of}" if self.of else f"{self.who}: {name}"


def parts(owner: Owner, rule: Rule, state: Any) -> dict[str, Any]:
    """Return all parts of a state, or none where no update made it: what is None is not there.

    What is no mapping of the rule's parts, and no others, is Rejected.
    """
    if not isinstance(state, Mapping):
        raise Rejected(f"{owner.state()} has {told(rule)}, got {type(state).__name__}")
    found = {name: value for name, value in state.items() if value is not None}
    if found and not fits(rule, found):
        raise Rejected(
            f"{owner.state()} has {told(rule)}, or nothing; got {sorted(map(str, found))}"
        )
    return found


def moment(owner: Owner, name: str, value: Any, shape: Sequence[int]) -> Tensor:
    """Read one moment of a parameter of this shape, as it is; what is no such one is Rejected."""
    source = dense(owner.part(name), value) if isinstance(value, Tensor) else None
    if source is None or source.shape != tuple(shape):
        came = type(value).__name__ if source is None else f"one of {tuple(source.shape)}"
        raise Rejected(f"{owner.part(name)} must be a tensor of shape {tuple(shape)}, got {came}")
    return source


def count(owner: Owner, value: Any) -> int:
    """Read the number of updates that made a state; what counts none is Rejected."""
    found = number(owner.part("step"), value)
    if not 0 <= found <= MOST_STEPS or found != int(found):
        raise Rejected(
            f"{owner.part('step')} counts the updates that made the state, at most {MOST_STEPS}; "
            f"got {found}"
        )
    return int(found)


def read(
    owner: Owner,
    rule: Rule,
    shape: Sequence[int],
    state: Any,
    hyper: Mapping[str, Any] | None = None,
) -> State | None:
    """Read a parameter's state as it is, or None where no update made it.

    Raises `Rejected` for parts that are not the rule's, moments that are no dense tensor of real
    numbers of the shape, counts that are none, and moments that were made by no update: all are
    zeros before the first one, but for those that start from one of `hyper`, as torch has them.
    Numbers need not be finite.
    """
    found = parts(owner, rule, state)
    if not found:
        return None
    tensors = [
        moment(owner, name, found[name], shape) if name in found else None for name in rule.states
    ]
    age = count(owner, found["step"]) if rule.counted else 1
    return State(age, tensors if age else _unused(owner, rule, tensors, hyper or {}))


def unused(rule: Rule, shape: Sequence[int], hyper: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the state that torch's optimizer gives a parameter of this shape when it is made.

    It is empty where torch makes it at the first update.
    """
    if not rule.filled:
        return {}
    starts = {name: float(hyper.get(dict(rule.filled).get(name, ""), 0.0)) for name in rule.states}
    moments = {name: torch.full(tuple(shape), start) for name, start in starts.items()}
    return {"step": torch.tensor(0.0), **moments}


def checked(rule: Rule, view: Tensor, state: Any) -> State:
    """Read the state of a parameter whose moments are like `view`, or say what is wrong with it.

    The tensors are new, rounded to the dtype of `view`, and on its device; they are finite, and a
    mean of squares is not below 0. Where no update made the state, every part is there, and None.
    """
    owner = Owner(rule.name)
    if not isinstance(state, Mapping) or not fits(rule, state):
        came = list(state) if isinstance(state, Mapping) else type(state).__name__
        raise Rejected(f"{owner.state()} has {told(rule)}, got {came}")
    held = [name for name in rule.states if state.get(name) is not None]
    if held and not {*rule.states} - {*rule.optional} <= {*held}:
        raise Rejected(f"{rule.name}: either all of {list(rule.states)} are None, or none is")
    if not held:
        age = count(owner, state["step"]) if rule.counted else 0
        if age:
            raise Rejected(
                f"{owner.part('step')} counts the updates that made moments, and there are none; "
                f"got {age}"
            )
        return State(0, [])
    found = read(owner, rule, view.shape, state)
    assert found is not None
    pairs = zip(rule.states, found.tensors, strict=False)
    tensors = [t if t is None else _numbers(owner, rule, name, t, view) for name, t in pairs]
    return State(found.age, tensors)


def _numbers(owner: Owner, rule: Rule, name: str, source: Tensor, view: Tensor) -> Tensor:
    """Return the numbers of a moment in the dtype in which the kernels keep them."""
    found = bridge.to_device(source, view.dtype, view.device)
    if not found.isfinite().all():
        raise Rejected(f"{owner.part(name)} has an entry that is not finite in {view.dtype}")
    if name in rule.squares and (found < 0).any():
        raise Rejected(f"{owner.part(name)} has an entry below 0, and it is a mean of squares")
    return found


def _unused(
    owner: Owner, rule: Rule, tensors: list[Tensor | None], hyper: Mapping[str, Any]
) -> list[Tensor | None]:
    """Refuse moments that no update made, unless they are what they are before the first one."""
    for name, tensor in zip(rule.states, tensors, strict=True):
        told = dict(rule.filled).get(name, "")
        if (
            tensor is not None
            and not tensor.eq(torch.full_like(tensor, hyper.get(told, 0.0))).all()
        ):
            step = owner.part("step").removeprefix(f"{owner.who}: ")
            start = f"; before it all are {told}, {hyper[told]}" if told in hyper else ""
            raise Rejected(
                f"{owner.part(name)} was made by at least one step, and {step} is 0{start}"
            )
    return []
