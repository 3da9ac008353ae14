"""A session's life, statement by statement, on both sides and in the model, checked after each.

A `Life` is what the lifecycle machine drives, and what a failing run is printed as: every statement
takes plain numbers and names, so that its text replays.

    life = Life("aten", "fp32")
    life.param((2, 3), 7)
    life.use(0)
    life.op("sum", (0,), axes=None, keepdims=False)
    life.backward(1)
    life.step("sgd", 0, lr=0.5)
    life.end()

Parameters, entries of the tape, naturals and gradients are named by counting from 0. Numbers are
drawn by a seed. What is handed in is scribbled over afterwards, and so is what was handed out: no
session may hold on to its caller's memory, or lend its own.
"""

from __future__ import annotations

import gc

from equivalence.lives.bad import KINDS, Stranger
from equivalence.lives.base import statement
from equivalence.lives.faults import Faults
from equivalence.lives.resynced import Violation
from fast.device.counters import counters
from spec.op import Rejected


class Life(Faults):
    """A life with everything that may happen in it."""

    def __init__(self, provider: str, precision: str) -> None:
        """Start a life beside a stranger."""
        self.stranger = Stranger()
        super().__init__(provider, precision)

    @statement
    def bad(self, kind: str) -> None:
        """Make calls with bad arguments of one kind, each of which is refused."""
        for bad in KINDS[kind](self):
            for call in bad.fast:
                self.refused(call, *bad.errors)
            for call in bad.spec:
                self.refused(call, Rejected)
        self.check()

    def end(self) -> None:
        """End the life: everything that it ever took has been given back."""
        self.program.append("life.end()")
        self.grads.clear()
        self.twin.reset_tape()
        self.refs, self.naturals, self.past = [], [], ()
        del self.twin
        gc.collect()
        found = counters.snapshot()
        left = found.live_bytes - self.first[0], found.live_buffers - self.first[1]
        if left != (0, 0):
            raise Violation(f"left after the end: bytes and buffers {left}", self.program)
