"""The two sessions of a stateful test run, judged step by step and never disturbed.

Every new value is judged, and then taken over by the reference, exactly; so each op, each backward
pass and each update is judged by itself, however long a run has been.
What is looked at is peeked at. A readback would synchronize, count and allocate, and so hide what
it is meant to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from equivalence.cases.updates.levels import plainest
from equivalence.sessions.pair import ParamPair, RefPair, SessionPair
from fast.errors import Stale
from spec.op import AnyTensor, plus
from spec.ops import OPS
from spec.session import Session
from spec.tape import Accumulate, Event, Seed


class Injected(RuntimeError):
    """The error that a fault plants; nobody else raises it."""


class StepwisePair(SessionPair):
    """A session of `fast` beside a reference that takes over every value once it was judged."""

    def __init__(self, provider: str, precision: str) -> None:
        """Start both; the contract of a program holds for each op of it."""
        super().__init__(Session(self._watch), provider, precision)
        self.params: list[ParamPair] = []
        self.breaks_at: int | None = None
        self._contributions: dict[int, list[AnyTensor]] = {}

    def _watch(self, event: Event) -> None:
        if isinstance(event, Seed):
            self._contributions = {event.node: [event.cotangent]}
        elif isinstance(event, Accumulate):
            self._contributions.setdefault(event.parent, []).append(event.contribution)
        elif event.node == self.breaks_at:
            raise Injected

    def param(self, value: Tensor, name: str, requires_grad: bool = True) -> None:
        """Make a parameter on both sides."""
        ours = self.fast.param(value, name, requires_grad)
        theirs = self.spec.param(self.lift(value), name, requires_grad)
        self.params.append(ParamPair(ours, theirs))

    def use(self, param: ParamPair) -> RefPair:
        """Put a parameter on both tapes."""
        return RefPair(self.fast.use(param.fast), self.spec.use(param.spec))

    def reset_tape(self) -> None:
        """Forget both tapes."""
        self.fast.reset_tape()
        self.spec.reset_tape()

    def peek(self, ref: RefPair) -> Tensor:
        """Look at a value where it lies."""
        value: Tensor = self.fast._tape.values[ref.fast.id]
        return value

    def stale(self, entry: int) -> bool:
        """Ask, as a backward pass does first, whether the tape up to an entry is out of date."""
        try:
            self.fast._tape.check_versions(entry)
        except Stale:
            return True
        return False

    def adopt(self, ref: RefPair, bits: Tensor) -> Tensor:
        """Let the reference take over a value, and return a copy of it."""
        nodes = self.spec.tape._nodes
        nodes[ref.spec.id] = replace(nodes[ref.spec.id], value=self.lift(bits))
        return bits.clone()

    def judge_value(self, ref: RefPair, name: str, attributes: Mapping[str, Any]) -> None:
        """Judge what an op returned, in the dtype in which it returns it."""
        got = self.peek(ref)
        due = self.result(OPS[name], attributes, self.spec.value(ref.spec))
        self.judge(f"value of entry {ref.fast.id}", got, due)

    def total(self, leaf: RefPair, before: AnyTensor | None) -> AnyTensor:
        """Add up what the last backward pass sent to a leaf, in order, to what was there."""
        found = before
        for contribution in self._contributions[leaf.spec.id]:
            found = plus(found, contribution)
        assert found is not None
        return found

    def moments(self, optimizer: str, slot: int) -> dict[str, Tensor] | None:
        """Look at the moments of a parameter; None where there is no memory for them yet."""
        known = self.fast.optimizers.get(optimizer)
        arenas = () if known is None else known._states
        if known is None or not arenas or slot >= len(arenas[0].views):
            return None
        return {field: arena.views[slot] for field, arena in zip(known.held, arenas, strict=True)}

    def steps(self, optimizer: str, slot: int) -> int:
        """Look at the step count of a parameter, where the kernels read it."""
        known = self.fast.optimizers.get(optimizer)
        counts = None if known is None else known._steps
        return 0 if counts is None or slot >= counts.numel() else int(counts[slot])


def step_of(session: Any, optimizer: str, **given: Any) -> Callable[[], object]:
    """Return the call of an optimizer's step, with the plainest hyper-parameters unless given."""
    return partial(getattr(session, f"{optimizer}_step"), **{**plainest(optimizer), **given})
