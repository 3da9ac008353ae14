"""CUDA graphs: launches are written down once, and all of them are started by one call.

What is captured runs again on the memory that it ran on, with the numbers that it was given. So
whatever may change from step to step lies in memory that the host writes before, and nothing may be
read on the host in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from fast.device.options import Options
from fast.errors import Unavailable

T = TypeVar("T")

Captured = tuple[Callable[[], None], T]
"""What starts all launches again, and what the function returned: memory that they write anew."""


def require(options: Options) -> None:
    """Raise Unavailable unless a session's launches can be captured."""
    if options.provider != "triton" or options.device.type != "cuda":
        raise Unavailable(
            "engine 'graph': it captures the kernels of the provider triton on a CUDA device, and "
            f"this session has provider {options.provider!r} on {options.device}; engine 'replay' "
            "runs"
        )


def capture(body: Callable[[], T]) -> Captured[T]:
    """Write down what a function starts, which has run before; nothing is run now."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = body()
    return graph.replay, found
