"""Calls of torch as a sample makes them: their tensors copied, replaced and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from spec.tensor import Tensor as Exact

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""What a function is called with."""


@dataclass(frozen=True)
class Call:
    """One sample: what the page is given, and torch's call of tensors in their places."""

    inputs: Sequence[Tensor]
    attributes: Mapping[str, Any]
    arguments: Arguments
    function: Callable[..., Tensor]

    def run(self, *inputs: Tensor) -> Tensor:
        """Call torch as the sample does, with other tensors for the inputs."""
        there = {id(old): new for old, new in zip(self.inputs, inputs, strict=True)}
        args, kwargs = self.arguments
        moved = [_replaced(value, there) for value in args]
        named = {name: _replaced(value, there) for name, value in kwargs.items()}
        return self.function(*moved, **named).to(torch.float64)


def _replaced(value: Any, there: Mapping[int, Tensor]) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
        return type(value)(there.get(id(x), x) for x in value)
    return there.get(id(value), value)


class Caught(TorchFunctionMode):
    """Notes with which arguments a wrapper calls a function."""

    def __init__(self, wanted: Callable[..., Any]) -> None:
        super().__init__()
        self.wanted, self.arguments = wanted, list[Arguments]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is self.wanted:
            self.arguments.append((tuple(args), dict(kwargs or {})))
        return func(*args, **(kwargs or {}))


def copied(arguments: Arguments) -> Arguments:
    """Copy each tensor; forward mode refuses those that hold an entry in several places."""

    def one(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
            return type(value)(map(one, value))
        return value.clone() if isinstance(value, Tensor) else value

    args, kwargs = arguments
    return tuple(map(one, args)), {name: one(value) for name, value in kwargs.items()}


def equal(given: Any, said: Any) -> bool:
    """Say whether an argument is what the statement says; only tensors can differ."""
    return not (isinstance(given, Tensor) and isinstance(said, Tensor)) or bool(
        torch.eq(given, said).all()
    )


def is_wrapper(function: Any) -> bool:
    return getattr(function, "__name__", "") == "<lambda>"


def short(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else repr(value)


def exact(x: Tensor) -> Any:
    """Return a tensor as a page takes it."""
    return Exact(tuple(x.shape), x.flatten().tolist())


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Say whether two results are the same, NaN as NaN."""
    if one.dtype is not other.dtype or one.shape != other.shape:
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())
