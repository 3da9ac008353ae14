"""What the artifact of a step is given beside the passes' arguments: where it writes, by slot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from fast.compiled import inductor
from fast.compiled.lowering import Moved, Place
from fast.device.arena import Arena
from fast.optim._rule import Stated


class Sums(NamedTuple):
    """Where gradients are added up: memory for them, and the slots that hold sums already."""

    arena: Arena
    kept: bytes


class Update(NamedTuple):
    """An update that follows the passes.

    `most` is the largest norm, if there is one, `factor` what gradients are multiplied by.
    `masters` are all parameters, and `copied` says that ops read copies of them.
    """

    stated: Stated
    most: float | None
    factor: float
    masters: Arena
    copied: bool


class Step:
    """The artifact of one kind of step, and where its arguments are, by slot.

    `further` are the leaves whose gradients it returns. A vector holds the numbers of the update at
    hand. As long as an optimizer states its updates by the same object, parameters and states lie
    where they lay.
    """

    def __init__(
        self, places: dict[int, Place], moved: dict[int, Moved], further: list[int],
        vector: Tensor,
    ) -> None:  # fmt: skip
        """Hold where gradients lie and parameters move; an empty vector is of no update."""
        self.loaded: inductor.Loaded | None = None
        self.places = places
        self.moved = moved
        self.further = further
        self.beside = [slot for slot, how in moved.items() if how.argument is None]
        self._numbers = vector.numpy()
        self._greatest = torch.finfo(vector.dtype).max
        self._vector = [vector] if len(vector) else []
        self._stated: Stated | None = None
        self._gradients: Sequence[Tensor] = ()
        self._written: list[Tensor] = []

    def arguments(
        self, given: list[Tensor], gradients: Sequence[Tensor], update: Update | None
    ) -> list[Tensor]:
        """Return what the artifact takes: the passes' arguments, and where it writes."""
        stated = None
        if update is not None:
            stated, most, factor, _, _ = update
            bound = 0.0 if most is None else min(most, self._greatest)
            self._numbers[:] = [*chain.from_iterable(stated.constants), bound, factor]
        if gradients is not self._gradients or stated is not self._stated:
            self._written = [*[gradients[slot] for slot in self.places], *self._moving(update)]
            self._gradients, self._stated = gradients, stated
        return given + self._written

    def _moving(self, update: Update | None) -> list[Tensor]:
        """Return what an update writes beside the passes' arguments, and its numbers."""
        if update is None:
            return []
        masters, views = update.masters.views, [arena.views for arena in update.stated.states]
        return [
            *[masters[slot] for slot in self.beside],
            *[of[slot] for slot in self.moved for of in views],
            *self._vector,
        ]
