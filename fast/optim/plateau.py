"""Twin of spec.optim.plateau.

The numbers are doubles, by the operations of torch.optim.lr_scheduler.ReduceLROnPlateau in its
order. The state lies in the object, or, so that checkpoints save and restore it, in a named buffer
of a session: the bytes of four doubles, one in each entry, which every precision holds exactly.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fast.answers import telling
from fast.device.named import NamedBuffer
from fast.errors import Rejected
from fast.optim._rule import as_double, finite_and_not_negative, need

ENTRIES = 32
"""How many entries a buffer has that holds the state."""


class State(NamedTuple):
    """The rate, the best metric, how many bad ones came in a row, and steps of cooldown left."""

    lr: float
    best: float
    bad: int = 0
    cooldown: int = 0


class Plateau:
    """A rate that falls when a metric stops getting better; `step` takes a metric."""

    @telling
    def __init__(
        self,
        lr: float,
        *,
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        mode: str = "min",
        threshold_mode: str = "rel",
        cooldown: int = 0,
        minimum: float = 0.0,
        eps: float = 1e-8,
        buffer: NamedBuffer | None = None,
    ) -> None:
        """Check the settings; `buffer` is of 32 zeros, or holds a state to go on from.

        Raises `Rejected` for what breaks a rule of spec.optim.plateau, and for another buffer.
        """
        rate, low = (as_double(f"plateau: {n}", v) for n, v in (("lr", lr), ("minimum", minimum)))
        rule = "lr and minimum are finite and 0 <= minimum <= lr"
        need("plateau C1", 0.0 <= low <= rate < math.inf, rule, f"lr {lr}, minimum {minimum}")
        for name, count in (("patience", patience), ("cooldown", cooldown)):
            holds = type(count) is int and count >= 0
            need("plateau C2", holds, f"{name} is an int >= 0", repr(count))
        self.factor = as_double("plateau: factor", factor)
        need("plateau C3", 0.0 <= self.factor < 1.0, "factor lies in [0, 1)", repr(factor))
        self.threshold, self.eps = _size("threshold", threshold), _size("eps", eps)
        _among("mode", mode, ("min", "max"))
        _among("threshold_mode", threshold_mode, ("rel", "abs"))
        self.patience, self.cooldown, self.minimum = patience, cooldown, low
        self.mode, self.threshold_mode = mode, threshold_mode
        if buffer is not None and buffer.shape != (ENTRIES,):
            raise Rejected(f"plateau: a buffer has {ENTRIES} entries, got the shape {buffer.shape}")
        self._buffer = buffer
        self._state = State(rate, math.inf if mode == "min" else -math.inf)

    @property
    def state(self) -> State:
        """The rate, the best metric, how many bad ones came in a row, and the cooldown left."""
        held = b"" if self._buffer is None else _bytes(self._buffer)
        if not any(held):
            return self._state
        lr, best, bad, left = np.frombuffer(held, dtype="<f8").tolist()
        return State(lr, best, int(bad), int(left))

    @property
    def lr(self) -> float:
        """The rate of the next step."""
        return self.state.lr

    @telling
    def step(self, metric: Any) -> float:
        """Take a metric, and return the rate from here on; NaN is never better.

        Raises `Rejected` for what is no number, and nothing has changed then.
        """
        found, state = as_double("plateau: metric", metric), self.state
        better = self._better(found, state.best)
        bad = 0 if better or state.cooldown else state.bad + 1
        best, left = found if better else state.best, max(state.cooldown - 1, 0)
        after = State(state.lr, best, bad, left)
        if bad > self.patience:
            lower = max(state.lr * self.factor, self.minimum)
            lr = lower if state.lr - lower > self.eps else state.lr
            after = State(lr, best, 0, self.cooldown)
        if self._buffer is None:
            self._state = after
        else:
            self._buffer.set(np.frombuffer(np.array(after, dtype="<f8").tobytes(), np.uint8))
        return after.lr

    def _better(self, metric: float, best: float) -> bool:
        if math.isinf(best):
            bound = best
        elif self.threshold_mode == "rel":
            bound = best * (1.0 - self.threshold if self.mode == "min" else self.threshold + 1.0)
        else:
            bound = best - self.threshold if self.mode == "min" else best + self.threshold
        return metric < bound if self.mode == "min" else metric > bound


def _bytes(buffer: NamedBuffer) -> bytes:
    numbers = buffer.value().double().numpy()
    if not ((numbers == numbers.round()) & (numbers >= 0) & (numbers < 256)).all():
        raise Rejected(f"plateau: the buffer {buffer.name!r} holds no bytes of a state")
    found: bytes = numbers.astype(np.uint8).tobytes()
    return found


def _size(name: str, given: Any) -> float:
    number = as_double(f"plateau: {name}", given)
    need("plateau C3", finite_and_not_negative(number), f"{name} is finite and >= 0", repr(given))
    return number


def _among(name: str, word: Any, among: tuple[str, ...]) -> None:
    need("plateau C4", word in among, f"{name} is one of {', '.join(among)}", repr(word))
