"""What failing elements have in common, and passing ones have not, where that is simple.

Everything here is a pure function of arrays. Whatever is claimed separates: it holds for each
element over budget, and for no other element that was judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from equivalence.measure.explained.places import Mask, places

Numbers = npt.NDArray[np.float64]

MOST = 3
"""How many sentences are said of one result."""

UNLIKELY = 100
"""Signs and sizes separate by chance where few elements are judged: they are named only if the
failing elements are one choice among so many of as many elements."""


def in_common(
    failing: Mask, judged: Mask, inputs: Mapping[str, Numbers], min_normal: float = 0.0
) -> tuple[str, ...]:
    """Say what separates the failing elements of a result from the other judged ones.

    failing, judged   of the shape of the result; a failing element is a judged one
    inputs            numbers by the names of tensors, of any shapes
    min_normal        below it a number is subnormal

    >>> x = np.array([1.0, -2.0, 3.0, -4.0, -5.0, 6.0, -7.0, 8.0, 9.0, -10.0])
    >>> in_common(x < 0, np.ones(10, bool), {"input 0": x})[0]
    'they are exactly those where input 0 is negative'
    """
    count, among = int(failing.sum()), int(judged.sum())
    if not count or among < 2:
        return ()
    if count == among:
        return (f"every one of the {among} judged elements is over budget",)
    said = [*_by_kinds(failing, judged, inputs, min_normal)]
    said += [f"they lie {where}, where no element passes" for where in places(failing, judged)]
    if not said and unlikely(count, among):
        said += _by_size(failing, judged, inputs)
    return tuple(said[:MOST])


def unlikely(count: int, among: int) -> bool:
    """Say whether so many elements among others are not easily the same ones by chance."""
    if not 0 < count < among:
        return False
    return among >= UNLIKELY or math.comb(among, count) >= UNLIKELY


KINDS: Mapping[str, Callable[[Numbers, float], Mask]] = {
    "NaN": lambda x, _: np.isnan(x),
    "infinite": lambda x, _: np.isinf(x),
    "not finite": lambda x, _: ~np.isfinite(x),
    "0": lambda x, _: x == 0,
    "subnormal": lambda x, least: (x != 0) & (np.abs(x) < least),
    "negative": lambda x, _: x < 0,
    "positive": lambda x, _: x > 0,
}
"""The kinds of numbers that are told apart, in the words of a sentence."""

SIGNS = ("negative", "positive")
"""Those that are about as frequent as their opposite."""


def _by_kinds(
    failing: Mask,
    judged: Mask,
    inputs: Mapping[str, Numbers],
    min_normal: float,
) -> Iterator[str]:
    """Say of which kind a number beside the failing elements is, or some or all of its row."""
    for name, numbers in inputs.items():
        for kind, holds in KINDS.items():
            mask = holds(numbers, min_normal)
            for where, own in _spread(mask, failing.shape):
                if kind in SIGNS and not unlikely(int(own.sum()), own.size):
                    continue
                if np.array_equal(np.broadcast_to(own, failing.shape) & judged, failing):
                    yield f"they are exactly those {where.format(name=name, kind=kind)}"
                    break


def _spread(mask: Mask, shape: tuple[int, ...]) -> Iterator[tuple[str, Mask]]:
    """Yield what a mask of an input says of a result: at the same index, or of rows along an axis.

    A result of fewer axes than the input has lost one of them.
    """
    if _fits(mask.shape, shape):
        yield "where {name} is {kind}", mask
    for axis, extent in enumerate(mask.shape):
        if extent < 2:
            continue
        folds = (("some number of {name}", mask.any), ("every number of {name}", mask.all))
        for said, fold in folds:
            kept = np.asarray(fold(axis=axis, keepdims=True))
            folded = kept if mask.ndim == len(shape) and _fits(kept.shape, shape) else None
            gone = kept.shape[:axis] + kept.shape[axis + 1 :]
            if folded is None and gone == shape:
                folded = kept.reshape(gone)
            if folded is not None:
                along = f"for which, along axis {axis}, {said} is {{kind}}"
                yield along, folded


def _fits(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Say whether a shape broadcasts to another one."""
    tail = shape[len(shape) - len(own) :]
    return len(own) <= len(shape) and all(n in (1, m) for n, m in zip(own, tail, strict=True))


def _by_size(failing: Mask, judged: Mask, inputs: Mapping[str, Numbers]) -> Iterator[str]:
    """Say that a number beside the failing elements is larger, or smaller, than beside the others.

    Of fewer than two elements on a side it says nothing.
    """
    passing = judged & ~failing
    if failing.sum() < 2 or passing.sum() < 2:
        return
    for name, numbers in inputs.items():
        if numbers.shape != failing.shape:
            continue
        for what, sized in ((name, numbers), (f"|{name}|", np.abs(numbers))):
            said = _apart(sized[failing], sized[passing])
            if said:
                yield f"{what} {said} elsewhere"
                break


def _apart(bad: Numbers, good: Numbers) -> str:
    """Say on which side of all numbers of one kind those of another kind lie, if they do."""
    if np.isnan(bad).any() or np.isnan(good).any():
        return ""
    if bad.min() > good.max():
        return f"is at least {bad.min():.6g} there, and at most {good.max():.6g}"
    if bad.max() < good.min():
        return f"is at most {bad.max():.6g} there, and at least {good.min():.6g}"
    return ""
