"""Kernels of a stranger, launched directly, by heuristics and by an autotuner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
