"""What the artifact of a step is given beside the passes' arguments: where it writes, by slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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

    `further` are the leaves whose gradients it returns. The vector holds the numbers of the update
    at hand, which `numbers` writes. `rows` are those of the last update: as long as an optimizer
    hands the same object out, parameters and states lie where they lay.
    """

    def __init__(
        self, places: dict[int, Place], moved: dict[int, Moved], further: list[int],
        vector: Tensor,
    ) -> None:  # fmt: skip
        """Hold where gradients lie and parameters move; an empty vector is of no update."""
        self.loaded: inductor.Loaded | None = None
        self.numbers = vector.numpy()
        self.places = places
        self.moved = moved
        self.further = further
        self.beside = [slot for slot, how in moved.items() if how.argument is None]
        self.kind: tuple[Any, ...] = ()
        self.rows: Any = None
        self._vector = [vector] if len(vector) else []
        self._gradients: Sequence[Tensor] = ()
        self._written: list[Tensor] = []

    def arguments(
        self, given: list[Tensor], gradients: Sequence[Tensor], masters: Sequence[Tensor],
        states: Sequence[Arena], rows: Any,
    ) -> list[Tensor]:  # fmt: skip
        """Return what the artifact takes: the passes' arguments, and where it writes."""
        if gradients is not self._gradients or rows is not self.rows:
            views = [arena.views for arena in states]
            self._written = [
                *[gradients[slot] for slot in self.places],
                *[masters[slot] for slot in self.beside],
                *[of[slot] for slot in self.moved for of in views],
                *self._vector,
            ]
            self._gradients, self.rows = gradients, rows
        return given + self._written
