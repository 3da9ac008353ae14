"""A CUDA graph without a GPU: what a function starts is written down, and started again.

Every call of torch and every launch of a kernel is repeated with the very arguments that it had, on
the very memory: a number that was read on the host is the old one, and a tensor that was made from
host data is too. A real capture refuses to read numbers on the host, and so does this. It cannot
run nothing while it writes down, so the first repetition is the capture itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fast.device import launch

aten = torch.ops.aten

ON_THE_HOST = (
    aten._local_scalar_dense.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
)
"""What reads a number of the device, and what makes a tensor of numbers of the host."""


class Writer(TorchDispatchMode):
    """Writes down calls of torch, and launches as `launched` is told of them."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Callable[[], None]] = []
        self._within = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._within:
            return function(*args, **kwargs)
        if function in ON_THE_HOST:
            raise RuntimeError(f"{function}: not permitted while a stream is captured")
        found = function(*args, **kwargs)
        self.events.append(lambda: _again(function, args, kwargs, found))
        return found

    def launched(self, kernel: Any, grid: Any, args: Sequence[Any], meta: dict[str, Any]) -> None:
        """Run a kernel interpreted, and write it down."""

        def run() -> None:
            kernel[grid](*args, **meta)

        self.events.append(run)
        self._within = True
        try:
            run()
        finally:
            self._within = False


def _again(function: Any, args: Any, kwargs: Any, before: Any) -> None:
    """Repeat a call, and leave its results where they were."""
    found = function(*args, **kwargs)
    pairs = [(before, found)] if isinstance(found, Tensor) else zip(before, found, strict=True)
    for old, new in pairs:
        if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
            old.copy_(new)


class Emulator:
    """Stands for `fast.compiled.graph.cuda.capture`; `captures` and `starts` count."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.captures = self.starts = 0
        self._patch = patch

    def capture(self, body: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """Run a function, write down what it starts, and return what starts that again."""
        writer, self.captures = Writer(), self.captures + 1
        with self._patch.context() as patch, writer:
            patch.setattr(launch, "ring", lambda: "compiled")
            patch.setattr(launch, "instead", writer.launched)
            found = body()
        started = [False]

        def start() -> None:
            self.starts += 1
            if started[0]:
                for event in writer.events:
                    event()
            started[0] = True

        return start, found
