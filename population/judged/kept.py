"""What the oracle said of a case, kept while backends of one op are judged one after another.

An expectation follows from the case, the page and the contract, and from nothing that a backend
does; so where many backends meet the same cases, the oracle answers once.  Only the op that was
asked about last is kept, and of what it said only the latest entries, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract
    from spec.op import Op

MOST = 1 << 23
"""How many entries are kept at most, of all expectations together."""


class Kept:
    """The expectations of one op, by case; the oldest go first."""

    def __init__(self, most: int = MOST) -> None:
        """Start with nothing, and keep so many entries at most."""
        self.most = most
        self.op = ""
        self.size = 0
        self.answers: dict[Any, list[tuple[Op, Contract, Any, int]]] = {}

    def answer(self, case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
        """Return what the oracle said of a case on a page under a contract, or ask it now.

        Contracts are compared, not hashed: one that differs in anything is asked about anew.
        """
        if page.name != self.op:
            self.answers.clear()
            self.op, self.size = page.name, 0
        for asked, under, found, _ in self.answers.get(case, ()):
            if asked is page and under == contract:
                return found
        found = ask()
        entries = sum(_entries(result) for result in found)
        self._make_room(entries)
        if entries <= self.most:
            self.answers.setdefault(case, []).append((page, contract, found, entries))
            self.size += entries
        return found

    def _make_room(self, entries: int) -> None:
        """Forget the oldest cases until so many entries fit."""
        while self.answers and self.size + entries > self.most:
            oldest = self.answers.pop(next(iter(self.answers)))
            self.size -= sum(count for *_, count in oldest)


def _entries(result: Any) -> int:
    """Return how many entries a result has that is expected, None among them."""
    if result is None:
        return 0
    size = 1
    for extent in result.shape:
        size *= extent
    return size
