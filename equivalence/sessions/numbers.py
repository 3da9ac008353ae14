"""The numbers that runs compute on, each drawn by a seed and the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def normal(seed: int, *shape: int) -> Tensor:
    """Draw standard normal numbers in float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(seed: int, high: int, *shape: int) -> Tensor:
    """Draw integers in [0, high)."""
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def quarters(seed: int, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw quarters from -2 to 2, which every dtype holds, and whose products are exact."""
    return ((integers(seed, 17, *shape) - 8) / 4).to(dtype)


def whole_numbers(values: Any) -> Tensor:
    """Return a nested list of integers or truth values as a tensor of torch; of nothing, int64."""
    found = torch.tensor(values)
    return found if found.dtype is torch.bool else found.to(torch.int64)
