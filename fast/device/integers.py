"""Numbers beside a program's tensors: integers and booleans, which ops read as data, and others."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fast.device import bridge
from fast.device.buffer import Buffer

_WHOLE = frozenset((torch.bool, *bridge.INTEGERS, *bridge.UNSIGNED))


def is_integer(data: Any) -> bool:
    """Say whether data are integers or booleans, such as labels, which ops read as they are.

    Of tensors, arrays and buffers the dtype decides; of numbers and nested lists, the numbers.
    """
    if isinstance(data, (Tensor, Buffer)):
        return data.dtype in _WHOLE
    if isinstance(data, (np.ndarray, np.generic)):
        return data.dtype.kind in "iub"
    if isinstance(data, (list, tuple)):
        return bool(data) and all(map(is_integer, data))
    return isinstance(data, Integral)


def is_number(given: object) -> bool:
    """Say whether this is a real number of Python or NumPy; a text and a truth value are none."""
    return isinstance(given, Real) and not isinstance(given, bool)


def to_integers(data: Any, device: torch.device) -> Tensor:
    """Return integers or booleans as a fresh device tensor; a mixture of both is Rejected."""
    return (bridge.to_mask if _is_mask(data) else bridge.to_indices)(data, device)


def _is_mask(data: Any) -> bool:
    """Say whether data are booleans; the first of nested lists decides."""
    while isinstance(data, (list, tuple)):
        data = data[0] if data else None
    return isinstance(data, bool) or getattr(data, "dtype", None) in (torch.bool, np.bool_)
