"""Where a backward pass starts: a scalar's one, or the caller's seed, which stays the caller's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fast.device import bridge
from fast.device.buffer import Buffer
from fast.errors import Rejected


def start_at(identity: int, value: Tensor, seed: Any, one: Tensor) -> Tensor:
    """Return the cotangent of an entry of that value from which a pass starts; it is not written.

    Without a seed the value is a scalar, and `one` is returned, in the value's dtype, which a cast
    may have changed. Another shape than the value's is Rejected, naming both; a seed that was
    released raises Released.
    """
    if seed is None:
        if value.dim():
            raise Rejected(
                f"backward: entry {identity} has the shape {tuple(value.shape)}; without a "
                "seed the pass starts at a scalar: sum it, or give a seed of that shape"
            )
        return one if one.dtype is value.dtype else torch.ones_like(value)
    seed = seed.tensor if isinstance(seed, Buffer) else seed
    if isinstance(seed, Tensor) and seed.dtype is value.dtype and seed.device == value.device:
        start = bridge.dense("backward", seed).detach()
    else:
        start = bridge.to_device(seed, value.dtype, value.device)
    if start.shape != value.shape:
        raise Rejected(
            f"backward: the seed must have the shape {tuple(value.shape)} of entry {identity}, "
            f"got {tuple(start.shape)}"
        )
    return start
