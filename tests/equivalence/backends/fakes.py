"""Backends for the suite's own tests: a right one, and wrong ones that each break one promise."""

from __future__ import annotations

import inspect
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any, ClassVar

import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.backends.protocol import Capabilities


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


class Looking(Right):
    """The right one, which remembers by which functions each call of a value came."""

    seen: ClassVar[list[list[CodeType]]] = []

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        frame = inspect.currentframe()
        came: list[CodeType] = []
        while frame is not None:
            came.append(frame.f_code)
            frame = frame.f_back
        self.seen.append(came)
        return super().value(op, inputs, attrs)


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
    """Accepts what the page refuses, and says that it checks."""

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), checks_constraints=True)

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


class Mortal(OneOff):
    """Ends its process at one shape, never comes back from another, and is wrong elsewhere.

    The shapes are named in the environment, where worker processes find them.
    """

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        shape = str(list(inputs[0].shape))
        if shape == os.environ.get("EXITS_AT"):
            os._exit(7)
        while shape == os.environ.get("HANGS_AT"):
            time.sleep(0.01)
        return super().value(op, inputs, attrs)


class Hollow(OneOff):
    """Raises on empty tensors, and is wrong on others."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if not inputs[0].numel():
            raise RuntimeError("nothing to do")
        return super().value(op, inputs, attrs)


class Fastidious(Right):
    """Raises on empty tensors, and is right on others."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if not inputs[0].numel():
            raise RuntimeError("nothing to do")
        return super().value(op, inputs, attrs)


class Lenient(OneOff):
    """Accepts every near-miss, though it says that it checks, and is wrong in values."""

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), checks_constraints=True)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if inputs[0].shape != inputs[-1].shape:
            return torch.zeros(())
        return super().value(op, inputs, attrs)


class Doubled(Right):
    """Twice too much, everywhere."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return 2 * super().value(op, inputs, attrs)


class Trespassing(Right):
    """Stores a number past the end of its result, where the allocator left room."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        right = super().value(op, inputs, attrs)
        result = torch.empty(right.shape, dtype=right.dtype)
        result.copy_(right)
        if result.untyped_storage().nbytes() > result.nbytes:
            end = result.storage_offset() + result.numel()
            result.as_strided((1,), (1,), end).fill_(1.0)
        return result


class Nothing(Right):
    """Offers no operation at all."""

    ops: Mapping[str, Sequence[str]] = {}
