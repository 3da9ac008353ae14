"""The parameters as ops of 16 bits see them: copies of the masters, rounded once.

An update changes all of them, so the first use after one rounds the whole arena in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.arena import Arena
from fast.runtime.param import Param


class Shadow:
    """An arena beside the masters' and, by slot, the version that it holds."""

    __slots__ = ("_masters", "_versions", "arena")

    def __init__(self, masters: Arena, dtype: torch.dtype) -> None:
        self._masters = masters
        self.arena = Arena(masters.layout, dtype, masters.flat.device)
        self._versions: list[int | None] = []

    def view(self, parameter: Param, params: Sequence[Param]) -> Tensor:
        """Return the rounded value of one of the parameters, uploading a stale mirror first."""
        parameter.device_view()
        if len(self._versions) != len(params):
            self.arena.fit()
            self._versions += [None] * (len(params) - len(self._versions))
        if self._versions[parameter.slot] != parameter.version:
            total = self._masters.layout.total
            self.arena.flat[:total].copy_(self._masters.flat[:total])
            self._versions = [p.version if p.mirror_current else None for p in params]
        return self.arena.views[parameter.slot]
