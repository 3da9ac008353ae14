"""How many bytes kernels move, and how few they could, as the interpreter counts them.

    python -m fast.binaries.traffic FILE OPS

Moved is what all program instances load and store, without masked lanes, as if there were no cache.
Least is every byte that was loaded, once, and every byte that was stored, once: a kernel that reads
its input twice moves more. What a product moves beyond that is what tiles share; caches take some.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fast.binaries import driving

WAYS = ("loaded", "stored")


class Tally:
    """What one launch has loaded and stored: each access's addresses, and bytes per element."""

    def __init__(self, args: Sequence[Any]) -> None:
        """Begin with nothing; of the launch's arguments, the largest tensor has its elements."""
        self._elements = max(_elements(one) for one in args if isinstance(one, Tensor))
        self._touched: dict[str, list[tuple[Any, int]]] = {way: [] for way in WAYS}

    def add(self, way: str, pointers: Any, mask: Any) -> None:
        """Count an access of the interpreter."""
        size = pointers.get_element_ty().primitive_bitwidth // 8
        live = np.broadcast_to(mask.data, pointers.data.shape)
        self._touched[way].append((pointers.data[live], size))

    def summary(self) -> dict[str, int]:
        """Return the bytes moved, the least, and the elements of the largest tensor."""
        moved = least = 0
        for touched in self._touched.values():
            moved += sum(len(places) * size for places, size in touched)
            for size in {size for _, size in touched}:
                distinct = np.unique(np.concatenate([p for p, own in touched if own == size]))
                least += len(distinct) * size
        return {"moved": moved, "least": least, "elements": self._elements}


def _elements(tensor: Tensor) -> int:
    """Count the elements of a tensor; what stride 0 repeats is one."""
    return math.prod(n for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step)


@contextmanager
def counting() -> Iterator[list[Tally]]:
    """Count every launch of this process, which interprets, in a tally of its own."""
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    load, store, call = builder.create_masked_load, builder.create_masked_store, executor.__call__
    tallies: list[Tally] = []

    def counted_load(self: Any, pointers: Any, mask: Any, *more: Any) -> Any:
        tallies[-1].add("loaded", pointers, mask)
        return load(self, pointers, mask, *more)

    def counted_store(self: Any, pointers: Any, value: Any, mask: Any, *more: Any) -> Any:
        tallies[-1].add("stored", pointers, mask)
        return store(self, pointers, value, mask, *more)

    def counted_call(self: Any, *args: Any, **meta: Any) -> Any:
        tallies.append(Tally(args))
        return call(self, *args, **meta)

    builder.create_masked_load, builder.create_masked_store = counted_load, counted_store
    executor.__call__ = counted_call
    try:
        yield tallies
    finally:
        builder.create_masked_load, builder.create_masked_store = load, store
        executor.__call__ = call


def traffic(name: str) -> list[dict[str, int]]:
    """Count the launches of an op's or an optimizer's examples, in their order."""
    found: list[dict[str, int]] = []
    for example in driving.examples(name):
        with counting() as tallies:
            example.start()
        found += [tally.summary() for tally in tallies]
    return found


def main(path: str, ops: Sequence[str]) -> None:
    """Write what every op moves to a file of JSON."""
    found = {name: traffic(name) for name in ops}
    Path(path).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","))
