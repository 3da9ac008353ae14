"""When to stop: numbers that are no longer finite, and a score that no longer becomes better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from torch import Tensor

from fast.answers import telling
from fast.device.integers import is_number
from fast.errors import Rejected
from fast.loops.plain import came, number
from fast.session import Session


class Diverged(RuntimeError):
    """A loss, a parameter or a moment is not finite; the message names it and the step."""


@telling
def check_loss(step: int, loss: float) -> None:
    """Raise Diverged for a loss that is not finite: every step after it would be in vain.

    A step that is no int >= 0, and a loss that is no number, nor a tensor or an array of one, are
    Rejected.
    """
    _check_step("check_loss", step)
    read = number(loss)
    if read is None:
        raise Rejected(f"check_loss: a loss is a number, got {came(loss)}")
    if not math.isfinite(read):
        raise Diverged(f"train: the run has diverged: the loss of step {step} is {read}")


@telling
def check_finite(session: Session, step: int, optimizers: Iterable[str] | None = None) -> None:
    """Raise Diverged where a parameter or a moment is not finite; all of them are downloaded.

    The moments are those of the optimizers that are named, or of all that have stepped here. A step
    that is no int >= 0 is Rejected.
    """
    _check_step("check_finite", step)
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


def _check_step(who: str, step: object) -> None:
    """Refuse what counts no step, such as a loss in its place."""
    if not isinstance(step, Integral) or isinstance(step, bool) or step < 0:
        raise Rejected(f"{who}: a step is an int >= 0, got {came(step)}")


@telling
class EarlyStop:
    """Says when a score has not become better for so many looks.

    `best` is the best score that counted as an improvement, which is one by more than `least`;
    `best_at` is the number of the look that had it, from 0, and -1 before there is one. `looks` is
    the number of looks so far. A run that is resumed loads the `state` of the one before.
    """

    def __init__(self, patience: int, least: float = 0.0, larger_is_better: bool = False) -> None:
        """Stop after `patience` looks in a row without an improvement of more than `least`.

        A patience below 1, and a least improvement that is negative or not finite, are Rejected.
        """
        if type(patience) is not int or patience < 1:
            raise Rejected(f"EarlyStop: patience is an int >= 1, got {patience!r}")
        if not is_number(least) or not 0 <= least < math.inf:
            raise Rejected(f"EarlyStop: least is finite and >= 0, got {least!r}")
        self.patience, self.least = patience, least
        self._sign = -1.0 if larger_is_better else 1.0
        self.best = math.inf * self._sign
        self.best_at, self.looks = -1, 0

    def stop(self, score: float) -> bool:
        """Look at a score, and say whether to stop; one that is NaN is no improvement.

        What is no number, nor a tensor or an array of one, is Rejected, and is no look.
        """
        read = number(score)
        if read is None:
            raise Rejected(f"EarlyStop: a score is a number, got {came(score)}")
        if self._sign * read < self._sign * self.best - self.least:
            self.best, self.best_at = read, self.looks
        self.looks += 1
        return self.looks - 1 - self.best_at >= self.patience

    @property
    def improved(self) -> bool:
        """Whether the last score was an improvement: then is the time to save."""
        return self.looks > 0 and self.best_at == self.looks - 1

    def state(self) -> dict[str, float | int | None]:
        """Return best, best_at and looks, as JSON holds them: a best that is infinite is None."""
        best = self.best if math.isfinite(self.best) else None
        return {"best": best, "best_at": self.best_at, "looks": self.looks}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` has returned; what it cannot have returned is Rejected.

        The patience, and what counts as better, are those that this one was made with.
        """
        if not isinstance(state, Mapping) or set(state) != set(self.state()):
            raise Rejected(
                f"EarlyStop: a state is a dict of best, best_at and looks, got {came(state)}"
            )
        best, best_at, looks = state["best"], state["best_at"], state["looks"]
        if type(looks) is not int or looks < 0:
            raise Rejected(f"EarlyStop: looks is an int >= 0, got {looks!r}")
        if type(best_at) is not int or not -1 <= best_at < looks:
            raise Rejected(f"EarlyStop: best_at is an int in [-1, {looks}), got {best_at!r}")
        if best is not None and (best_at == -1 or not is_number(best) or not math.isfinite(best)):
            accepted = "None before there is one" if best_at == -1 else "a finite number or None"
            raise Rejected(f"EarlyStop: best is {accepted}, got {best!r}")
        if best is None:
            # Before the first improvement the worst there is; after one it was the best there is.
            best = math.inf * self._sign * (1 if best_at == -1 else -1)
        self.best, self.best_at, self.looks = best, best_at, looks
