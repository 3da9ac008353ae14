"""Small arrays, and what one may write in brackets behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

Index = Any

_BOUNDS = st.none() | st.integers(-4, 4)
_SLICES = st.builds(slice, _BOUNDS, _BOUNDS, st.none() | st.integers(-3, 3).filter(bool))
_PARTS = st.integers(-3, 3) | st.none() | _SLICES
_ROWS = st.lists(st.integers(0, 3), min_size=1, max_size=3)
_INTEGERS = _ROWS | _ROWS.map(np.array) | _ROWS.map(lambda row: [row, row])
_TUPLES = st.builds(
    lambda front, dots, back: (*front, *dots, *back),
    st.lists(_PARTS, max_size=2),
    st.sampled_from([(), (...,)]),
    st.lists(_PARTS, max_size=2),
)
_WITH_INTEGERS = st.builds(
    lambda front, dots, row, back: (*front, *dots, row, *back),
    st.lists(st.none() | _SLICES, max_size=2),
    st.sampled_from([(), (), (...,)]),
    _INTEGERS,
    st.lists(_PARTS | _INTEGERS, max_size=1),
)


def _array(shape: tuple[int, ...]) -> Any:
    return np.arange(float(np.prod(shape))).reshape(shape)


ARRAYS = st.lists(st.integers(0, 3), max_size=3).map(tuple).map(_array)
ARRAYS_AND_INDICES = st.tuples(ARRAYS, _TUPLES | _PARTS | st.just(...) | _INTEGERS | _WITH_INTEGERS)


def by_numpy(array: Any, index: Index) -> Any:
    """Return a part as NumPy does; None where it refuses the index.

    Where a list or an array of integers comes beside another one, or beside an int, NumPy pairs
    them. A ref refuses that.
    """
    parts = index if isinstance(index, tuple) else (index,)
    rows = sum(isinstance(part, (list, np.ndarray)) for part in parts)
    if rows > 1 or (rows and any(isinstance(part, int) for part in parts)):
        return None
    try:
        return np.asarray(array[index])
    except IndexError:
        return None
