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


class Memory(Protocol):
    """A cache that may hold the oracle's answer already."""

    def answer(self, case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
        """Return the cached answer for a case, a page and a contract, or ask for it now."""


_memories: list[Memory] = []


@contextmanager
def keeping(memory: Memory) -> Iterator[None]:
    """Cache expectations in this memory while the block runs."""
    _memories.append(memory)
    try:
        yield
    finally:
        _memories.pop()


def answered(case: Any, page: Op, contract: Contract, ask: Callable[[], Any]) -> Any:
    """Return the cached answer of the oracle if there is a cache, or else ask the oracle."""
    return _memories[-1].answer(case, page, contract, ask) if _memories else ask()
