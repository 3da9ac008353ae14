"""Fences: what a backend allocates through torch lies between patterned bands as well.

`guard` surrounds the tensors that a backend is handed. A kernel's stores go to tensors that it
allocates itself, and one that stores past their end corrupts whatever lies there: in the
interpreter that often kills the process, later and elsewhere; on a device it may go unnoticed.
While `fenced` runs, fresh tensors are views inside larger allocations, whose bands are compared
when it ends.

It sees the allocations that Python asks torch for, as hosts of kernels do, and neither those of
code that was compiled nor those of torch's own operations. A backend that traces or compiles what
it runs may not bear the views that it is given. So our adapters fence their own calls, and every
other backend is fenced where `--fence` asks for it (`Fenced`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
        torch.ones_like,
        torch.full,
        torch.full_like,
        Tensor.new_empty,
        Tensor.new_empty_strided,
        Tensor.new_zeros,
        Tensor.new_ones,
        Tensor.new_full,
    }
)
"""The calls by which hosts allocate what their kernels write."""


class Fence(TorchFunctionMode):
    """Puts every fresh tensor between two bands, and remembers what they held."""

    def __init__(self) -> None:
        """Start with nothing fenced."""
        super().__init__()
        self.bands: list[tuple[str, Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call of torch, and fence its result where that is fresh memory."""
        result = func(*args, **(kwargs or {}))
        plain = func in FRESH and result.layout is torch.strided and not result.is_meta
        return self._fenced(result) if plain else result

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
        inside = base.as_strided(sizes, strides, BAND).copy_(fresh)
        return inside.requires_grad_(fresh.requires_grad)


@contextmanager
def fenced(fence: Fence | None = None) -> Iterator[None]:
    """Fence what is allocated while the block runs, and check it at the end.

    A fence that is given is checked with all that it fenced before.
    """
    fence = Fence() if fence is None else fence
    with fence:
        yield
    fence.check()


class Fenced:
    """A backend whose fresh memory is fenced in every call."""

    def __init__(self, backend: Any) -> None:
        """Fence a backend."""
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        """Have whatever else the backend has, forward mode and optimizers only where it does."""
        found = getattr(self._backend, name)
        if name == "jvp":
            return _in_fence(found)
        return _in_one_fence(found) if name == "optimizer" else found

    def value(self, *call: Any) -> Any:
        """Compute an operation."""
        return _in_fence(self._backend.value)(*call)

    def vjp(self, *call: Any) -> Any:
        """Pull cotangents back."""
        return _in_fence(self._backend.vjp)(*call)


def _in_fence(call: Callable[..., Any], fence: Fence | None = None) -> Callable[..., Any]:
    """Return a call within a fence, of its own where none is given."""

    def within(*given: Any, **named: Any) -> Any:
        with fenced(fence):
            return call(*given, **named)

    return within


def _in_one_fence(optimizer: Callable[..., Any]) -> Callable[..., _FencedHandle]:
    """Return optimizers whose states stay fenced from one step to the next."""

    def within(*given: Any) -> _FencedHandle:
        fence = Fence()
        return _FencedHandle(_in_fence(optimizer, fence)(*given), fence)

    return within


class _FencedHandle:
    """Parameters under an optimizer, and the fence around all that it allocated."""

    def __init__(self, handle: Any, fence: Fence) -> None:
        self._handle, self._fence = handle, fence

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        return _in_fence(found, self._fence) if callable(found) else found
