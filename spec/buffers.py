"""Chapter 6. Buffers: numbers that another library holds in memory.

Arrays of NumPy and of the standard library, tensors of PyTorch, and whatever else speaks Python's
buffer protocol or becomes an array, are read entry by entry, without importing who made them;
nothing is ever written there.
Every binary16, binary32 and binary64 number is a Python float exactly; integers stay integers, and
truth values truth values.

>>> from array import array
>>> read(array("f", [0.5, -2.0])), read([0.5])
(((2,), [0.5, -2.0]), None)
>>> read(memoryview(bytes(range(6))).cast("B", (2, 3))[::-1])
((2, 3), [3, 4, 5, 0, 1, 2])
"""

from __future__ import annotations

import struct
from typing import Any, cast

from spec.refusals import Rejected, refuse

FLOATS, INTEGERS, TRUTHS = "efd", "bBhHiIlLqQnN", "?"
"""The formats that are read, in the letters of Python's struct."""

ACCEPTED = "float64, float32, float16, integers and truth values"


def read(x: Any) -> tuple[tuple[int, ...], list[Any]] | None:
    """Return the shape and the entries, row by row, or None of what offers no memory.

    Any strides and ranks are read. Entries of another format are Rejected; bfloat16 has none. What
    becomes an array of NumPy by its own `__array__`, such as a tensor of PyTorch, is read as that.
    """
    try:
        view = memoryview(x)
    except TypeError:
        return read(_array(x)) if hasattr(type(cast("object", x)), "__array__") else None
    except ValueError as error:
        raise _refused(x) from error
    with view:
        letter = view.format.lstrip("@=<>!")
        if letter not in (*FLOATS, *INTEGERS, *TRUTHS) or _size(view.format) != view.itemsize:
            raise _refused(x, f" in the format {view.format!r}")
        entries = [entry for (entry,) in struct.iter_unpack(view.format, view.tobytes())]
        return tuple(view.shape or ()), entries


def _array(x: Any) -> memoryview:
    """Return the memory of the array that an object makes of itself, or refuse it in its words."""
    try:
        return memoryview(x.__array__())
    except Rejected:
        raise
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise _refused(x, f": {error}") from error


def _size(format: str) -> int:
    try:
        return struct.calcsize(format)
    except struct.error:
        return 0


def _refused(x: object, where: str = "") -> Rejected:
    """Name what came, and its dtype where it has one: bfloat16 lies in memory without a format."""
    dtype = getattr(x, "dtype", None)
    came = type(x).__name__ if dtype is None else f"{type(x).__name__} of {dtype}"
    rule = f"an array of {ACCEPTED} is read, and of others what x.tolist() makes"
    return refuse("tensor", rule, f"{came}{where}")
