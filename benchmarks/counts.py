"""What an action costs without a clock: the ATen operations and the Python functions that it calls.

Counts are the same on a busy machine and on an idle one, so `make test` holds them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

WARM = 5
"""How often an action is run first, so that what is made once is not counted."""


class _Dispatches(TorchDispatchMode):
    """Counts every ATen operation that is dispatched under it."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        return func(*args, **(kwargs or {}))


def dispatches(action: Callable[[], object]) -> int:
    """Count the ATen operations that an action dispatches."""
    for _ in range(WARM):
        action()
    with _Dispatches() as counted:
        action()
    return counted.number


def calls(action: Callable[[], object]) -> int:
    """Count the Python functions that an action calls, itself among them."""
    for _ in range(WARM):
        action()
    number = 0

    def tick(frame: FrameType, event: str, argument: object) -> None:
        nonlocal number
        number += event == "call"

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        action()
    finally:
        sys.setprofile(before)
    return number
