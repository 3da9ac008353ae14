"""A watched backend: its calls are timed, held to the limit, and finished when they return.

A call marks that it runs, so that the pool can end a process whose call takes too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.protocol import Call, Results
from equivalence.cases.guard import controlled
from equivalence.measure.spent import spending
from equivalence.workers.notes import calling


class Watched:
    """Passes every call on to a backend, and waits until the device has finished it."""

    def __init__(self, backend: Any) -> None:
        """Watch a backend."""
        self._backend = backend
        self._device = str(backend.capabilities().device)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the backend."""
        return getattr(self._backend, name)

    def value(self, *call: Any) -> Results:
        """Compute an operation."""
        with self.watching():
            found: Results = self._backend.value(*call)
        return found

    def vjp(self, *call: Any) -> Sequence[Tensor | None]:
        """Pull cotangents back."""
        with self.watching():
            found: Sequence[Tensor | None] = self._backend.vjp(*call)
        return found

    def jvp(self, *call: Any) -> Results:
        """Push tangents forward."""
        with self.watching():
            found: Results = self._backend.jvp(*call)
        return found

    def prepare(self, calls: Sequence[Call]) -> None:
        """Let the backend get ready for calls, under the settings of a call, with more time.

        It may compile many of them at once.
        """
        with controlled(), spending("backend"):
            self._backend.prepare(calls)

    def optimizer(self, *call: Any) -> _Handle:
        """Put parameters under an optimizer."""
        with self.watching():
            return _Handle(self._backend.optimizer(*call), self)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch one call, whoever makes it under the same settings of torch.

        A compiler of torch code compiles once more for every other setting.
        """
        with controlled(), spending("backend"), calling():
            yield
            if self._device.startswith("cuda"):
                torch.cuda.synchronize(self._device)


class _Handle:
    """Passes every call on to an optimizer's handle, and watches it."""

    def __init__(self, handle: Any, backend: Watched) -> None:
        self._handle, self._owner = handle, backend

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        if not callable(found):
            return found

        def watched(*given: Any, **named: Any) -> Any:
            with self._owner.watching():
                return found(*given, **named)

        return watched
