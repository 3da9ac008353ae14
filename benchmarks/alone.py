"""Calls in a process of their own: what an error does to a device, the next call does not feel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from multiprocessing import get_context
from typing import Any

from benchmarks.report import Row


class Alone(AbstractContextManager["Alone"]):
    """One process for calls that return rows; after an error, another takes its place.

    A failed assertion on a GPU fails whatever its process asks of the GPU afterwards.
    """

    def __init__(self) -> None:
        """Start nothing yet."""
        self._pool: ProcessPoolExecutor | None = None

    def rows(self, name: str, call: Callable[..., list[Row]], *given: Any) -> list[Row]:
        """Return the rows of a call, or one that has the error.

        A row with an error is the last that its process has made.
        """
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        try:
            found = self._pool.submit(call, *given).result()
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"{name}: {said}", file=sys.stderr, flush=True)
            found = [{"name": name, "status": "error", "error": said}]
        if any("error" in row for row in found):
            self._end()
        return found

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._end()
