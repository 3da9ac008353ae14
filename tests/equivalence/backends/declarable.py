"""Backends that are each wrong in a way of their own, which findings may declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.backends.protocol import Capabilities


class Base:
    """Squares and sums of rows in fp32; a subclass spoils a result, by the inputs of its call."""

    name = "declarable"

    def capabilities(self) -> Capabilities:
        return Capabilities({"square": ("fp32",), "mul": ("fp32",)}, declared("torch"))

    def spoiled(self, found: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        return found

    def checked(self, inputs: Sequence[Tensor]) -> None:
        if len({x.shape for x in inputs}) > 1:
            raise ValueError("shapes differ")

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        self.checked(inputs)
        return self.spoiled(inputs[0] * inputs[-1], inputs)

    def vjp(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], seeds: Sequence[Tensor]
    ) -> list[Tensor]:
        self.checked(inputs)
        if op == "square":
            return [self.spoiled(2 * inputs[0] * seeds[0], inputs)]
        return [self.spoiled(x * seeds[0], inputs) for x in reversed(inputs)]


class Large(Base):
    """Wrong for large extents: what lies beyond a block of 512 is taken twice."""

    def spoiled(self, found: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        flat = found.reshape(-1).clone()
        flat[512:] *= 2
        return flat.reshape(found.shape)


class Dropped(Base):
    """Wrong at an edge: a NaN becomes 0."""

    def spoiled(self, found: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        return found.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


class Flat(Base):
    """Wrong for one layout: the strides of a transposed matrix are not read."""

    def spoiled(self, found: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        turned = found.ndim > 1 and not inputs[0].is_contiguous()
        return found * 1.25 if turned else found


class Tail(Base):
    """Wrong in a tail: beyond whole vectors of 4, the last bits are lost."""

    def spoiled(self, found: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        flat = found.reshape(-1).clone()
        whole = flat.numel() // 4 * 4
        flat[whole:] = flat[whole:].to(torch.bfloat16).float()
        return flat.reshape(found.shape)


class Lenient(Base):
    """Accepts what the page refuses, for it broadcasts, and says that it checks constraints."""

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), checks_constraints=True)

    def checked(self, inputs: Sequence[Tensor]) -> None:
        return None


class Crashing(Base):
    """Raises where an extent is 5; no finding can declare that."""

    def checked(self, inputs: Sequence[Tensor]) -> None:
        super().checked(inputs)
        if 5 in inputs[0].shape:
            raise RuntimeError("five")


class Misshaped(Base):
    """Returns a wrong form where an extent is 5; no finding can declare that either."""

    def spoiled(self, found: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        return found.reshape(-1) if 5 in found.shape and found.ndim > 1 else found


class _Steps:
    """SGD at its plainest, wrong beyond a block."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any], block: int) -> None:
        self.block = block
        self.held, self.lr = [p.clone() for p in params], hyper["lr"]
        self.decay = hyper.get("weight_decay", 0.0)

    def params(self) -> list[Tensor]:
        return self.held

    def state(self) -> dict[str, list[Tensor | None]]:
        return {"momentum": [None] * len(self.held)}

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        for held, gradient in zip(self.held, gradients, strict=True):
            if gradient is not None:
                change = self.lr * (gradient + self.decay * held)
                change.reshape(-1)[self.block :] *= 1.5
                held -= change


class LargeSteps(Base):
    """An optimizer that is wrong for large parameters."""

    block = 65_536

    def capabilities(self) -> Capabilities:
        return Capabilities({}, declared("torch"), optimizers={"sgd": ("fp32",)})

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> _Steps:
        return _Steps(params, hyper, self.block)


class SmallSteps(LargeSteps):
    """One that is wrong beyond a block of 4."""

    block = 4
