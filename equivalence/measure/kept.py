"""A cache of the oracle's answers, for a caller that judges many backends by the same cases.

An expectation follows from the case, the page and the contract. It does not depend on the backend.
The judge itself has no cache. `keeping` provides one while a block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract
    from spec.op import Op


MOST = 1 << 23
"""The most entries that are cached, of all expectations together."""


class Kept:
    """A cache of the expectations of one op, by case. The oldest go first.

    Only the op that was asked about last is cached, and of it only the latest entries, so that
    memory stays bounded. Pass it to `keeping`.
    """

    def __init__(self, most: int = MOST) -> None:
        """Start empty, and cache at most so many entries of results."""
        self.most = most
        self.op = ""
        self.size = 0
        self.answers: dict[Any, list[tuple[Op, Contract, Any, int]]] = {}

    def answer(self, case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
        """Return the cached answer for a case on a page under a contract, or ask for it now.

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


class Memory(Protocol):
    """A cache that may hold the oracle's answer already."""

    def answer(self, case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
        """Return the cached answer for a case, a page and a contract, or ask for it now."""


_memories: list[Memory] = []


@contextmanager
def keeping(memory: Memory) -> Iterator[None]:
    """Cache expectations in this memory while the block runs, in this process.

    memory   a `Kept`, which a caller may pass to several blocks

    The verdicts are the same as without. Backends of one op that meet the same cases under equal
    contracts share the oracle's work; so judge them one op after another.
    """
    _memories.append(memory)
    try:
        yield
    finally:
        _memories.pop()


def answered(case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
    """Return the cached answer of the oracle if there is a cache, or else ask the oracle."""
    return _memories[-1].answer(case, page, contract, ask) if _memories else ask()
