"""Compiled sessions: a program is recorded once, and then replayed.

A session of this kind is an eager one, except for `run`, through which trainers run their losses.
There the first call records what the program does, and later calls with the same shapes replay it:
the same functions on new data, without the program's Python, without checks that can no longer
fail, without what does not feed the result, and without keeping what no rule needs. Results equal
the eager session's bit for bit, gradients and random numbers too: each replay draws anew, and
updates buffers anew.

So a program is taken at its word. Its Python runs once per combination of shapes: what it prints,
counts or decides then is not done again, and what it reads from outside its arguments stays as it
was. Labels and masks reach it as `Indices`, which ops take and whose values it cannot see; a plain
Python integer is part of the program, and another integer is another recording.

In a replay the backward pass is the eager session's, nothing is fused, and a GPU is given one
launch after the other. The engine "graph" captures a whole step, and starts it by one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import count, islice
from typing import Any

import torch
from torch import Tensor

from fast.compiled.background.changing import Changing
from fast.compiled.background.compiler import REPLAY
from fast.compiled.graph import cuda
from fast.compiled.graph.captured import Captured, PendingGraph
from fast.compiled.lowered import Lowered, beyond
from fast.compiled.recorded.inputs import (
    Again,
    Indices,
    hashable,
    is_leaf,
    kind_of,
    listed,
    outside_of_recording,
    taken_from,
    tell,
)
from fast.compiled.recorded.plan import Argument, Contents, Log, Out, Plan, Recorded
from fast.compiled.shown import replayed
from fast.compiled.shown.outline import Outlines
from fast.device.buffer import Buffer
from fast.device.named import NamedBuffer, kept_if_it_fails, put_back
from fast.errors import Rejected, SessionError
from fast.ops import OPS
from fast.ref import Entry, IndexRef, Ref
from fast.runtime.binding import Bound, foreign
from fast.runtime.param import Param
from fast.runtime.updates import Wanted
from fast.session import Session
from fast.tape import Tape

ENGINES = ("replay", "inductor", "graph", "auto")
"""How a recorded program is run."""

MOST_PLANS = 32
"""How many recordings a session keeps; the one that was not used for longest goes first."""


class CompiledSession(Changing):
    """An eager session whose `run` records a program once and replays it afterwards.

    `recordings` counts how often a program was recorded. Everything else is a `Session`'s, but that
    the tape of a replay shows NaN, or the least integer, where it has dropped a value.
    """

    def __init__(
        self,
        provider: str | None = None,
        precision: str = "fp32",
        device: torch.device | str | None = None,
        deterministic: bool = True,
        engine: str = "replay",
    ) -> None:
        """Choose as a `Session` does, and how a recorded program is run.

        The engine is "replay", which calls the same functions again, "inductor", which compiles
        them (fast.compiled.lowered) for a CPU and the provider `aten`, "graph", which captures
        whole steps as CUDA graphs (fast.compiled.graph) with the provider `triton`, or "auto",
        which replays until another process has compiled them; another is Rejected. A provider,
        device or torch that it cannot do with raises Unavailable here, and a compiler that is
        missing does when a program is first compiled; "auto" says so and stays with replay.
        """
        super().__init__(provider, precision, device, deterministic)
        if not isinstance(engine, str) or engine not in ENGINES:
            raise Rejected(f"engine: one of {', '.join(ENGINES)}, got {engine!r}")
        if engine == "inductor":
            self._require_inductor()
        elif engine == "graph":
            cuda.require(self.options)
            self._waits = PendingGraph
        elif engine == "auto":
            self._begin_by_replay()
        self.engine = engine
        self.recordings = 0
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._log: Log | None = None
        self._shown: Plan | None = None
        self._last: Plan | None = None
        self._again: Again | None = None

    @property
    def random_counter(self) -> int:
        """The counter that the next random call takes; a program may not move it."""
        return self._bound.next_call

    @random_counter.setter
    def random_counter(self, counter: int) -> None:
        self._refuse("random_counter")
        Session.random_counter.__set__(self, counter)

    def run(
        self, program: Callable[..., Any], params: Sequence[Param], inputs: Sequence[Any]
    ) -> Any:
        """Run a program on an empty tape: program(session, *uses of params, *inputs).

        It is recorded if it was not yet run on parameters and inputs of these shapes and kinds,
        else replayed. Integers and booleans reach it as `Indices`, plain ones as they are.
        A program is hashable, uses the session for ops and constants only, and returns a ref of it,
        or several in a tuple; else it is refused. Programs that are equal are one. A tensor or an
        array that it reads from outside stays what it was: the recording warns of it (`Frozen`).

        Params and inputs are lists, in the order of the program's arguments; a dict, or one tensor
        that is in no list, is Rejected. What is no parameter of this session raises SessionError.
        """
        if self._log is not None:
            self._refuse("run")
        again = self._again
        if again is not None:
            copied = again.copied(program, params, inputs)
            if copied is not None:
                return again.plan.results(self._put_off(again.plan.lowered, again.params, *copied))
            self._again = None
        if not self.store.buffers:
            return self._run(program, params, inputs)
        with kept_if_it_fails(self.store.buffers):
            return self._run(program, params, inputs)

    def _run(self, program: Callable[..., Any], params: Any, inputs: Any) -> Any:
        params, inputs = listed(self.store, params, inputs)
        taken = [taken_from(value, self.options) for value in inputs]
        key = (hashable(program), *((p.slot, p.trainable) for p in params), *map(kind_of, taken))
        integers = [v for v in taken if isinstance(v, Tensor) and not is_leaf(v)]
        plan = self._plans.pop(key, None)
        if plan is None or plan.lowered is None:
            tape = self._leaves_of(params, taken)
        if plan is None:
            log, before = Log(len(tape)), self.random_counter
            held = [(b, b.contents) for b in self.store.buffers]
            out = self._record(log, program, len(params), taken)
            plan = Plan(log, tape, out, integers)
            if self._compiler is not None:
                plan.lowered = self._patient(plan, tape, len(integers))
            elif self.engine != "replay":
                # An artifact takes every step, the first too: else a resumed run would differ.
                self.random_counter = before
                put_back(held)
                kind = Lowered if self.engine == "inductor" else Captured
                plan.lowered = kind(plan, tape, len(integers), self._bound)
            while len(self._plans) >= MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = self._last = plan
            self.recordings += 1
            if plan.lowered is None or self._compiler is not None:
                return out
        # The tape shows the plan's constants, also if the plan is forgotten before the tape.
        self._plans[key] = self._shown = self._last = plan
        if plan.lowered is None:
            plan.replay(tape, integers, self._bound)
            if self._compiler is not None:
                self._compiler.last = REPLAY
        else:
            leaves = [*map(self.store.view, params), *filter(is_leaf, taken)]
            tape = self._put_off(plan.lowered, params, leaves, integers)
            if self.engine == "inductor":
                self._again = Again(program, self.store, params, taken, plan)
        return plan.results(tape)

    def _leaves_of(self, params: Sequence[Param], taken: Sequence[Any]) -> Tape:
        """Start a tape with the uses of parameters, and with the numbers among what was taken."""
        self.reset_tape()
        for parameter in params:
            self._use(parameter)
        tape = self._tape
        for value in taken:
            if is_leaf(value):
                tape.leaf(value, False)
        return tape

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Ref:
        """Check and run one op and append it; a refusal leaves the tape as it was."""
        if self._log is None:
            if self._pending is not None:
                self.settle()
            return super().apply(name, inputs, attributes)
        if self.engine == "graph" and name in OPS and OPS[name].buffers:
            raise beyond("graph", f"{name} updates a buffer")
        read = self._log.read
        read.clear()
        out = super().apply(name, inputs, attributes)
        sources = tuple(x.id if isinstance(x, Ref) else read.pop(0) for x in inputs)
        entry = Recorded(self._bound[name], sources, deepcopy(attributes))
        self._log.entries += [entry, *(None,) * (entry.bound.op.results - 1)]
        return out

    def param(self, value: Any, name: str | None = None, requires_grad: bool = True) -> Param:
        """Make a parameter from host data; a program takes parameters as arguments instead."""
        self._refuse("param")
        return super().param(value, name, requires_grad)

    def buffer(self, value: Any, name: str | None = None) -> NamedBuffer:
        """Make a named buffer; a program updates buffers that were there before it."""
        self._refuse("buffer")
        return super().buffer(value, name)

    def use(self, parameter: Param) -> Ref:
        """Record a parameter's value as a leaf; a program takes parameters as arguments instead."""
        self._refuse("use")
        return super().use(parameter)

    def input(self, value: Any, name: str | None = None, requires_grad: bool = False) -> Ref:
        """Record data as a leaf; a program takes data as arguments instead."""
        self._refuse("input")
        return super().input(value, name, requires_grad)

    def const(self, value: Any) -> Ref:
        """Record a copy of data as a leaf that takes no gradient; a replay has the same data."""
        if isinstance(value, Indices):
            value._unseen()
        if self._log is not None:
            tell("const", value)
        return self._constant(super().input(value))

    def constant(self, value: Any, shape: tuple[int, ...] = (), like: Ref | None = None) -> Ref:
        """Record one number, rounded once and repeated to a shape; no tensor crosses."""
        return self._constant(super().constant(value, shape, like))

    def plan(self) -> Outlines:
        """Say what the program that was run last does: its steps, and who holds memory how long.

        Printed it is a text, and `svg()` draws it. The engine "inductor" shows every artifact that
        the program has run so far. Before any run it is SessionError.
        """
        if self._last is None:
            raise SessionError("plan: no program was run yet; run(program, params, inputs) does so")
        if self._last.lowered is None:
            return Outlines((replayed.outlined(self._last),))
        self.settle()
        return Outlines(tuple(self._last.lowered.outlines()))

    def reset_tape(self) -> None:
        """Forget every value, ref and natural; what was recorded stays."""
        self._refuse("reset_tape")
        self._shown = None
        super().reset_tape()

    def collect(self) -> None:
        """Give memory that nothing needs back; programs are recorded anew after it."""
        self._refuse("collect")
        self._plans.clear()
        self._last = self._again = None
        super().collect()

    def _record(
        self, log: Log, program: Callable[..., Any], params: int, taken: Sequence[Any]
    ) -> Out:
        """Run a program eagerly on the leaves that the tape holds, and keep what it did."""
        tape, positions = self._tape, count()
        leaves = (Ref(tape, identity) for identity in range(log.first))
        arguments: list[Any] = [*islice(leaves, params)]
        for value in taken:
            if is_leaf(value):
                arguments.append(next(leaves))
            elif isinstance(value, Tensor):
                arguments.append(Indices(value, next(positions), log))
            else:
                arguments.append(value)
        self._log = log
        try:
            out = program(self, *arguments)
        finally:
            self._log = None
        every = out if isinstance(out, tuple) and out else (out,)
        if not all(isinstance(entry, Entry) and entry.tape is tape for entry in every):
            raise Rejected(
                "compiled: a program returns a ref of the session that runs it, or several in a "
                f"tuple, got {out!r}"
            )
        found: Out = out
        return found

    def _constant(self, ref: Ref) -> Ref:
        if self._log is not None:
            copy = self._tape.values[ref.id].clone()
            self._log.entries.append(Buffer(copy, "a recorded program"))
        return ref

    def _beside(self, bound: Bound, position: int, inputs: tuple[Any, ...]) -> Tensor:
        """Return what an input reads without a gradient, and note where a replay finds it."""
        arg = inputs[position]
        read: int | Argument | Contents | Tensor
        if isinstance(arg, Indices):
            tensor, read = self._received(bound, position, inputs), Argument(arg._position)
        else:
            if self._log is not None:
                tell(bound.describe(position), arg)
            read = tensor = super()._beside(bound, position, inputs)
        if isinstance(arg, IndexRef):
            read = arg.id
        elif isinstance(arg, NamedBuffer):
            read = Contents(arg, tensor)
        if self._log is not None:
            self._log.read.append(read)
        return tensor

    def _received(self, bound: Bound, position: int, inputs: tuple[Any, ...]) -> Tensor:
        """Return what a program hands on, where it may."""
        indices, what = inputs[position], bound.describe(position)
        if indices._log is not self._log:
            raise SessionError(
                f"{what}: these integers were given to a program for one recording, which is over; "
                "hand data in as an argument"
            )
        if position not in bound.op.index_inputs:
            raise foreign(what, indices, self._tape, bound.op, inputs)
        if (indices.dtype is torch.bool) != (position in bound.op.mask_inputs):
            super()._beside(bound, position, (*inputs[:position], indices._tensor))  # refuses it
        return indices._tensor  # type: ignore[no-any-return]

    def _own(self, ref: Entry, what: str, kind: type[Entry] = Ref) -> int:
        if what != "shape_of":
            self._refuse(what)
        return super()._own(ref, what, kind)

    def _apply(self, wanted: Wanted, grads: Any) -> None:
        if self._log is not None:
            self._refuse("an update")
        super()._apply(wanted, grads)
        if self._compiler is not None:
            self._compiler.count()

    def _refuse(self, what: str) -> None:
        if self._log is not None:
            raise outside_of_recording(f"call {what}")
