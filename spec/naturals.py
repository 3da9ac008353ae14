"""Chapter 19. Naturals: integers that a session keeps beside its tape.

Labels, positions and counts take no gradient and are no tensors; a session records them, hands out
where they begin, and lets them be read and overwritten.
Handles are counted on across resets, so that an old one never reads what came after.

>>> store = Naturals()
>>> first = store.nat_vec([3, 1, 2])
>>> store.set_nat(first + 1, 7)
>>> store.get_nat_vec(first, 3), store.indices(first, 2)
([3, 7, 2], Tensor([3, 7]))
"""

from __future__ import annotations

from collections.abc import Sequence

from spec.op import AnyTensor, Rejected, refuse
from spec.tensor import tensor


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

    def nat(self, value: int) -> int:
        """Record an integer that takes no gradient; return its handle, good until a reset.

        What is no integer >= 0 is Rejected. A session never hands a handle out again.
        """
        return self.nat_vec([value])

    def get_nat(self, handle: int) -> int:
        """Read a recorded integer; a handle beyond the last or from before a reset is Rejected."""
        return self.get_nat_vec(handle, 1)[0]

    def set_nat(self, handle: int, value: int) -> None:
        """Overwrite a recorded integer; what has been computed from it stays as it is."""
        self.set_nat_vec(handle, [value])

    def nat_vec(self, values: Sequence[int]) -> int:
        """Record integers >= 0 side by side, all or none; return the handle of the first."""
        checked = _naturals(values)
        handle = self._first + len(self._nats)
        self._nats.extend(checked)
        # That of no integers is a handle too, which nothing after a reset may have.
        self._next_handle = handle + max(len(checked), 1)
        return handle

    def get_nat_vec(self, handle: int, count: int) -> list[int]:
        """Read recorded integers, from the handle on; more than there are is Rejected."""
        start = self._start(handle, count)
        return self._nats[start : start + count]

    def set_nat_vec(self, handle: int, values: Sequence[int]) -> None:
        """Overwrite recorded integers, from the handle on, all or none."""
        checked = _naturals(values)
        start = self._start(handle, len(checked))
        self._nats[start : start + len(checked)] = checked

    def indices(self, handle: int, count: int) -> AnyTensor:
        """Return recorded integers as a tensor that ops accept as indices."""
        return tensor(self.get_nat_vec(handle, count))

    def _start(self, handle: int, count: int) -> int:
        """Return where a block begins in the row, which has to hold all of it."""
        start = handle - self._first
        if handle >= 0 > start:
            rule = f"a handle is used on the tape that it is from; they start at {self._first} now"
            raise refuse("nat", rule, f"{handle}, from before reset_tape()")
        if start < 0 or count < 0 or start + count > len(self._nats):
            rule = f"a block lies within the {len(self._nats)} recorded integers"
            raise refuse("nat", f"{rule}, from {self._first} on", f"{count} from {handle} on")
        return start


def _naturals(values: Sequence[int]) -> list[int]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Rejected(f"nat: a recorded integer is a natural number; got {value!r}")
    return list(values)
