"""Fences: what our own pages allocate through torch lies between patterned bands as well.

`guard` surrounds the tensors that a backend is handed. A kernel's stores go to tensors that it
allocates itself, and one that stores past their end corrupts whatever lies there: in the
interpreter that often kills the process, later and elsewhere; on a device it may go unnoticed.
While `fenced` runs, fresh tensors are views inside larger allocations, whose bands are compared
when it ends.

It sees the allocations that Python asks torch for, as our hosts do. Other backends may trace or
compile what they run, so it belongs to our adapters, and not to the suite's calls of any backend.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from equivalence.cases.guard import Trespass

BAND = 2048
"""Elements on each side: twice the longest block, so that a whole block may miss its mask."""

FRESH = frozenset(
    {
        torch.empty,
        torch.empty_like,
        torch.empty_strided,
        torch.zeros,
        torch.zeros_like,
        torch.ones,
        Tensor.new_empty,
        Tensor.new_zeros,
    }
)
"""The calls by which our hosts allocate what their kernels write."""


class Fence(TorchFunctionMode):
    """Puts every fresh tensor between two bands, and remembers what they held."""

    def __init__(self) -> None:
        """Start with nothing fenced."""
        super().__init__()
        self.bands: list[tuple[str, Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call of torch, and fence its result where that is fresh memory."""
        result = func(*args, **(kwargs or {}))
        return self._fenced(result) if func in FRESH else result

    def check(self) -> None:
        """Raise Trespass if a band around fresh memory changed."""
        for where, band, before in self.bands:
            changed = torch.nonzero(band.view(torch.uint8) != before).flatten()
            if changed.numel():
                count = torch.unique(changed // band.element_size()).numel()
                raise Trespass(f"{count} elements overwritten {where}")

    def _fenced(self, fresh: Tensor) -> Tensor:
        sizes, strides = fresh.shape, fresh.stride()
        steps = sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
        end = BAND + (1 + steps if fresh.numel() else 0)
        pattern = math.nan if fresh.is_floating_point() else 1
        base = torch.full((end + BAND,), pattern, dtype=fresh.dtype, device=fresh.device)
        shape = f"fresh memory of shape {list(sizes)}"
        for where, band in (("before", base[:BAND]), ("past the end of", base[end:])):
            self.bands.append((f"{where} {shape}", band, band.view(torch.uint8).clone()))
        return base.as_strided(sizes, strides, BAND).copy_(fresh)


@contextmanager
def fenced() -> Iterator[None]:
    """Fence what is allocated while the block runs, and check it at the end."""
    fence = Fence()
    with fence:
        yield
    fence.check()
