"""Chapter 23. Named buffers: state that outlives every tape, and takes no gradient.

The running statistics of a normalizer are such state. An op reads them, as constants, and what it
makes of them are its last results; an interpreter keeps these in the buffers, and hands out the
others. What an op has read stays on the record as it was.

>>> from spec.tensor import tensor
>>> mean = NamedBuffer(tensor([0.0, 1.0]), "mean")
>>> mean.set(tensor([0.5, 0.5]))
>>> mean, mean.value
(NamedBuffer(mean, shape (2,)), Tensor([0.5, 0.5]))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spec.op import AnyTensor, Op, checked, need_shape, refuse
from spec.refusals import need_name
from spec.several import unpacked
from spec.shape import Shape


class NamedBuffer:
    """A tensor that ops of a session update, and no gradient reaches."""

    def __init__(self, value: AnyTensor, name: str | None = None) -> None:
        """Hold a first value; what is no tensor is Rejected."""
        need_name("buffer", name)
        self.name = name
        self._value = checked("buffer", value)

    def __repr__(self) -> str:
        """Show name and shape."""
        return f"NamedBuffer({'' if self.name is None else f'{self.name}, '}shape {self.shape})"

    @property
    def value(self) -> AnyTensor:
        """What it holds now."""
        return self._value

    @property
    def shape(self) -> Shape:
        """The shape of what it holds, which stays."""
        return tuple(self._value.shape)

    def set(self, value: AnyTensor) -> None:
        """Replace what it holds; another shape is Rejected, naming both."""
        rule = f"a value of buffer {self.name!r} has the shape {self.shape}"
        need_shape("buffer", rule, self.shape, value)
        self._value = value


class Holding:
    """How an interpreter reads the buffers of a call, and keeps what becomes of them."""

    def _read(self, buffer: NamedBuffer) -> AnyTensor:
        """Return what an op reads of a buffer."""
        return buffer.value

    def _keep(self, buffer: NamedBuffer, value: AnyTensor) -> None:
        """Keep what an op has made of a buffer."""
        buffer.set(value)

    def _contents(self, op: Op, inputs: Sequence[object]) -> Mapping[int, AnyTensor]:
        """Return what the buffers of a call hold, by input; Rejected is what is no buffer.

        So is a buffer that is there twice: an op updates it once. A call without any buffer is one
        of refs alone, and what becomes of these are results like others.
        """
        found: dict[int, NamedBuffer] = {}
        if not op.buffers or not any(isinstance(x, NamedBuffer) for x in inputs):
            return {}
        for k in op.buffers:
            given = inputs[k] if k < len(inputs) else None
            if not isinstance(given, NamedBuffer):
                rule = f"{op.inputs[k]} is a buffer, which buffer() makes"
                raise refuse(op.name, rule, type(given).__name__)
            if given in found.values():
                raise refuse(op.name, "an op updates a buffer once", f"{given} twice")
            found[k] = given
        return {k: self._read(buffer) for k, buffer in found.items()}

    def _update_buffers(self, op: Op, inputs: Sequence[Any], made: AnyTensor, types: Any) -> None:
        """Keep what a call has made of its buffers, which `made` holds behind the results."""
        last = [*unpacked(made, types).values()][-len(op.buffers) :]
        for k, value in zip(op.buffers, last, strict=True):
            self._keep(inputs[k], value)
