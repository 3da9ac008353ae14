"""Chapter 19. Naturals: integers that a session keeps beside its tape.

Labels, positions and counts take no gradient and are no tensors; a session records them, hands out
where they begin, and lets them be read and overwritten.

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
    """A growing row of natural numbers; a handle is a position in it."""

    def __init__(self) -> None:
        """Start with none."""
        self.forget_nats()

    def forget_nats(self) -> None:
        """Forget every recorded integer."""
        self._nats: list[int] = []

    def nat(self, value: int) -> int:
        """Record an integer that takes no gradient; return its handle, good until a reset.

        What is no integer >= 0 is Rejected.
        """
        return self.nat_vec([value])

    def get_nat(self, handle: int) -> int:
        """Read a recorded integer; a handle beyond the last is Rejected."""
        return self.get_nat_vec(handle, 1)[0]

    def set_nat(self, handle: int, value: int) -> None:
        """Overwrite a recorded integer; what has been computed from it stays as it is."""
        self.set_nat_vec(handle, [value])

    def nat_vec(self, values: Sequence[int]) -> int:
        """Record integers >= 0 side by side, all or none; return the handle of the first."""
        checked = _naturals(values)
        self._nats.extend(checked)
        return len(self._nats) - len(checked)

    def get_nat_vec(self, handle: int, count: int) -> list[int]:
        """Read recorded integers, from the handle on; more than there are is Rejected."""
        self._check_block(handle, count)
        return self._nats[handle : handle + count]

    def set_nat_vec(self, handle: int, values: Sequence[int]) -> None:
        """Overwrite recorded integers, from the handle on, all or none."""
        checked = _naturals(values)
        self._check_block(handle, len(checked))
        self._nats[handle : handle + len(checked)] = checked

    def indices(self, handle: int, count: int) -> AnyTensor:
        """Return recorded integers as a tensor that ops accept as indices."""
        return tensor(self.get_nat_vec(handle, count))

    def _check_block(self, handle: int, count: int) -> None:
        if handle < 0 or count < 0 or handle + count > len(self._nats):
            rule = f"a block lies within the {len(self._nats)} recorded integers"
            raise refuse("nat", rule, f"{count} from {handle} on")


def _naturals(values: Sequence[int]) -> list[int]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Rejected(f"nat: a recorded integer is a natural number; got {value!r}")
    return list(values)
