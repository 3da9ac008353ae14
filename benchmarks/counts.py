"""What one step costs without a clock: ATen dispatches and Python calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NamedTuple

from torch.utils._python_dispatch import TorchDispatchMode

from equivalence.measure.spent import uncollected

WARM = 5
"""How many steps come first, so that what is made once is there."""


class Counts(NamedTuple):
    """How many ATen operations a step dispatches, and how many functions of Python it calls."""

    dispatches: int
    calls: int


class _Dispatches(TorchDispatchMode):
    """Counts every ATen operation that is dispatched under it."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.number += 1
        return func(*args, **(kwargs or {}))


def _calls(step: Callable[[], object]) -> int:
    """How many functions of Python a step calls."""
    calls = 0

    def tick(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        step()
    finally:
        sys.setprofile(before)
    return calls


def counted(step: Callable[[], object]) -> Counts:
    """Count a warm step.

    No garbage is collected meanwhile: who listens to the collector would be counted with the step.
    """
    for _ in range(WARM):
        step()
    with uncollected():
        with _Dispatches() as dispatches:
            step()
        return Counts(dispatches.number, _calls(step))
