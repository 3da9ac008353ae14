"""Where an answer of the oracle may be kept, for who judges many backends by the same cases.

An expectation follows from the case, the page and the contract, and from nothing that a backend
does. The judge itself keeps none: `keeping` hands a memory in for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract
    from spec.op import Op


class Memory(Protocol):
    """What may know the oracle's answer already."""

    def answer(self, case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
        """Return what the oracle said of a case on a page under a contract, or ask it now."""


_memories: list[Memory] = []


@contextmanager
def keeping(memory: Memory) -> Iterator[None]:
    """Keep expectations in this memory while the block runs."""
    _memories.append(memory)
    try:
        yield
    finally:
        _memories.pop()


def answered(case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
    """Ask the oracle, or return what it said before where that is kept."""
    return _memories[-1].answer(case, page, contract, ask) if _memories else ask()
