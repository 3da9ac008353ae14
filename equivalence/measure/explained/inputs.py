"""The inputs of a failing element as text: all numbers of a small case, else those that matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from equivalence.budgets.numerals import shortest
from equivalence.budgets.reading import numbers
from equivalence.cases.call import TORCH

Index = tuple[int, ...]

MOST_SHOWN = 32
"""So many numbers of a case, in all its tensors, are shown whole."""

FEW = 8
"""How many numbers are shown of a part that is too long."""

Shown = tuple[tuple[str, str], ...]
"""Names of tensors, or of parts of them, and their numbers."""

_NAMES = {dtype: name for name, dtype in TORCH.items()}


def shown(
    tensors: Mapping[str, Tensor],
    place: Index,
    result: Sequence[int],
    needed: Mapping[str, frozenset[Index]] | None,
) -> Shown:
    """Return the numbers that a reader wants to see beside a failing element.

    tensors   of the case, by their positions
    place     the index of the element in a result of this shape
    needed    the entries of each tensor that the element depends on; None where that is not known
    """
    if sum(tensor.numel() for tensor in tensors.values()) <= MOST_SHOWN:
        return tuple((name, _text(tensor)) for name, tensor in tensors.items())
    if needed is None:
        parts = {name: _beside(tensor, place, result) for name, tensor in tensors.items()}
    else:
        parts = {name: sorted(needed.get(name, ())) for name in tensors}
    count = sum(map(len, parts.values()))
    most = count if count <= MOST_SHOWN else FEW
    return tuple(
        line
        for name, indices in parts.items()
        for line in _part(name, tensors[name], indices, most, place)
    )


def _beside(tensor: Tensor, place: Index, result: Sequence[int]) -> list[Index]:
    """Return the same index in a tensor of the result's shape, or the first few of another."""
    if tuple(tensor.shape) == tuple(result):
        return [place]
    few = range(min(FEW, tensor.numel()))
    return [tuple(int(k) for k in np.unravel_index(flat, tensor.shape)) for flat in few]


def _part(
    name: str, tensor: Tensor, indices: Sequence[Index], most: int, place: Index
) -> Iterator[tuple[str, str]]:
    """Yield a part of a tensor: as a slice where it is one, else its entries one by one."""
    if not indices:
        return
    box = [sorted({index[k] for index in indices}) for k in range(tensor.ndim)]
    slices = [_slice(each, n) for each, n in zip(box, tensor.shape, strict=True)]
    plain = numbers(tensor)
    if None not in slices and len(indices) == int(np.prod([len(each) for each in box])):
        part = plain[np.ix_(*box)].reshape([len(each) for each in box if len(each) > 1])
        text = f"{name}[{', '.join(map(str, slices))}]" if box else name
        if len(indices) <= most:
            yield text, _listed(part, tensor)
            return
        if place in indices:
            yield f"{name}{list(place)}", _number(plain[place], tensor)
        few = ", ".join(_number(number, tensor) for number in part.reshape(-1)[:FEW])
        yield text, f"[{few}, and {len(indices) - FEW} more]"
        return
    own = [index for index in indices if index == place]
    chosen = [*own, *(index for index in indices if index != place)][:most]
    for index in sorted(chosen):
        yield f"{name}{list(index)}", _number(plain[index], tensor)
    if len(indices) > len(chosen):
        yield f"{name}, elsewhere", f"{len(indices) - len(chosen)} more numbers"


def _slice(found: Sequence[int], extent: int) -> str | None:
    """Write the indices along one axis as a slice: one, all or a run of them; else None."""
    if len(found) == 1:
        return str(found[0])
    if len(found) == extent:
        return ":"
    run = found[-1] - found[0] + 1 == len(found)
    return f"{found[0]}:{found[-1] + 1}" if run else None


def _text(tensor: Tensor) -> str:
    return _listed(numbers(tensor), tensor)


def _listed(plain: npt.NDArray[Any], tensor: Tensor) -> str:
    """Write an array as nested lists, each number so that it can be read back."""
    if plain.ndim == 0:
        return _number(plain[()], tensor)
    rows = (_listed(np.asarray(row), tensor) for row in plain)
    return f"[{', '.join(rows)}]"


def _number(number: Any, tensor: Tensor) -> str:
    plain = number.item()
    name = _NAMES.get(tensor.dtype, "")
    return shortest(plain, name) if isinstance(plain, float) else repr(plain)
