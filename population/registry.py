"""Who belongs to the population: everybody in the rooms `wrong` and `right`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from types import ModuleType

from population import right, wrong
from population.record import Member


def _files(room: ModuleType) -> Iterator[ModuleType]:
    """Yield the files of a room, and of the rooms in it."""
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        if not found.ispkg:
            yield importlib.import_module(found.name)


@cache
def everyone() -> tuple[Member, ...]:
    """Return all members, the wrong ones first, file by file in the order of their lines."""
    rooms = (wrong, right)
    return tuple(
        member
        for room in rooms
        for file in _files(room)
        for member in vars(file).values()
        if isinstance(member, Member)
    )


def named(name: str) -> Member:
    """Return the member of a name."""
    return next(member for member in everyone() if member.name == name)


def chosen(patterns: Sequence[str] | None) -> list[Member]:
    """Return the members whose names match one of the patterns (None: all)."""
    return [
        member
        for member in everyone()
        if patterns is None or any(fnmatchcase(member.name, p) for p in patterns)
    ]


def reported(member: Member) -> bool:
    """Say whether mistakes of a member's class were reported at a link that it names."""
    return "https://" in member.source
