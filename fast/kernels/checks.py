"""The refusals that pages share, under the labels that the reference gives them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from fast.device import dtypes
from fast.device.integers import is_number
from fast.errors import Rejected, Unavailable

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
"""The reductions, by the number that torch's kernels know them by."""


def floats(op: str, first: Tensor, *others: Tensor) -> None:
    """Refuse inputs that are not of one floating dtype on one device."""
    if first.dtype not in dtypes.OF:
        raise Rejected(f"{op}: inputs are {dtypes.listed()}, got {first.dtype}")
    for other in others:
        if other.dtype is not first.dtype:
            raise Rejected(f"{op}: inputs have one dtype, got {first.dtype} and {other.dtype}")
        if other.device != first.device:
            raise Rejected(f"{op}: inputs lie on one device, got {first.device}, {other.device}")


def finite(label: str, **attributes: float) -> None:
    """Refuse an attribute that is infinite or no number; the rule is called label."""
    for name, given in attributes.items():
        if not (is_number(given) and abs(given) < math.inf):
            raise Rejected(f"{label}: {name} is finite; got {given!r}")


def alike(op: str, x: Tensor, y: Tensor) -> None:
    """Refuse two inputs that differ in shape (C1)."""
    if x.shape != y.shape:
        raise Rejected(
            f"{op} C1: the shapes are equal, got {tuple(x.shape)} and {tuple(y.shape)}; "
            "broadcast_to makes them so"
        )


def pair(op: str, x: Tensor, y: Tensor) -> None:
    """Refuse two inputs that differ in shape (C1), dtype or device."""
    alike(op, x, y)
    floats(op, x, y)


def masked(op: str, label: str, x: Tensor, mask: Tensor) -> None:
    """Refuse a mask that is not boolean (the label), and has not the shape (C1) or device of x."""
    alike(op, x, mask)
    if mask.dtype is not torch.bool:
        raise Rejected(f"{op} {label}: a mask is boolean (torch.bool), got {mask.dtype}")
    floats(op, x)
    if mask.device != x.device:
        raise Rejected(f"{op}: inputs lie on one device, got {x.device}, {mask.device}")


def for_kernels(x: Tensor) -> None:
    """Refuse, before a launch, what the kernels would silently round."""
    if x.dtype not in dtypes.KERNELS:
        raise Unavailable(
            "fast: the Triton kernels compute in fp32 and take "
            f"{dtypes.listed(dtypes.KERNELS)}, got {x.dtype}; the aten provider takes it"
        )


def axis(label: str, rank: int, at: Any) -> int:
    """Return the axis as a non-negative number, or refuse under the label."""
    if isinstance(at, bool) or not isinstance(at, int) or not -rank <= at < rank:
        raise Rejected(f"{label}: the axis lies in [{-rank}, {rank}), got {at!r}")
    return at % rank


def axes(op: str, rank: int, given: Sequence[int] | None) -> tuple[int, ...]:
    """Return the axes as non-negative numbers, in their order; None means all of them."""
    if given is None:
        return tuple(range(rank))
    if isinstance(given, int):
        raise Rejected(f"{op}: axes is a tuple of integers or None, got {given!r}")
    normal = tuple(axis(f"{op} C1", rank, at) for at in given)
    if len(set(normal)) != len(normal):
        raise Rejected(f"{op} C2: the axes are distinct, got {tuple(given)} for rank {rank}")
    return normal


def triangle(op: str, x: Tensor, diagonal: Any) -> None:
    """Refuse what has no rows and columns (C1), and a diagonal that is no integer (C2)."""
    floats(op, x)
    if x.dim() < 2:
        raise Rejected(f"{op} C1: there are two axes at least, got {tuple(x.shape)}")
    if type(diagonal) is not int:
        raise Rejected(f"{op} C2: the diagonal is an integer, got {diagonal!r}")


def within(diagonal: int, shape: Sequence[int]) -> int:
    """Return a diagonal that cuts matrices of a shape alike, and is no longer than they are."""
    return max(-shape[-2], min(diagonal, shape[-1]))


_FEW = 256
"""Up to here, Python's own extremes of a list are quicker than a reduction of a tensor."""


def is_row(value: object) -> TypeGuard[Sequence[Any]]:
    """Say whether something is a list, or like one; a text is none."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def extents(label: str, shape: Sequence[int]) -> None:
    """Refuse what is no shape."""
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise Rejected(
            f"{label}: a shape is a tuple of integers; for one, write (2,); got {shape!r}"
        )
    if any(type(n) is not int or n < 0 for n in shape):
        raise Rejected(f"{label}: every extent is an integer >= 0, got {tuple(shape)}")


def _within(given: Tensor, extent: int) -> bool:
    if given.numel() <= _FEW:
        numbers = (given if given.dim() == 1 else given.reshape(-1)).tolist()
        return bool(min(numbers) >= 0 and max(numbers) < extent)
    low, high = torch.aminmax(given)
    return bool(low >= 0 and high < extent)


def indices(label: str, given: Tensor, extent: int, ignored: int | None = None) -> None:
    """Refuse an index outside [0, extent), if the host can see it; kernels flag the others.

    No index fits an empty axis, so there the host need not see it.
    """
    if given.numel() == 0:
        return
    if _within(given, extent) if given.is_cpu else extent > 0 or ignored is not None:
        return
    bad = (given < 0) | (given >= extent)
    if ignored is not None:
        bad &= given != ignored
    if bad.any():
        first = given[bad][0].item()
        also = "" if ignored is None else f" or is {ignored}"
        raise Rejected(f"{label}: every index lies in [0, {extent}){also}, got {first}")


def reduction(op: str, x: Tensor, named: str) -> None:
    """Refuse an unknown reduction (C2), and a mean of nothing (C3)."""
    if named not in REDUCTIONS:
        raise Rejected(f"{op} C2: the reduction is one of {list(REDUCTIONS)}, got {named!r}")
    if named == "mean" and x.numel() == 0:
        raise Rejected(
            f"{op} C3: for 'mean' there is at least one entry, got shape {tuple(x.shape)}"
        )
