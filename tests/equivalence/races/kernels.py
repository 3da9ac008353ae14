"""Kernels of a stranger, launched directly, by heuristics and by an autotuner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from equivalence import Capabilities, declared
from fast.device.mode import tl, triton


@triton.jit
def _square(z, x, n, STEP: tl.constexpr = 64, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    here = tl.load(x + at, mask=at < n)
    tl.store(z + at, here * here, mask=at < n)


_tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])(
    _square
)
"""Tiles of 128 overlap where programs are 64 apart."""

_guessed = triton.heuristics({"BLOCK": lambda args: args["STEP"]})(_square)


def square(x: Tensor, step: int = 64, kernel: Any = _square) -> Tensor:
    x, z = x.contiguous(), torch.empty(x.shape)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["STEP"]),)](z, x, x.numel(), STEP=step)
    return z


class Right:
    name, step = "right", 64

    def capabilities(self) -> Capabilities:
        return Capabilities({"square": ("fp32",)}, declared("torch"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return square(inputs[0], self.step) if inputs[0].numel() else torch.empty_like(inputs[0])

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> list[Tensor]:
        raise NotImplementedError("values only")


class Racy(Right):
    step = 48


class Plain(Right):
    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return inputs[0] * inputs[0]


class Columns(Right):
    """It takes vectors alone, as it declares, and crashes at anything else."""

    name = "columns"
    takes: ClassVar[Any] = {"ranks": (1,), "empty": False, "directions": ("value",)}

    def capabilities(self) -> Capabilities:
        parts: Any = {"square": self.takes}
        return Capabilities({"square": ("fp32",)}, declared("torch"), takes=parts)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        assert inputs[0].dim() == 1
        return super().value(op, inputs, attrs)


class RacyColumns(Columns):
    step = 48


class Refusing(Columns):
    """It refuses part of what it declares to take."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if inputs[0].numel() > 60:
            raise NotImplementedError("short ones only")
        return super().value(op, inputs, attrs)


class Foreseen(Columns):
    """Its declaration raises."""

    takes: ClassVar[Any] = staticmethod(lambda call: call.nothing)


@triton.jit
def _step(p, g, n, lr, STEP: tl.constexpr, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    here = tl.load(p + at, mask=at < n) - lr * tl.load(g + at, mask=at < n)
    tl.store(p + at, here, mask=at < n)


class Steps(Right):
    """Gradient descent without momentum, decay and groups, in place."""

    name = "steps"

    def capabilities(self) -> Capabilities:
        plain = {"momentum": [0.0], "weight_decay": [0.0], "nesterov": [False]}
        part: Any = {"attributes": plain, "options": ["missing"]}
        return Capabilities({}, declared("torch"), {"sgd": ("fp32",)}, takes={"sgd": part})

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        return _Descent([p.clone().contiguous() for p in params], hyper, self.step)


class RacySteps(Steps):
    step = 48


class _Descent:
    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any], step: int) -> None:
        self.kept, self.rate, self.apart = list(params), hyper["lr"], step

    def step(self, grads: Sequence[Tensor | None]) -> None:
        for p, g in zip(self.kept, grads, strict=True):
            if g is not None:
                n = p.numel()
                grid = (triton.cdiv(n, self.apart),)
                flat, given = p.reshape(-1), g.contiguous()
                _step[grid](flat, given, n, self.rate, STEP=self.apart)

    def params(self) -> Sequence[Tensor]:
        return self.kept

    def state(self) -> Mapping[str, Any]:
        return {}
