"""The hyper-parameters of every group as a table on the device, written when they change."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fast.optim._rule import hyper_rows


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
