"""Wrong Adam and AdamW."""

from __future__ import annotations

from torch import Tensor

from equivalence.population.record import wrong
from equivalence.population.steppers import Adam, Hyper


@wrong("adam", "optimizer", source="https://github.com/pytorch/pytorch/issues/22628")
class eps_inside_the_root(Adam):
    """The root is of the second moment plus eps."""

    def bottom(self, v: Tensor, correction: float, h: Hyper) -> Tensor:
        """Add eps first."""
        return (v / correction + h["eps"]).sqrt()
