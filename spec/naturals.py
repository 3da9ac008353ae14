"""Chapter 33. Naturals: integers that a session keeps beside its tape.

Labels, positions and counts take no gradient and are no tensors; a session records them, hands out
where they begin, and lets them be read and overwritten.
Handles are counted on across resets, so that an old one never reads what came after; and each knows
the vector that it is in, so that none reads or writes another's integers.

>>> store = Naturals()
>>> first = store.nat_vec([3, 1, 2])
>>> store.set_nat(first + 1, 7)
>>> store.get_nat_vec(first, 3), store.indices(first, 2)
([3, 7, 2], Tensor([3, 7]))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from spec.op import AnyTensor, refuse
from spec.tensor import is_tensor, tensor

Integers = Sequence[int] | AnyTensor
"""Integers >= 0 in a list, or a tensor of rank 1 that holds them."""


class Naturals:
    """A growing row of natural numbers; a handle is a position in it, counted since the start."""

    def __init__(self) -> None:
        """Start with none."""
        self._next_handle = 0
        self.forget_nats()

    def forget_nats(self) -> None:
        """Forget every recorded integer; the handles from before are Rejected from then on."""
        self._first = self._next_handle
        self._nats: list[int] = []
        self._ends: list[int] = []

    def nat(self, value: int) -> int:
        """Record an integer that takes no gradient; return its handle, good until a reset.

        What is no integer >= 0 is Rejected. A session never hands a handle out again.
        """
        return self.nat_vec([value])

    def get_nat(self, handle: int) -> int:
        """Read a recorded integer; a handle of none, or from before a reset, is Rejected."""
        return self.get_nat_vec(handle, 1)[0]

    def set_nat(self, handle: int, value: int) -> None:
        """Overwrite a recorded integer; what has been computed from it stays as it is.

        What is no integer >= 0 is Rejected, and so is a handle of none or from before a reset.
        """
        [checked] = _naturals([value])
        self._nats[self._block(handle, 1)[0]] = checked

    def nat_vec(self, values: Integers) -> int:
        """Record integers >= 0 side by side, all or none; return the handle of the first.

        The k-th has the handle + k. What is no integer >= 0, and a tensor whose rank is not 1, are
        Rejected.
        """
        checked = _naturals(values)
        # Of no integers there is one place, which nobody reads: its handle is no other's.
        kept = checked or [0]
        handle, end = self._next_handle, len(self._nats) + len(checked)
        self._nats.extend(kept)
        self._ends.extend([end] * len(kept))
        self._next_handle += len(kept)
        return handle

    def get_nat_vec(self, handle: int, count: int) -> list[int]:
        """Read so many integers of a vector, from the handle on; more than it has is Rejected."""
        start, _ = self._block(handle, count)
        return self._nats[start : start + count]

    def set_nat_vec(self, handle: int, values: Integers) -> None:
        """Overwrite a vector of integers from the handle to its end, all or none.

        Another length is Rejected, as is what `nat_vec` refuses. What has been computed stays.
        """
        checked = _naturals(values)
        start, rest = self._block(handle, 0)
        if len(checked) != rest:
            rule = f"from handle {handle} on, its vector has {rest} integers"
            raise refuse("set_nat_vec", rule, len(checked))
        self._nats[start : start + rest] = checked

    def indices(self, handle: int, count: int) -> AnyTensor:
        """Return what `get_nat_vec` reads as a tensor that ops accept as indices."""
        return tensor(self.get_nat_vec(handle, count))

    def _block(self, handle: object, count: object) -> tuple[int, int]:
        """Return where a block begins in the row, and how many its vector has from there on."""
        if type(handle) is not int:
            raise refuse("nat", "a handle is an integer", repr(handle))
        if type(count) is not int or count < 0:
            raise refuse("nat", "a count is an integer >= 0", repr(count))
        start = handle - self._first
        if handle >= 0 > start:
            rule = f"a handle is used on the tape that it is from; they start at {self._first} now"
            raise refuse("nat", rule, f"{handle}, from before reset_tape()")
        if not 0 <= start < len(self._nats):
            raise refuse("nat", f"handles lie in [{self._first}, {self._next_handle})", handle)
        rest = self._ends[start] - start
        if count > rest:
            rule = f"a block lies within its vector, which has {rest} from handle {handle} on"
            raise refuse("nat", rule, count)
        return start, rest


def _naturals(values: object) -> list[int]:
    """List the integers of a vector, or refuse what is none."""
    found = _listed(values)
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refuse("nat", "a recorded integer is a natural number", repr(value))
    return found


def _listed(values: object) -> list[Any]:
    if is_tensor(values) and values.rank == 1:
        return list(values.data)
    if _is_row(values):
        return list(values)
    came = f"the shape {values.shape}" if is_tensor(values) else type(values).__name__
    raise refuse("nat", "a vector is a tensor of rank 1 or integers in a list", came)


def _is_row(x: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(x, Iterable) and not isinstance(x, (str, bytes))
