"""Time accounting: the seconds of a row in the oracle, in the backend and in the rest."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds: the total, the part in the oracle, and the part in calls of a backend."""

    whole: float = 0.0
    oracle: float = 0.0
    backend: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        """Add two spans up."""
        return Spent(
            self.whole + other.whole, self.oracle + other.oracle, self.backend + other.backend
        )

    def __sub__(self, earlier: Spent) -> Spent:
        """Return the time since an earlier reading."""
        return self + Spent(-earlier.whole, -earlier.oracle, -earlier.backend)


_seconds = {"oracle": 0.0, "backend": 0.0}
_within: list[str] = []


def reading() -> Spent:
    """Return the time of this process so far. The difference of two readings is a span."""
    return Spent(time.perf_counter(), **_seconds)


@contextmanager
def spending(where: str) -> Iterator[None]:
    """Count the time of a block for the oracle or the backend. Nested blocks count once."""
    start = time.perf_counter()
    _within.append(where)
    try:
        yield
    finally:
        _within.pop()
        if not _within:
            _seconds[where] += time.perf_counter() - start


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the search for cycles: the oracle's many small numbers hold none, and are searched for
    a third of its time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def of_oracle(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Count a function's time for the oracle."""

    @wraps(function)
    def timed(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        with spending("oracle"), uncollected():
            return function(*args, **kwargs)

    return timed
