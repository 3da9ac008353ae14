"""Ends a run whose numbers have left the finite ones: every step after that would be in vain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from fast.session import Session


class Diverged(RuntimeError):
    """The loss, a parameter or a moment is not finite; the message names it and the step."""


def check_loss(step: int, loss: float) -> None:
    """Refuse to go on from a loss that is not finite."""
    if not math.isfinite(loss):
        raise Diverged(f"train: the run has diverged: the loss of step {step} is {loss}")


def check_state(session: Session, optimizer: str, step: int) -> None:
    """Refuse to keep parameters and moments that are not finite; all of them are downloaded."""
    for parameter in session.params:
        state = session.optimizer_state(optimizer, parameter)
        for name, part in {"value": parameter.value(), **state}.items():
            if isinstance(part, Tensor) and not part.isfinite().all():
                raise Diverged(
                    f"train: the run has diverged: after step {step} the {name} of "
                    f"{parameter.name} is not finite"
                )
