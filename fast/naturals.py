"""Twin of spec.naturals: numbers that a program reads but never differentiates, such as labels.

They are recorded beside the tape, read when an op runs, and may be overwritten between ops; what an
op has read stays as it was. A ref dies with its tape.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from torch import Tensor

from fast.device.bridge import to_indices
from fast.device.options import Options
from fast.errors import Rejected, SessionError
from fast.tape import Tape


class NatRef:
    """The handle of one natural."""

    __slots__ = ("index", "tape")

    def __init__(self, tape: Tape, index: int) -> None:
        self.tape = tape
        self.index = index


class NatVecRef(NatRef):
    """The handle of a vector of naturals."""

    __slots__ = ("length",)

    def __init__(self, tape: Tape, index: int, length: int) -> None:
        super().__init__(tape, index)
        self.length = length


class Naturals:
    """The naturals of a session's tape, each a small device tensor: replaced, never written."""

    options: Options
    _tape: Tape

    def nat(self, value: int) -> NatRef:
        """Record a natural, an int >= 0 that ops read and never differentiate.

        What is none, or does not fit int64, is Rejected. The ref dies with the tape: a later use
        raises SessionError.
        """
        self._tape.naturals.append(self._scalar(value))
        return NatRef(self._tape, len(self._tape.naturals) - 1)

    def get_nat(self, ref: NatRef) -> int:
        """Read a natural back.

        A ref of a vector, or no ref at all, is Rejected; one from before a reset raises
        SessionError.
        """
        return int(self._of(NatRef, ref).item())

    def set_nat(self, ref: NatRef, value: int) -> None:
        """Overwrite a natural by an int >= 0, or it is Rejected; what an op has read stays.

        Refusals of refs are `get_nat`'s.
        """
        self._of(NatRef, ref)
        self._tape.naturals[ref.index] = self._scalar(value)

    def nat_vec(self, values: Any) -> NatVecRef:
        """Record a vector of naturals, such as labels, from a list, an array or an integer tensor.

        It is copied; another rank than 1, and an entry below 0 or beyond int64, are Rejected. The
        ref dies with the tape.
        """
        vector = self._vector(values)
        self._tape.naturals.append(vector)
        return NatVecRef(self._tape, len(self._tape.naturals) - 1, vector.numel())

    def get_nat_vec(self, ref: NatVecRef, count: int | None = None) -> list[int]:
        """Read a vector of naturals back, or its first entries; refusals are `indices`'."""
        found: list[int] = self.indices(ref, count).tolist()
        return found

    def set_nat_vec(self, ref: NatVecRef, values: Any) -> None:
        """Overwrite a vector of naturals by one of the same length, or it is Rejected.

        What an op has read stays as it was. Refusals of refs are `indices`'.
        """
        self._of(NatVecRef, ref)
        vector = self._vector(values)
        if vector.numel() != ref.length:
            raise Rejected(
                f"set_nat_vec: the vector has {ref.length} entries, got {vector.numel()}"
            )
        self._tape.naturals[ref.index] = vector

    def indices(self, ref: NatVecRef, count: int | None = None) -> Tensor:
        """Return recorded naturals as an integer tensor that ops accept as indices.

        It has the shape (count,), or the vector's, is the session's own memory and must not be
        written. A count that the vector has not, and a ref of a single natural, are Rejected; a ref
        from before a reset, or of another session, raises SessionError.
        """
        held = self._of(NatVecRef, ref)
        if count is None:
            return held
        if not _is_int(count) or not 0 <= count <= held.numel():
            raise Rejected(
                f"nat_vec: a count is an int from 0 to {held.numel()}, the vector's length; "
                f"got {count!r}"
            )
        return held[:count]

    def _of(self, kind: type[NatRef], ref: NatRef) -> Tensor:
        """Return what a ref of exactly this kind stands for."""
        held = self._held(ref)
        if type(ref) is not kind:
            maker = "nat_vec()" if kind is NatVecRef else "nat()"
            raise Rejected(f"naturals: a ref from {maker} is needed, got a {type(ref).__name__}")
        return held

    def _held(self, ref: NatRef) -> Tensor:
        if not isinstance(ref, NatRef):
            raise Rejected(f"naturals: a ref from nat() or nat_vec() is needed, got {ref!r}")
        if ref.tape is not self._tape:
            raise SessionError(
                "naturals: this ref was recorded before reset_tape(), or by another session"
            )
        return self._tape.naturals[ref.index]

    def _scalar(self, value: Any) -> Tensor:
        if not _is_int(value) or value < 0:
            raise Rejected(f"nat: a natural is an int >= 0, got {value!r}")
        return to_indices(int(value), self.options.device)

    def _vector(self, values: Any) -> Tensor:
        vector = to_indices(values, self.options.device)
        if vector.dim() != 1:
            raise Rejected(f"nat_vec: a vector is needed, got the shape {tuple(vector.shape)}")
        if vector.numel() and int(vector.min()) < 0:
            raise Rejected(
                f"nat_vec: naturals are >= 0, got {int(vector.min())}; labels that use a negative "
                "ignore_index go to the op as an integer tensor"
            )
        return vector


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
