"""Implementations that hide by refusing: what they would get wrong, they do not take."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from population.pieces.kernels import softmax
from population.record import wrong

NAN = "https://github.com/Dao-AILab/flash-attention/issues/1947"


@wrong("softmax value", "part", source=NAN)
def refuses_nan(x: Tensor, axis: int = -1) -> Tensor:
    """It refuses what holds NaN as not implemented."""
    if bool(x.isnan().any()):
        raise NotImplementedError("NaN")
    return softmax(x, axis)


@wrong("tanh vjp", "part")
def refuses_infinite_cotangents(g: Tensor, x: Tensor) -> Tensor:
    """It refuses cotangents that are not finite as not implemented."""
    if not bool(g.isfinite().all()):
        raise NotImplementedError("cotangents that are not finite")
    return g * (1 - torch.tanh(x) ** 2)


@wrong("softmax value", "part")
class refuses_every_second_call:
    """It refuses every second call as not implemented."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Tensor, axis: int = -1) -> Tensor:
        self.calls += 1
        if self.calls % 2 == 0:
            raise NotImplementedError("busy")
        return softmax(x, axis)


@wrong("softmax value", "part", whole=True)
def refuses_long_rows(x: Tensor, axis: int = -1) -> Tensor:
    """It refuses extents above 512 as not implemented, which only `--whole` takes for a failure."""
    if max(x.shape, default=0) > 512:
        raise NotImplementedError("extents above 512")
    return softmax(x, axis)


def _short(call: Any) -> bool:
    return max(call.inputs[0].shape, default=0) <= 512


@wrong("softmax value", "part", whole=True, takes=_short)
def declares_long_rows_away(x: Tensor, axis: int = -1) -> Tensor:
    """It declares extents up to 512 alone, which only `--whole` takes for a failure."""
    return softmax(x, axis)


@wrong("softmax value", "part", takes={"axes": (-1,)})
def declares_and_refuses(x: Tensor, axis: int = -1) -> Tensor:
    """It declares the last axis of every rank, and refuses three axes as not implemented."""
    if x.dim() > 2:
        raise NotImplementedError("more than two axes")
    return softmax(x, axis)


@wrong("exp value", "part", takes=lambda call: call.inputs[0].shape[1] > 0)
def declares_by_a_predicate_that_raises(x: Tensor) -> Tensor:
    """Its predicate reads the second axis of every shape."""
    return torch.exp(x)


COUNTED = iter(range(10**9))


@wrong("exp value", "part", takes=lambda call: next(COUNTED) % 3 > 0)
def declares_by_the_number_of_the_question(x: Tensor) -> Tensor:
    """Its predicate says no to every third question."""
    return torch.exp(x)
