"""A stateful test run: statements on both sides and in the model, and a check after each.

The state machine and the written programs make the statements of a `Run`, and a failing one is
printed as them. Every statement takes plain numbers and names, so that its text replays.

    run = Run("aten", "fp32")
    run.param((2, 3), 7)
    run.use(0)
    run.op("sum", (0,), axes=None, keepdims=False)
    run.backward(1)
    run.step("sgd", 0, lr=0.5)
    run.end()

Parameters, entries of the tape, naturals and gradients are named by counting from 0. Numbers are
drawn by a seed. What is handed in is scribbled over afterwards, and so is what was handed out: no
session may hold on to its caller's memory, or lend its own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import Any
from unittest.mock import patch

from equivalence.budgets.violation import Violation
from equivalence.sessions.stateful.bad import KINDS, Stranger
from equivalence.sessions.stateful.base import Base, Seed, statement
from equivalence.sessions.stateful.gradients import Gradients
from equivalence.sessions.stateful.leaves import Leaves, Writes
from equivalence.sessions.stateful.model import Sparse, copied
from equivalence.sessions.stateful.saves import Saves
from equivalence.sessions.stateful.steps import Steps
from equivalence.sessions.stateful.stepwise import Injected
from fast.device import flags
from fast.device.counters import counters
from fast.errors import Rejected as FastRejected
from fast.ops import OPS as FAST_OPS
from fast.optim._flat import FlatOptimizer
from spec.op import Rejected
from spec.ops import OPS
from spec.protocol import Ops

OUT_OF_RANGE = (flags.code_of("take") << 48) + 5
"""The word by which a kernel of take says that it met the index 5."""


class Faults(Base):
    """Errors planted in a run: after each, both sides must be as they were.

    They come from inside, where no caller can prevent them: a value that raises, a rule that raises
    in the middle of a backward pass, an update that fails after everything was checked, an index
    out of range that only the device has seen.
    """

    @statement
    def broken_value(self, name: str, inputs: tuple[Any, ...], **attributes: Any) -> None:
        """Run an op that fails once its result is computed: nothing is appended."""
        fast, spec = self.pair.fast, self.pair.spec
        operands = [[self._operand(x, side) for x in inputs] for side in (0, 1)]
        with self._broken_op(name):
            self.refused(lambda: getattr(fast, name)(*operands[0], **attributes), Injected)
            self.refused(lambda: getattr(spec, name)(*operands[1], **attributes), Injected)

    @contextmanager
    def _broken_op(self, name: str) -> Iterator[None]:
        """Put pages into both tables whose values fail, and let the session bind its anew."""
        pages, bound = (FAST_OPS[name], OPS[name]), self.pair.fast._bound
        known = bound.pop(name, None)
        value, aten_value = failing(pages[0].value), failing(pages[0].aten_value)
        FAST_OPS[name] = replace(pages[0], value=value, aten_value=aten_value)
        OPS[name] = replace(pages[1], value=failing(pages[1].value))
        try:
            yield
        finally:
            FAST_OPS[name], OPS[name] = pages
            bound.pop(name, None)
            if known is not None:
                bound[name] = known

    @statement
    def broken_rule(
        self, entry: int, node: int, seed: Seed | None = None, into: int | None = None
    ) -> None:
        """Run a backward pass in which one rule fails: it leaves nothing, and no `into` either."""
        given, due = self._seed(entry, seed, "torch")
        target = None if into is None else self.grads.pop(into)
        rules, ref = self.pair.fast._tape.rules, self.refs[entry]
        rule = rules[node]
        assert rule is not None
        rules[node] = (_fail, *rule[1:])
        try:
            self.refused(partial(self.pair.fast.backward_dense, ref.fast, given), Injected)
            self.refused(partial(self.pair.fast.backward, ref.fast, given, target), Injected)
        finally:
            rules[node] = rule
        self._give_back(given, due)
        self.pair.breaks_at = self.refs[node].spec.id
        lifted = None if due is None else self.pair.lift(due)
        self.refused(lambda: self.pair.spec.backward(ref.spec, lifted), Injected)
        self.pair.breaks_at = None
        if into is None:
            self.model.pool.append(self.model.take())
            return
        if target is None or not target.released:
            raise Violation("backward: into was kept after its pass had failed")
        lost = self.model.grads.pop(into)
        assert isinstance(lost, Sparse)
        self.model.pool.append(self.model.fit(lost.arena))

    def behind(self, entry: int) -> list[int]:
        """List the entries whose rules a backward pass from an entry runs."""
        tape = self.pair.spec.tape
        found, ahead = set(), [self.refs[entry].spec.id]
        while ahead:
            node = tape.node(here := ahead.pop())
            if here not in found and node.op is not None and node.requires_grad:
                found.add(here)
                ahead += node.parents
        return [here for here, ref in enumerate(self.refs) if ref.spec.id in found]

    @statement
    def broken_update(self, optimizer: str, grads: int, **hyper: Any) -> None:
        """Make an update that fails before it writes: mirrors are up to date, and that is all."""
        model = self.model.grads[grads]
        updated = self.model.updated(model.pieces())
        step = getattr(self.pair.fast, f"{optimizer}_step")

        def run() -> None:
            step(grads=self.grads[grads], **hyper)

        with patch.object(FlatOptimizer, "step", _fail):
            if updated:
                self.refused(run, Injected)
            else:
                run()
        direct = isinstance(model, Sparse) and not model.loose
        # A norm is computed by the optimizer's tables, and those come with its state.
        clipped = hyper.get("max_norm") is not None or copied((), hyper)
        pieces = model.pieces() if clipped else []
        self.model.held(optimizer, pieces, (), hyper, direct)
        for param in updated:
            self.model.params[param].uploaded()

    @statement
    def flagged(self, optimizer: str, grads: int, **hyper: Any) -> None:
        """Make an update after a kernel met a bad index: nothing is written, and readbacks raise.

        The host does not wait to learn of it, so the update counts as a write.
        """
        fast, model = self.pair.fast, self.model.grads[grads]
        pieces = model.pieces()
        flags.word(fast.options.device).fill_(OUT_OF_RANGE)
        try:
            getattr(fast, f"{optimizer}_step")(grads=self.grads[grads], **hyper)
            direct = isinstance(model, Sparse) and not model.loose
            self.model.held(optimizer, pieces, (), hyper, direct)
            for param in self.model.updated(pieces):
                owner = self.model.params[param]
                owner.written(owner.value, "device")
                self.refused(self.pair.params[param].fast.value, FastRejected)
                self.refused(self.pair.params[param].fast.sync, FastRejected)
            if self.refs:
                self.refused(lambda: fast.value(self.refs[0].fast), FastRejected)
        finally:
            fast.clear_flag()


class Run(Leaves, Writes, Gradients, Steps, Saves, Faults):
    """A run with everything that may happen in it."""

    def __init__(self, provider: str, precision: str, draws: str = "quarters") -> None:
        """Start a run beside a stranger."""
        self.stranger = Stranger()
        super().__init__(provider, precision, draws)
        self.ops = Written(self)

    @statement
    def bad(self, kind: str) -> None:
        """Make calls with bad arguments of one kind, each of which is refused."""
        for bad in KINDS[kind](self):
            for call in bad.fast:
                self.refused(call, *bad.errors)
            for call in bad.spec:
                self.refused(call, Rejected)
        self.check()

    def close(self) -> None:
        """Release everything, and end the run, unless a promise was broken."""
        if not self.broken:
            for serial in list(self.grads):
                self.release(serial)
            self.reset_tape()
            self.end()

    def end(self) -> None:
        """End the run: everything that it ever took has been given back."""
        self.program.append("run.end()")
        self.grads.clear()
        self.pair.reset_tape()
        self.refs, self.naturals, self.past = [], [], ()
        del self.pair
        gc.collect()
        found = counters.snapshot()
        left = found.live_bytes - self.first[0], found.live_buffers - self.first[1]
        if left != (0, 0):
            raise Violation(f"left after the end: bytes and buffers {left}", self.program)


class Written(Ops[int]):
    """The ops of a run as the methods that a program calls; entries are named by their numbers."""

    def __init__(self, run: Run) -> None:
        """Write statements into a run."""
        self._run = run

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> int:
        """Run an op."""
        return self._run.op(name, inputs, **attributes)


@contextmanager
def settled() -> Iterator[None]:
    """Let only what dies in a run be counted as freed in it, and let collecting that be quick."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def failing(value: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes what the given one does, and then fails."""

    @wraps(value)
    def run(*inputs: Any, **attributes: Any) -> Any:
        value(*inputs, **attributes)
        raise Injected

    return run


def _fail(*given: Any, **more: Any) -> Any:
    raise Injected
