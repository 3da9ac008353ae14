"""Example arguments from which `python -m fast kernels` compiles what the hosts launch.

A page's `EXAMPLES` is a function of a dtype that yields (inputs, attributes). The shapes here
reach each specialization once: contiguous and strided, more than a tile and less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Example = tuple[tuple[Tensor, ...], dict[str, Any]]
Examples = Callable[[torch.dtype], Iterator[Example]]


def unary(dtype: torch.dtype) -> Iterator[Example]:
    """Yield one contiguous and one strided input."""
    x = torch.ones(8, 256, dtype=dtype)
    yield (x,), {}
    yield (x.T,), {}


def with_attributes(**attributes: Any) -> Examples:
    """Return the examples of one input, with attributes."""

    def examples(dtype: torch.dtype) -> Iterator[Example]:
        for inputs, _ in unary(dtype):
            yield inputs, attributes

    return examples


def binary(dtype: torch.dtype) -> Iterator[Example]:
    """Yield two contiguous inputs, then two of which one is strided."""
    x, y = torch.ones(16, 16, dtype=dtype), torch.ones(16, 16, dtype=dtype)
    yield (x, y), {}
    yield (x, y.T), {}


def reduction(dtype: torch.dtype) -> Iterator[Example]:
    """Yield aligned rows, rows that are not, columns, and one row that is cut into chunks."""
    x = torch.ones(8, 512, dtype=dtype)
    yield (x,), {"axes": (1,)}
    yield (x[:, 1:],), {"axes": (1,)}
    yield (x,), {"axes": (0,)}
    yield (torch.ones(1, 16384, dtype=dtype),), {"axes": (1,)}


def along_axis(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows for the narrow tile, and rows for the wide one."""
    yield (torch.ones(3, 7, dtype=dtype),), {"axis": 0}
    yield (torch.ones(64, 1024, dtype=dtype),), {"axis": -1}


def source(**attributes: Any) -> Examples:
    """Return examples of an op without inputs: its call counter as a number, and in a cell."""

    def examples(dtype: torch.dtype) -> Iterator[Example]:
        place = {"dtype": dtype, "device": torch.device("cpu")}
        for counter in (0, torch.zeros((), dtype=torch.int64)):
            yield (), {"shape": (8, 256), "seed": 7, "counter": counter, **place, **attributes}

    return examples


def pairs(**attributes: Any) -> Examples:
    """Return the examples of a loss of pairs: each reduction of more than a block."""

    def examples(dtype: torch.dtype) -> Iterator[Example]:
        x = torch.ones(8, 260, dtype=dtype)
        for reduction in ("none", "mean", "sum"):
            yield (x, x), {"reduction": reduction, **attributes}

    return examples
