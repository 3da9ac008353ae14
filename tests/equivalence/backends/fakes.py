"""Backends for the suite's own tests: a right one, and wrong ones that each break one promise."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.protocol import Capabilities
from equivalence.budgets.declared import declared


class Right:
    """Products and squares, in fp32, as torch computes them."""

    name = "right"
    ops: Mapping[str, Sequence[str]] = {"mul": ("fp32",), "square": ("fp32",)}

    def capabilities(self) -> Capabilities:
        return Capabilities(self.ops, declared("torch"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if inputs[0].shape != inputs[-1].shape:
            raise ValueError("no broadcasting here")
        return inputs[0] * inputs[-1]

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        if op == "square":
            return [2 * inputs[0] * cotangents[0]]
        return [inputs[1] * cotangents[0], inputs[0] * cotangents[0]]


class RightForward(Right):
    """The right one, with forward mode."""

    def jvp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        tangents: Sequence[Tensor | None],
    ) -> Tensor:
        first, last = tangents[0], tangents[-1]
        assert first is not None and last is not None
        if op == "square":
            return 2 * inputs[0] * first
        return inputs[1] * first + inputs[0] * last


class WrongForward(RightForward):
    """Drops one term of the product rule."""

    def jvp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        tangents: Sequence[Tensor | None],
    ) -> Tensor:
        assert tangents[0] is not None
        return inputs[-1] * tangents[0]


class OneOff(Right):
    """Wrong in the last element of every row longer than four."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        result = super().value(op, inputs, attrs)
        if result.dim() and result.shape[-1] > 4:
            result[..., -1] *= 1 + 2**-20
        return result


class Overwriting(Right):
    """Writes its result into its first input, too."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        result = super().value(op, inputs, attrs)
        if 0 not in inputs[0].stride():
            inputs[0].copy_(result)
        return result


class Unwritten(Right):
    """Leaves the last element of its result as it was allocated."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        result = torch.empty(inputs[0].shape, dtype=inputs[0].dtype)
        flat = super().value(op, inputs, attrs).flatten()
        result.flatten()[: flat.numel() - 1] = flat[:-1]
        return result


class Flattening(Right):
    """Returns a result of the wrong shape."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return super().value(op, inputs, attrs).flatten()


class Raising(Right):
    """Raises on vectors of more than one element."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if inputs[0].numel() > 1:
            raise RuntimeError("out of order")
        return super().value(op, inputs, attrs)


class Broadcasting(Right):
    """Accepts what the page refuses."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return inputs[0] * inputs[-1]


class Bare(Right):
    """Returns its gradient as it is, where a list of gradients is wanted."""

    ops: Mapping[str, Sequence[str]] = {"square": ("fp32",)}

    def vjp(self, *given: Any) -> Any:
        return super().vjp(*given)[0]


class Silent(Bare):
    """Returns no gradients."""

    def vjp(self, *given: Any) -> Any:
        return None


class Misspelt(Right):
    """Offers an operation that does not exist."""

    ops: Mapping[str, Sequence[str]] = {"mul": ("fp32",), "squre": ("fp32",)}


class Mistyped(Right):
    """Offers an operation in a dtype that does not exist."""

    ops: Mapping[str, Sequence[str]] = {"mul": ("float32",)}


class Undescribed(Right):
    """Describes itself by a dict."""

    def capabilities(self) -> Any:
        return {"ops": self.ops}


class Deadly(Right):
    """Ends its process on more than twenty elements, as a wild store does."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if inputs[0].numel() > 20:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().value(op, inputs, attrs)


class Nothing(Right):
    """Offers no operation at all."""

    ops: Mapping[str, Sequence[str]] = {}
