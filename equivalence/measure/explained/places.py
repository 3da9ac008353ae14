"""Where failing elements lie, in words: a row, a tail, a part of a block.

Everything here looks at indices alone. A sentence is made only if it is true of every failing
element, and of no other element that was judged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

PERIODS = (2, 4, 8, 16, 32)
"""Every how many indices a pattern may come back."""


def places(failing: Mask, judged: Mask) -> Iterator[str]:
    """Say where the failing elements lie, by one axis after another, then in row-major order."""
    passing = judged & ~failing
    told = False
    for axis, extent in enumerate(failing.shape):
        others = tuple(k for k in range(failing.ndim) if k != axis)
        bad, good = (np.asarray(each.any(axis=others)) for each in (failing, passing))
        if extent > 1 and not np.any(bad & good):
            for said in _along(bad, good, _named(axis, failing.ndim), bool(failing.sum() > 1)):
                told = True
                yield said
    if failing.ndim > 1 and not told:
        bad, good = failing.reshape(-1), passing.reshape(-1)
        yield from _at_an_end(bad, good, "element", "in row-major order")


def _named(axis: int, rank: int) -> tuple[str, str]:
    """Return what the indices of an axis count, and what is said of the axis beside."""
    if rank == 1:
        return "element", ""
    if rank == 2:
        return ("row", "column")[axis], ""
    return "index", f"along axis {axis}"


def _along(bad: Mask, good: Mask, named: tuple[str, str], several: bool) -> Iterator[str]:
    """Describe the failing indices of one axis, which are not those of passing elements."""
    one, beside = named
    found = np.flatnonzero(bad)
    if len(found) == 1 and several:
        yield _said(f"in {one} {found[0]}", beside)
        return
    ends = list(_at_an_end(bad, good, one, beside))
    yield from ends
    if ends or len(found) < 2 or not good.any():
        return
    for period in PERIODS:
        rest = found[0] % period
        if np.all(found % period == rest) and not np.any(np.flatnonzero(good) % period == rest):
            yield _said(f"where the number of the {one} is {rest} modulo {period}", beside)
            return


def _at_an_end(bad: Mask, good: Mask, one: str, beside: str) -> Iterator[str]:
    """Say that the failing indices are those from one on, or those up to one."""
    failing, passing = np.flatnonzero(bad), np.flatnonzero(good)
    if not len(failing) or not len(passing):
        return
    if failing[0] > passing[-1]:
        yield _said(f"from {one} {failing[0]} on, of {len(bad)}{_blocks(int(failing[0]))}", beside)
    elif failing[-1] < passing[0]:
        at = "at" if failing[-1] == 0 else "up to"
        yield _said(f"{at} {one} {failing[-1]}, of {len(bad)}", beside)


def _blocks(start: int) -> str:
    """Say of which whole blocks an index is the end: the largest power of two that divides it."""
    block = start & -start
    if block < 4:
        return ""
    count = start // block
    return f", beyond the first {block}" if count == 1 else f", beyond {count} blocks of {block}"


def _said(where: str, beside: str) -> str:
    return f"{where} {beside}".rstrip()
