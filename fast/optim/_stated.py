"""An optimizer whose updates another one writes, such as the artifact of a whole step.

In a training loop an update goes as the last one went, but for its constants.
"""

from __future__ import annotations

from typing import Any

from fast.optim._flat import FlatOptimizer
from fast.optim._rule import Stated


class StatedOptimizer(FlatOptimizer):
    """A flat optimizer that keeps what it has stated of the last update."""

    _known: tuple[Any, tuple[Any, ...], Stated] | None = None
    """The key of the last update's plan, its hyper-parameters, and what was stated of it."""

    def stated(
        self, active: bytes, hypers: tuple[Any, ...], groups: tuple[int, ...] | None = None
    ) -> Stated | None:
        """Say how an update of the active slots goes, as a `FlatOptimizer` does.

        The constants are written over by the next call.
        """
        if self._known is not None:
            # A plan that was dropped, or made anew, has another key.
            key, given, found = self._known
            if key is self._key and given is hypers and active == key[0] and groups == key[1]:
                return None if self.flag.item() else self._again(found, hypers)
        stated = super().stated(active, hypers, groups)
        self._known = None if stated is None else (self._key, hypers, stated)
        return stated

    def _again(self, stated: Stated, hypers: tuple[Any, ...]) -> Stated:
        """Form the constants of the next update."""
        plan, ages, constants = self._plan, self._ages, self.rule.formula.constants
        steps = plan.updates + 1
        stated.constants[:] = [
            constants(hypers[group], ages[slot] + steps) for group, slot in plan.kinds
        ]
        return stated
