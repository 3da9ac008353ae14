"""A lowered program whose artifacts are not there yet: it is replayed until they are.

Whoever needs an artifact asks for it, and where it is not there `NotReady` is raised before
anything has changed. The call is then replayed on the tape where its entries wait, from the counter
at which it began, and all goes on as on an eager tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.compiled import artifacts, inductor, lowering
from fast.compiled.background.compiler import INDUCTOR, REPLAY, Compiler
from fast.compiled.late import LateTape
from fast.compiled.lowered import Lowered, Sums
from fast.compiled.pending import Awaited, Pending
from fast.compiled.recorded.plan import Plan
from fast.compiled.shown import replayed
from fast.compiled.shown.outline import Outline
from fast.errors import Unavailable
from fast.runtime.binding import Bindings
from fast.runtime.param import Param
from fast.runtime.seed import start_at
from fast.runtime.updates import Wanted
from fast.tape import Tape, backward_sparse, send_back


class NotReady(Exception):
    """An artifact is not there yet; nothing has changed."""


class Patient(Lowered):
    """The artifacts of one plan, each made by another process after it was first asked for."""

    def __init__(
        self, plan: Plan, tape: Tape, integers: int, bindings: Bindings, compiler: Compiler
    ) -> None:
        """Hold a plan that was recorded on a tape."""
        super().__init__(plan, tape, integers, bindings)
        self.bindings = bindings
        self.compiler = compiler
        self._keys: dict[Any, str] = {}
        self._functions: dict[int | None, Any] = {}

    def reached(self, seeded: int, given: Sequence[Tensor]) -> list[int]:
        """Return the leaves that a pass from an entry reaches, once a replay has shown them."""
        known = self._reached.get(seeded)
        if known is None:
            raise NotReady
        return known

    @property
    def dtypes(self) -> Sequence[torch.dtype | None]:
        """The dtypes in which the leaves' gradients are added up."""
        return self._forward.leaves

    def note_reached(self, seeded: int, leaves: set[int]) -> None:
        """Keep which leaves a pass from an entry has reached."""
        self._reached[seeded] = sorted(leaves)

    def outlines(self) -> list[Outline]:
        """Read off the artifacts that were run what they do; before the first, the replay."""
        return super().outlines() or [replayed.outlined(self.plan)]

    def _function(self, seeded: int | None) -> tuple[Callable[..., list[Tensor]], list[int]]:
        # A trace leaves in it what it reached, and nothing is traced a second time.
        known = self._functions.get(seeded)
        if known is None:
            known = self._functions[seeded] = super()._function(seeded)
        return known

    def _made(
        self,
        function: Callable[..., list[Tensor]],
        described: tuple[str, list[str]],
        what: Any,
        given: Sequence[Tensor],
        apart: bool = False,
    ) -> inductor.Loaded:
        """Load an artifact if it is there, else have it made, and raise `NotReady`.

        Whatever fails on the way stops the compilations of the session, and no step.
        """
        try:
            key = self._keys.get(what)
            if key is None:
                key = self._asked(function, what, [t.clone() for t in given] if apart else given)
            if not self.compiler.ready(key):
                raise NotReady
            package = artifacts.found(key)
            if package is None:
                raise Unavailable("an artifact that was made is no longer there")
            loaded = inductor.loaded(package)
        except NotReady:
            raise
        except Exception as error:
            self.compiler.stop(f"{error}" or type(error).__name__)
            self.plan.lowered = None
            raise NotReady from error
        self._show(described, key, given)
        self.compiler.switched(described[0])
        return loaded

    def _asked(
        self, function: Callable[..., list[Tensor]], what: Any, given: Sequence[Tensor]
    ) -> str:
        """Name the artifact of a function, and have it made unless it is there."""
        if self.compiler.stopped:
            raise Unavailable("an earlier compilation has failed")
        key = self._keys[what] = self._key(function, what, given)
        if artifacts.found(key) is None:
            self.compiler.start(key, inductor.traced(function, given), given)
        return key


class Waiting(Pending):
    """One call of a program whose artifacts may not be there: whoever asks first has it replayed.

    `replayed` says that the tape has every entry of the program, as a replay leaves them.
    """

    lowered: Patient

    def __init__(
        self, lowered: Patient, tape: LateTape, params: Sequence[Param], leaves: list[Tensor],
        integers: list[Tensor],
    ) -> None:  # fmt: skip
        """Enter the call on a tape, and remember what a replay begins with."""
        self.replayed = False
        self._integers = integers
        self._start = lowered.bindings.next_call
        super().__init__(lowered, tape, params, leaves, integers)

    def fill(self) -> None:
        """Compute the contents, and the gradients if somebody holds them, by artifact or replay."""
        if self.filled:
            return
        awaited = self.awaited
        try:
            super().fill()
        except NotReady:
            self.replay()
        else:
            if awaited is not None:
                self.lowered.compiler.last = INDUCTOR

    def step(self, grads: Awaited, sums: Sums, wanted: Wanted, active: bytes) -> None:
        """Run both passes and an update as one, or raise `NotReady`."""
        super().step(grads, sums, wanted, active)
        if not self.replayed:
            self.lowered.compiler.last = INDUCTOR

    def before_backward(self, identity: int, seed: Any, one: Tensor) -> None:
        """Replay the call before a pass that cannot be put off, unless its artifact is there."""
        if self.filled or identity not in self.lowered.results:
            return
        start = start_at(identity, self._tape.values[identity], seed, one)
        try:
            self.lowered.passes(identity, [*self._given, start.contiguous()])
        except NotReady:
            self.replay()

    def open(self) -> None:
        """Let the tape have every entry of the program, also where artifacts have run."""
        if not self.replayed:
            self._tape.check_versions(self.lowered.plan.first)
            self.replay()

    def replay(self) -> None:
        """Run the program's calls on the tape where its entries wait, and the pass that waits."""
        tape, awaited, plan = self._tape, self.awaited, self.lowered.plan
        made = self._run_again()
        if self.filled:
            for k in self.lowered.results:
                tape.bytes -= tape.values[k].nbytes
                tape.extra -= 1
        count = len(plan.blanks)
        span = slice(plan.first, plan.first + count)
        tape.values[span], tape.rules[span] = made.values[span], made.rules[span]
        tape.bytes += made.bytes
        tape.extra += made.extra + count
        made.values, made.rules = [], []
        made.bytes = made.extra = 0
        self.filled = self.replayed = True
        self.lowered.compiler.last = REPLAY
        if awaited is not None:
            self._send_back(awaited)

    def _send_back(self, awaited: Awaited) -> None:
        """Run the pass that was put off on the tape, as `Session.backward` does."""
        arena, kept = awaited.memory()
        awaited.own(arena, bytearray(kept or len(arena.views)), {})
        leaves: set[int] = set()

        def add(leaf: int, cotangent: Tensor) -> None:
            leaves.add(leaf)
            awaited.add(leaf, cotangent)

        try:
            send_back(self._tape, self._seeded, self._given[-1], add, awaited.places)
        except BaseException:
            awaited.release()
            raise
        self.lowered.note_reached(self._seeded, leaves)

    def _run_again(self) -> Tape:
        """Run the program's calls, from where the random counter stood, on a tape of their own."""
        first, bindings = self.lowered.plan.first, self.lowered.bindings
        tape, now = Tape(), bindings.next_call
        tape.values, tape.rules = self._tape.values[:first], self._tape.rules[:first]
        tape.names = self._tape.names[:first]
        bindings.next_call = self._start
        try:
            self.lowered.plan.replay(tape, self._integers, bindings)
        finally:
            bindings.next_call = now
        return tape

    def _rule(self, identity: int) -> Any:
        """Return the rule of an artifact, which a replay stands in for while there is none."""
        compiled = super()._rule(identity)

        def vjp(saved: object, cotangent: Tensor, needs: Sequence[bool]) -> tuple[Any, ...]:
            try:
                found: tuple[Any, ...] = compiled(saved, cotangent, needs)
            except NotReady:
                return self._swept(identity, cotangent)
            self.lowered.compiler.last = INDUCTOR
            return found

        return vjp

    def _swept(self, identity: int, cotangent: Tensor) -> tuple[Any, ...]:
        """Return the cotangents of the leaves, by a replay on another tape."""
        made, sink = self._run_again(), lowering.Contributions(self.lowered.dtypes)
        backward_sparse(made, identity, cotangent, sink)
        self._put([made.values[k] for k in self.lowered.results])
        self.lowered.compiler.last = REPLAY
        return tuple(map(sink.found.get, self.lowered.parents))
