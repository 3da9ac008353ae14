"""Right sessions that keep their memory otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch import Tensor

from population.record import right


@right("session", "lifetime")
@contextmanager
def gradients_filled_before_they_are_taken() -> Iterator[None]:
    """Memory of gradients is filled with infinities when it is taken, since it holds leftovers."""
    from fast.runtime.store import Store

    take = Store.take_gradients

    def filled(self: Any) -> Any:
        arena = take(self)
        for view in arena.views:
            view.fill_(float("inf"))
        return arena

    with patch.object(Store, "take_gradients", filled):
        yield


@right("session", "gradient")
@contextmanager
def contributions_copied() -> Iterator[None]:
    """Every contribution to a gradient is copied before it is taken in."""
    from fast.runtime.gradmap import GradMap

    add = GradMap.add

    def copied(self: Any, leaf: int, cotangent: Tensor) -> None:
        add(self, leaf, cotangent.clone())

    with patch.object(GradMap, "add", copied):
        yield
