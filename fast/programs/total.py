"""The loss of a batch in pieces, added up on the device."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor

from fast.device import bridge
from fast.device.buffer import Buffer
from fast.ref import Ref
from fast.session import Session


class Total:
    """A weighted sum of losses, which stays on the device until it is asked for."""

    def __init__(self, session: Session) -> None:
        """Start with nothing."""
        self._session = session
        self._sum: Buffer | None = None
        self._next: tuple[Ref, float | Fraction] | None = None

    def add(self, out: Ref, weight: float | Fraction) -> None:
        """Add a weighted loss, a scalar on the session's tape, in the precision of parameters.

        What the session has put off is added by `settle`, which comes before the tape's end: then
        an update may be the first to ask for it.
        """
        self._next = out, weight
        if not self._session.puts_off:
            self.settle()

    def settle(self) -> None:
        """Add what was put off."""
        if self._next is None:
            return
        (out, weight), self._next = self._next, None
        wide = self._session.options.master
        self._session.settle()
        # A copy: the loss may be a parameter itself, which the update overwrites.
        share = out.tape.values[out.id].to(wide, copy=True)
        if weight != 1:
            share *= bridge.round_number(weight, wide)
        if self._sum is not None:
            share += self._sum.tensor
        self.release()
        self._sum = Buffer(share, "the trainer")

    def download(self) -> Tensor:
        """Return the sum as a new host scalar, rounded once, unless an index was out of range."""
        self.settle()
        assert self._sum is not None
        self._session.check_flag()
        return bridge.download(self._sum.tensor.to(self._session.options.compute))

    def release(self) -> None:
        """Free the memory; a second call does nothing."""
        if self._sum is not None:
            self._sum.release()
