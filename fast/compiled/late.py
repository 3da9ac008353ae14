"""A tape that is written down when somebody looks at it: in a training loop, nobody does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fast.device.counters import counters
from fast.tape import Tape

LATE = frozenset(("values", "rules", "names", "uses"))
"""What is left out until somebody looks."""


class LateTape(Tape):
    """The tape of one call of a lowered program, whose entries `write` writes down.

    Until then `extra` is the number of storages that it holds, as if it had no values.
    """

    __slots__ = ("write", "written")

    def __init__(self, session: Any) -> None:
        # One of these is made in every training step.
        self.session = session
        self.write: Callable[[Tape], None] | None = None
        self.written = False
        self.leaves = {}
        self.naturals = []
        self.bytes = self.extra = self._told_bytes = self._told_buffers = 0
        counters.watch(self)

    def __getattr__(self, name: str) -> Any:
        if name not in LATE or self.written:
            raise AttributeError(name)
        if self.write is None:
            self.values, self.rules, self.names, self.uses = [], [], [], {}
        else:
            # It may be interrupted, and is then begun again.
            self.write(self)
        self.written = True
        return getattr(self, name)

    def clear(self) -> None:
        """Drop every value and rule; what nobody has looked at is never written down."""
        self.write = None
        if self.written:
            super().clear()
            return
        counters.passed(self.bytes, self.extra)
        self.session = None
        self.leaves, self.naturals = {}, []
        self.bytes = self.extra = 0

    def __del__(self) -> None:
        if getattr(self, "write", None) is not None:
            self.clear()
