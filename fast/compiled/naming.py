"""Names an artifact by everything that it depends on: what differs in any of it is another one.

The C++ compiler is left out: who finds an artifact needs none.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from fast.compiled import inductor


def key(graph: GraphModule, wanted: Any, given: Sequence[Tensor]) -> str:
    """Return the name of a graph's artifact for tensors like those given, used as `wanted` says."""
    kinds = [(tuple(t.shape), t.stride(), str(t.dtype)) for t in given]
    parts = (
        str(graph.graph), [*_constants(graph)], wanted, kinds, sorted(inductor.OPTIONS.items()),
        torch.__version__, torch.get_num_threads(), torch.backends.cpu.get_cpu_capability(),
        platform.machine(), instructions(),
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _constants(graph: GraphModule) -> Iterator[tuple[Any, ...]]:
    """Yield the tensors that a graph holds, of which its text has only the names."""
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            held = getattr(graph, node.target)
            entries = held.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
            yield node.target, tuple(held.shape), held.stride(), str(held.dtype), entries


@cache
def instructions() -> str:
    """Say what this processor can, as far as is known: a compiler uses all of it.

    torch's capability is coarser: with one, and a home that two machines share, one of them could
    load code that it does not have the instructions for.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
