"""The one door through which every kernel starts.

It has three behaviours: run on the device, run interpreted, or compile only, where whoever examines
kernels may put something else in the compiler's place. FP contraction is always stated, and off
unless a page turns it on, because triton's default differs by version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fast.device.mode import ring

compiled: list[tuple[Any, Any, dict[str, Any]]] = []
"""What compile-only launches left: (kernel, compiled kernel, the launch's keyword arguments)."""


def _compile(kernel: Any, grid: tuple[int, ...], args: Sequence[Any], meta: dict[str, Any]) -> None:
    compiled.append((kernel, kernel.warmup(*args, grid=grid, **meta), meta))


instead: Callable[[Any, tuple[int, ...], Sequence[Any], dict[str, Any]], None] = _compile
"""What a compile-only launch does: (kernel, grid, arguments, keyword arguments)."""


def launch(kernel: Any, grid: Sequence[int], *args: Any, **meta: Any) -> None:
    """Start `kernel` over `grid`; an empty grid starts nothing."""
    if 0 in grid:
        return
    meta.setdefault("enable_fp_fusion", False)
    where = ring()
    if where == "device":
        kernel[tuple(grid)](*args, **meta)
    elif where == "compiled":
        instead(kernel, tuple(grid), args, meta)
    else:
        # The interpreter's numpy warns where IEEE arithmetic, by design, goes on.
        with np.errstate(all="ignore"):
            kernel[tuple(grid)](*args, **meta)
