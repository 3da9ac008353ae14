"""The loss of a batch in pieces, added up on the device."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor

from fast import bridge
from fast.buffer import Buffer
from fast.ref import Ref
from fast.session import Session


class Total:
    """A weighted sum of losses, which stays on the device until it is asked for."""

    def __init__(self, session: Session) -> None:
        """Start with nothing."""
        self._session = session
        self._sum: Buffer | None = None

    def add(self, out: Ref, weight: float | Fraction) -> None:
        """Add a weighted loss, a scalar on the session's tape."""
        session = self._session
        if weight != 1:
            out = session.mul(out, session.constant(weight))
        if self._sum is not None:
            out = session.add(session.input(self._sum), out)
        # A copy: the loss may be a parameter itself, which the update overwrites.
        total = Buffer(out.tape.values[out.id].clone(), "the trainer")
        self.release()
        self._sum = total

    def download(self) -> Tensor:
        """Return the sum as a new host scalar, unless an index was out of range."""
        assert self._sum is not None
        self._session.check_flag()
        return bridge.download(self._sum)

    def release(self) -> None:
        """Free the memory; a second call does nothing."""
        if self._sum is not None:
            self._sum.release()
