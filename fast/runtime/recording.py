"""What every part of a session works with: the store of its parameters, and the tape at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fast.device.named import NamedBuffer
from fast.device.options import Options
from fast.runtime.param import Param
from fast.runtime.store import Store
from fast.tape import Tape


class Recording:
    """A store, and a tape that is replaced when it is reset."""

    def __init__(self, options: Options) -> None:
        """Start without parameters, on an empty tape."""
        self.options = options
        self.store = Store(options)
        self._start()

    def _start(self) -> None:
        self._tape = Tape(self)
        self.store.overwritten = False

    @property
    def puts_off(self) -> bool:
        """Whether a run waits to be computed; an eager session computes at once."""
        return False

    def settle(self) -> None:
        """Compute what a run has put off; an eager session puts nothing off."""

    @property
    def params(self) -> list[Param]:
        """The session's parameters, in the order in which they were made."""
        return self.store.params

    @property
    def buffers(self) -> list[NamedBuffer]:
        """The session's named buffers, in the order in which they were made."""
        return self.store.buffers

    @contextmanager
    def _on(self, tape: Tape) -> Iterator[None]:
        """Record on another tape; on any exit, go back to the present one, and buffers as well.

        Inside, ops update buffers as anywhere, and read what earlier ones have left there.
        """
        own = self._tape
        users = [(parameter, parameter.used_on) for parameter in self.params]
        contents = [(buffer, buffer.contents) for buffer in self.buffers]
        self._tape = tape
        try:
            yield
        finally:
            self._tape = own
            # A parameter remembers the last tape that used it, to tell a second use from a first.
            for parameter, last in users:
                parameter.used_on = last
            for buffer, before in contents:
                buffer.replace(before)
