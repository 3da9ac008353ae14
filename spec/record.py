"""Chapter 22. Records: what an interpreter writes on as a program runs.

A tape is one; a graph with the values that it was recorded on is another.

>>> from spec.ops import OPS
>>> from spec.tape import Tape
>>> from spec.tensor import tensor
>>> record: Record = Tape()
>>> x = record.leaf(tensor(3.0), name="x")
>>> y = record.apply(OPS["square"], x)
>>> record.label(x), record.label(y), record.value(y)
('x', 'square', Tensor(9.0))
"""

from __future__ import annotations

from typing import Any, Protocol

from spec.op import AnyTensor, Op
from spec.tape import Dense


class Record(Protocol):
    """What an interpreter writes on: entries, counted from 0, each with its value."""

    def value(self, id: int) -> AnyTensor:
        """Return the value of an entry."""
        ...

    def label(self, id: int) -> str:
        """Return the name of an entry, or what made it."""
        ...

    def maker(self, id: int) -> Op | None:
        """Return the op that made an entry, None of a leaf."""
        ...

    def leaf(self, value: AnyTensor, requires_grad: bool = True, name: str | None = None) -> int:
        """Append a leaf: an input or a parameter."""
        ...

    def const(self, value: AnyTensor) -> int:
        """Append a tensor that takes no gradient."""
        ...

    def apply(self, op: Op, *parents: int | AnyTensor, **attributes: Any) -> int:
        """Append an op applied to earlier entries, or to constants; nothing if it is refused."""
        ...

    def backward_dense(self, out: int, seed: AnyTensor | None = None) -> Dense:
        """Return a cotangent for every entry, zero where the seed does not reach."""
        ...

    def backward(self, out: int, seed: AnyTensor | None = None) -> dict[int, AnyTensor]:
        """Return the cotangents of the trainable leaves that the seed reaches, by leaf id."""
        ...
