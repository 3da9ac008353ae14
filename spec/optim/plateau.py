"""A rate that falls when a metric stops getting better: a schedule with a state.

    better     metric < best * (1 - threshold)      mode "min", threshold_mode "rel"
               metric < best - threshold            mode "min", threshold_mode "abs"
               metric > best * (1 + threshold)      mode "max", threshold_mode "rel"
               metric > best + threshold            mode "max", threshold_mode "abs"
    bad        0 after a better metric and while cooldown lasts, else one more
    lr         where bad > patience, max(lr * factor, minimum), unless it would fall by at most eps;
               bad is 0 then, and cooldown starts

best starts from infinity, or -infinity to maximize. NaN is never better.

C1  lr and minimum are finite and 0 <= minimum <= lr.
C2  patience and cooldown are ints >= 0.
C3  factor lies in [0, 1); threshold and eps are finite and >= 0.
C4  mode is "min" or "max", and threshold_mode "rel" or "abs".

Reference: PyTorch's torch.optim.lr_scheduler.ReduceLROnPlateau.

>>> plateau = Plateau(factor=0.5, patience=1)
>>> state = plateau.start(8.0)
>>> for metric in (3.0, 3.0, 3.0, 1.0):
...     state = plateau.after(state, metric)
...     print(state)
State(lr=8.0, best=3.0, bad=0, cooldown=0)
State(lr=8.0, best=3.0, bad=1, cooldown=0)
State(lr=4.0, best=3.0, bad=0, cooldown=0)
State(lr=4.0, best=1.0, bad=0, cooldown=0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from spec.op import refuse
from spec.optim._rates import check
from spec.worlds import is_number


@dataclass(frozen=True)
class State:
    """What is remembered: the rate, the best metric, bad ones in a row, steps of cooldown left."""

    lr: Any
    best: Any
    bad: int = 0
    cooldown: int = 0


@dataclass(frozen=True)
class Plateau:
    """The settings; `start` makes a state, and `after` the next one."""

    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    mode: str = "min"
    threshold_mode: str = "rel"
    cooldown: int = 0
    minimum: float = 0.0
    eps: float = 1e-8

    def __post_init__(self) -> None:
        """Refuse what breaks C2, C3 or C4."""
        for name in ("patience", "cooldown"):
            count = getattr(self, name)
            if type(count) is not int or count < 0:
                raise refuse("plateau C2", f"{name} is an int >= 0", repr(count))
        if not (is_number(self.factor) and 0 <= self.factor < 1):
            raise refuse("plateau C3", "factor lies in [0, 1)", repr(self.factor))
        for name in ("threshold", "eps"):
            number = getattr(self, name)
            if not (is_number(number) and 0 <= number < math.inf):
                raise refuse("plateau C3", f"{name} is finite and >= 0", repr(number))
        for name, among in (("mode", ("min", "max")), ("threshold_mode", ("rel", "abs"))):
            word = getattr(self, name)
            if word not in among:
                raise refuse("plateau C4", f"{name} is one of {', '.join(among)}", repr(word))

    def start(self, lr: Any) -> State:
        """Return the state before the first metric, or refuse what breaks C1."""
        check("plateau", lr, self.minimum)
        return State(lr, math.inf if self.mode == "min" else -math.inf)

    def after(self, state: State, metric: Any) -> State:
        """Return the state after one more metric."""
        better = self.better(metric, state.best)
        bad = 0 if better or state.cooldown else state.bad + 1
        best, left = metric if better else state.best, max(state.cooldown - 1, 0)
        if bad <= self.patience:
            return State(state.lr, best, bad, left)
        lower = max(state.lr * self.factor, self.minimum)
        return State(lower if state.lr - lower > self.eps else state.lr, best, 0, self.cooldown)

    def better(self, metric: Any, best: Any) -> bool:
        """Say whether a metric is better than the best one by more than the threshold."""
        if best in (math.inf, -math.inf):
            bound = best
        elif self.threshold_mode == "rel":
            share = 1 - self.threshold if self.mode == "min" else 1 + self.threshold
            bound = best * share
        else:
            bound = best - self.threshold if self.mode == "min" else best + self.threshold
        return bool(metric < bound if self.mode == "min" else metric > bound)
