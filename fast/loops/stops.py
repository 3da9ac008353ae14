"""When to stop: numbers that are no longer finite, and a score that no longer becomes better."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import Tensor

from fast.errors import Rejected
from fast.session import Session


class Diverged(RuntimeError):
    """A loss, a parameter or a moment is not finite; the message names it and the step."""


def check_loss(step: int, loss: float) -> None:
    """Raise Diverged for a loss that is not finite: every step after it would be in vain."""
    if not math.isfinite(loss):
        raise Diverged(f"train: the run has diverged: the loss of step {step} is {loss}")


def check_finite(session: Session, step: int, optimizers: Iterable[str] | None = None) -> None:
    """Raise Diverged where a parameter or a moment is not finite; all of them are downloaded.

    The moments are those of the optimizers that are named, or of all that have stepped here.
    """
    for parameter in session.params:
        parts = {"value": parameter.value()}
        for name in session.optimizers if optimizers is None else optimizers:
            parts.update(session.optimizer_state(name, parameter))
        for name, part in parts.items():
            if isinstance(part, Tensor) and not part.isfinite().all():
                raise Diverged(
                    f"train: the run has diverged: after step {step} the {name} of "
                    f"{parameter.name} is not finite"
                )


class EarlyStop:
    """Says when a score has not become better for so many looks.

    `best` is the best score so far, `best_at` the number of the look that had it, from 0.
    """

    def __init__(self, patience: int, least: float = 0.0, larger_is_better: bool = False) -> None:
        """Stop after `patience` looks in a row without an improvement of more than `least`.

        A patience below 1, and a least improvement that is negative or not finite, are Rejected.
        """
        if type(patience) is not int or patience < 1:
            raise Rejected(f"EarlyStop: patience is an int >= 1, got {patience!r}")
        if not 0 <= least < math.inf:
            raise Rejected(f"EarlyStop: least is finite and >= 0, got {least!r}")
        self.patience, self.least = patience, least
        self._sign = -1.0 if larger_is_better else 1.0
        self.best = math.inf * self._sign
        self.best_at, self.looks = -1, 0

    def stop(self, score: float) -> bool:
        """Look at a score, and say whether to stop; one that is NaN is no improvement."""
        if self._sign * score < self._sign * self.best - self.least:
            self.best, self.best_at = score, self.looks
        self.looks += 1
        return self.looks - 1 - self.best_at >= self.patience

    @property
    def improved(self) -> bool:
        """Whether the last score was the best so far: then is the time to save."""
        return self.looks > 0 and self.best_at == self.looks - 1
