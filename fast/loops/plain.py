"""Numbers, and rows of them, as Python's own: a loop has them from NumPy, torch and Python."""

from __future__ import annotations

import math
import reprlib
from numbers import Integral
from typing import Any

import numpy as np
from torch import Tensor

from fast.device.integers import is_number
from fast.kernels.checks import is_row


def entry(value: Any) -> Any:
    """Return the one entry of a tensor or an array that has one; what is neither, as it is."""
    one = isinstance(value, (Tensor, np.ndarray, np.generic)) and math.prod(value.shape) == 1
    return value.item() if one else value


def number(value: Any) -> int | float | None:
    """Return a number, or a tensor or an array of one, as Python's; None of what is no number."""
    value = entry(value)
    if not is_number(value):
        return None
    return int(value) if isinstance(value, Integral) else float(value)


def numbers(values: Any) -> list[int | float] | None:
    """Return a flat list, array or tensor of numbers as a list of Python's; None of others."""
    if isinstance(values, (Tensor, np.ndarray)):
        values = values.tolist() if len(values.shape) == 1 else None
    found = [number(value) for value in values] if is_row(values) else [None]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def came(value: Any) -> str:
    """Say in a few words what came: its shape where it has one, or how Python shows it."""
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{type(value).__name__} of {value.dtype} and shape {tuple(value.shape)}"
    return reprlib.repr(value)
