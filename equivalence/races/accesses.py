"""When two program instances conflict: the rule, over the accesses that they made.

A device runs instances in any order and at once. So two of them conflict at a byte that both touch
and at least one writes, unless both only update it atomically. What is written does not matter: a
store of the value that lies there already is undefined in the memory model as well, and the numbers
of a test may merely happen to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Way = Literal["read", "write", "update"]
"""How memory is touched; an update is atomic."""


class Access(NamedTuple):
    """What one instance touched by one operation: elements of `size` bytes at `addresses`."""

    instance: tuple[int, ...]
    way: Way
    addresses: NDArray[np.int64]
    size: int
    operation: Any = None


class Conflict(NamedTuple):
    """Two accesses of different instances that race, and how many bytes are raced for."""

    first: Access
    second: Access
    bytes_raced: int


def conflict(accesses: Sequence[Access]) -> Conflict | None:
    """Return the conflict at the lowest address, or None where no two instances conflict."""
    if len({access.instance for access in accesses}) < 2:
        return None
    places, instances, numbers = _bytes(accesses)
    order = np.argsort(places, kind="stable")
    places, instances, numbers = places[order], instances[order], numbers[order]
    begins = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    several = np.minimum.reduceat(instances, begins) != np.maximum.reduceat(instances, begins)
    writes = np.array([access.way != "read" for access in accesses])
    plain = np.array([access.way != "update" for access in accesses])
    written = np.logical_or.reduceat(writes[numbers], begins)
    unordered = np.logical_or.reduceat(plain[numbers], begins)
    racing = np.flatnonzero(several & written & unordered)
    if not racing.size:
        return None
    begin = begins[racing[0]]
    here = np.flatnonzero(places == places[begin])
    return Conflict(*_pair([accesses[number] for number in numbers[here]]), int(racing.size))


def _bytes(
    accesses: Sequence[Access],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """List every byte touched: its address, its instance and its access, by number."""
    known: dict[tuple[int, ...], int] = {}
    places, instances, numbers = [], [], []
    for number, access in enumerate(accesses):
        touched = (access.addresses[:, None] + np.arange(access.size)).reshape(-1)
        places.append(touched)
        instance = known.setdefault(access.instance, len(known))
        instances.append(np.full(touched.size, instance, dtype=np.int64))
        numbers.append(np.full(touched.size, number, dtype=np.int64))
    return np.concatenate(places), np.concatenate(instances), np.concatenate(numbers)


def _pair(here: Sequence[Access]) -> tuple[Access, Access]:
    """Return two accesses of one byte that conflict, a write first where there is one."""
    ways = ("write", "update", "read")
    ordered = sorted(here, key=lambda access: ways.index(access.way))
    return next(
        (first, second)
        for first in ordered
        for second in ordered
        if first.instance != second.instance
        and first.way != "read"
        and not first.way == second.way == "update"
    )
