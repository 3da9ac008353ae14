"""Hyper-parameters in other forms: as a table on the device, and as torch has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels.checks import is_row

JOINED = {"betas": ("beta1", "beta2"), "ns_coefficients": ("ns_a", "ns_b", "ns_c")}
"""The hyper-parameters of which torch makes one tuple, by its name there."""

TORCH_NAMES = {part: whole for whole, parts in JOINED.items() for part in parts}
"""What torch calls the tuple that a hyper-parameter is part of."""

NOT_OF_TORCH = ("ns_dtype",)
"""The hyper-parameters that torch's groups lack, where its class has all others of an optimizer."""

_WRITTEN = {2: "two", 3: "three"}


def joined(hyper: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyper-parameters as torch has them, with tuples of those that it joins."""
    names = dict.fromkeys(TORCH_NAMES.get(name, name) for name in hyper)
    parts = {whole: tuple(hyper[n] for n in JOINED[whole]) for whole in names if whole in JOINED}
    return {name: parts[name] if name in parts else hyper[name] for name in names}


def parted(who: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyper-parameters without torch's tuples, whose parts have names of their own.

    What is no tuple of as many numbers is Rejected.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in JOINED:
            found[name] = value
            continue
        parts = JOINED[name]
        if not is_row(value) or len(value) != len(parts):
            raise Rejected(f"{who}: {name} are {_WRITTEN[len(parts)]} numbers, got {value!r}")
        found.update(zip(parts, value, strict=True))
    return found


def hyper_rows(hypers: Sequence[Any]) -> list[list[float]]:
    """Lay the groups' hyper-parameters out as rows of doubles, with 1 for words and 0 for None."""
    words = (str, NoneType)
    return [[float(v is not None if isinstance(v, words) else v) for v in h] for h in hypers]


class HyperTable:
    """A row of doubles for each group; it stays where it is while there are as many."""

    __slots__ = ("_written", "rows")

    def __init__(self, device: torch.device) -> None:
        """Start without rows."""
        self.rows: Tensor = torch.zeros(0, 0, dtype=torch.float64, device=device)
        self._written: tuple[Any, ...] = ()

    def write(self, hypers: tuple[Any, ...]) -> None:
        """Copy the groups' hyper-parameters to the device, unless they are there."""
        if hypers == self._written:
            return
        rows = torch.tensor(hyper_rows(hypers), dtype=torch.float64)
        if rows.shape == self.rows.shape:
            self.rows.copy_(rows)
        else:
            self.rows = rows.to(self.rows.device)
        self._written = hypers
