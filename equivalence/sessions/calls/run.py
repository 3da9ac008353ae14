"""A run of calls: statements on a session that compiles and on the reference, judged after each.

What a session puts off must be what it would have been at once, whoever asks for it, and when. So
the reference computes every call, pass and sum of passes when it is made, from the parameters of
that moment; what the session shows later, or never, is judged by that.

    run = Calls("inductor", "fp32")
    run.call(0, 7)
    run.backward(0)
    run.step(0, 0.5)
    run.value(0)
    run.end()

A call takes a program by its place in `SHARED`, and draws its data by a seed. Results are named by
their places, gradients by the order in which they were made.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equivalence.budgets.violation import Violation, check_bits, check_equal
from equivalence.sessions.calls.programs import SHAPES, SHARED, Shared
from equivalence.sessions.judge import SessionJudge, State
from equivalence.sessions.numbers import normal
from equivalence.sessions.stateful.base import statement
from fast import CompiledSession, checkpoint
from fast.errors import Frozen, Rejected, Stale, Unmoved
from spec.op import AnyTensor, plus, zeros_like
from spec.op import Rejected as SpecRejected
from spec.optim import OPTIMIZERS
from spec.session import Session

BEGIN = ("from equivalence.sessions.calls.run import Calls", "")
"""What stands before the statements of a run that replays."""

WILD = 2.0**6
"""A parameter with a larger entry is written anew."""


@dataclass
class Call:
    """The call at hand: refs of both sides, what is due, and what was seen of it."""

    shared: Shared
    ours: Any
    theirs: Any
    leaves: list[Any]
    due: list[AnyTensor]
    versions: list[int]
    seen: dict[int, Tensor] = field(default_factory=dict)


@dataclass
class Held:
    """Gradients: the session's, what is due by parameter, and how one updates by them."""

    found: Any
    shared: Shared
    due: dict[int, AnyTensor] = field(default_factory=dict)
    seen: dict[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    values: list[Tensor]
    states: dict[str, list[State]]
    counter: int


class Calls(SessionJudge):
    """A session whose programs an engine compiles, beside one of the reference."""

    folder: str | None = None
    saved: Saved | None = None

    def __init__(self, engine: str, precision: str) -> None:
        """Start both with the parameters of the shared programs."""
        self.program = [*BEGIN, f"run = Calls({engine!r}, {precision!r})"]
        self.broken = False
        self.fast = CompiledSession("aten", precision, "cpu", engine=engine)
        super().__init__(self.fast.options, engine)
        self.spec = Session()
        self.bound(self.spec)
        self.values = [normal(k, *shape) / 2 for k, shape in enumerate(SHAPES)]
        self.params = [self.fast.param(value) for value in self.values]
        self.values = [p.value() for p in self.params]
        self.theirs = [self.spec.param(self.lift(self.seen(value))) for value in self.values]
        self.states: dict[str, list[State]] = {}
        self.at: Call | None = None
        self.grads: dict[int, Held] = {}
        self.made = 0

    @statement
    def call(self, which: int, seed: int) -> None:
        """Call a program on new data; nothing is looked at."""
        self._call(SHARED[which], SHARED[which].data(seed, self.options.compute))

    @statement
    def refuse(self, which: int, seed: int) -> None:
        """Call a program with labels out of range, or data of another shape: both refuse."""
        shared = SHARED[which]
        first, *others = shared.data(seed, self.options.compute)
        bad = [first, *(x + 9 if x.dtype is not torch.bool else x[:1, :1] for x in others)]
        if not others:
            bad = [torch.cat([first, first], dim=1)]
        for call in (self._ours, self._their):
            try:
                call(shared, bad)
            except (Rejected, SpecRejected):
                continue
            raise Violation("a call with bad data went on, due is Rejected")
        self.at = None

    @statement
    def value(self, which: int) -> None:
        """Look at a result."""
        assert self.at is not None
        got = self.fast.value(self.at.ours[which])
        if which in self.at.seen:
            check_bits(f"result {which}, looked at again", got, self.at.seen[which])
            return
        self.judge(f"result {which}", got, self.at.due[which], self.options.compute)
        self.at.seen[which] = got

    @statement
    def backward(self, which: int, seed: int | None = None, into: int | None = None) -> None:
        """Send a cotangent back from a result, perhaps on top of earlier passes."""
        at = self.at
        assert at is not None
        start = None
        if seed is not None or at.due[which].shape:
            start = self.seen(normal(seed or 0, *at.due[which].shape))
        given = None if start is None else start.clone()
        target = None if into is None else self.grads[into].found
        if self.stale:
            try:
                self.fast.backward(at.ours[which], given, target)
            except Stale:
                return
            raise Violation("a pass over a tape whose parameters have changed went on")
        found = self.fast.backward(at.ours[which], given, target)
        if given is not None:
            given.fill_(7.0)
        exact = self.spec.backward(at.theirs[which], None if start is None else self.lift(start))
        if into is None:
            into, self.made = self.made, self.made + 1
            self.grads[into] = Held(found, at.shared)
        elif found is not target:
            raise Violation("backward: into returned other gradients than it was given")
        held = self.grads[into]
        held.shared = at.shared
        held.seen.clear()
        for slot, leaf in zip(at.shared.params, at.leaves, strict=True):
            if leaf.id in exact:
                total = plus(held.due.get(slot), self.spec.grad(exact, leaf))
                assert total is not None
                held.due[slot] = total

    @statement
    def ask(self, grads: int, slot: int) -> None:
        """Look a parameter's gradient up."""
        self._ask(self.grads[grads], slot)

    @statement
    def step(self, grads: int, lr: float) -> None:
        """Update as the program does whose pass was the last, and look at gradients after it."""
        held = self.grads[grads]
        optimizer, hyper = held.shared.optimizer, {**held.shared.hyper, "lr": lr}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Unmoved)
            getattr(self.fast, f"{optimizer}_step")(grads=held.found, **hyper)
        found = {slot: self._ask(held, slot) for slot in sorted(held.due)}
        self._update(optimizer, found, hyper)

    @statement
    def set(self, slot: int, seed: int) -> None:
        """Overwrite a parameter."""
        self.params[slot].set(normal(seed, *SHAPES[slot]) / 2)
        self.values[slot] = self.params[slot].value()

    @statement
    def release(self, grads: int) -> None:
        """Give gradients back, looked at or not."""
        self.grads.pop(grads).found.release()

    @statement
    def reset(self) -> None:
        """Forget the tape."""
        self.fast.reset_tape()
        self.spec.reset_tape()
        self.at = None

    @statement
    def save(self) -> None:
        """Write a checkpoint."""
        if self.folder is None:
            self.folder = tempfile.mkdtemp()
            # A run that breaks ends anywhere; its folder goes with it.
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        checkpoint.save(Path(self.folder) / "c", self.fast)
        states = {name: [*row] for name, row in self.states.items()}
        self.saved = Saved([*self.values], states, self.fast.random_counter)

    @statement
    def load(self) -> None:
        """Go back to the checkpoint."""
        assert self.saved is not None and self.folder is not None
        checkpoint.load(Path(self.folder) / "c", self.fast)
        self.values = [*self.saved.values]
        self.states = {name: [*row] for name, row in self.saved.states.items()}
        self.spec.random_counter = self.saved.counter

    @property
    def stale(self) -> bool:
        """Whether a parameter has changed since the call at hand used it."""
        return self.at is None or self.at.versions != [p.version for p in self.params]

    @property
    def wild(self) -> list[int]:
        """The parameters that have grown too large for what follows."""
        return [k for k, value in enumerate(self.values) if not bool((value.abs() <= WILD).all())]

    def end(self) -> None:
        """End the run: everything is given back."""
        for grads in list(self.grads):
            self.release(grads)
        self.reset()

    def check(self) -> None:
        """Check what can be looked at without having anything computed."""
        check_equal("random calls", self.fast.random_counter, self.spec.random_counter)
        for slot, (param, due) in enumerate(zip(self.params, self.values, strict=True)):
            check_bits(f"parameter {slot}", param.value(), due)
        for optimizer, states in self.states.items():
            for param, state in zip(self.params, states, strict=True):
                found = self.fast.optimizer_state(optimizer, param)
                self.check_state(f"{optimizer} state of {param.name}", optimizer, found, state)
        held = [held.found.arena for held in self.grads.values() if held.found.there]
        arenas = [*map(id, (*held, *self.fast.store._pool))]
        check_equal("memory for gradients is anyone's once", len(set(arenas)), len(arenas))

    def _call(self, shared: Shared, data: list[Tensor]) -> None:
        versions = [p.version for p in self.params]
        ours = self._ours(shared, data)
        theirs, leaves = self._their(shared, data)
        due = [self.spec.value(ref) for ref in theirs]
        self.at = Call(shared, ours, theirs, leaves, due, versions)

    def _ours(self, shared: Shared, data: list[Tensor]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Frozen)
            given = [x.clone() for x in data]
            found = self.fast.run(shared.run, [self.params[k] for k in shared.params], given)
        for x in given:
            x.zero_()
        return found

    def _their(self, shared: Shared, data: list[Tensor]) -> tuple[Any, list[Any]]:
        self.spec.reset_tape()
        for param, value in zip(self.theirs, self.values, strict=True):
            param.set(self.lift(self.seen(value)))
        leaves = [self.spec.use(self.theirs[k]) for k in shared.params]
        lifted = [self.lift(x) for x in data]
        inputs = [self.spec.input(x) if d.is_floating_point() else x
                  for x, d in zip(lifted, data, strict=True)]  # fmt: skip
        return shared.run(self.spec, *leaves, *inputs), leaves

    def _ask(self, held: Held, slot: int) -> Tensor:
        got = self.fast.grad(held.found, self.params[slot])
        label = f"gradient of parameter {slot}"
        if slot in held.seen:
            check_bits(f"{label}, looked at again", got, held.seen[slot])
            return got
        due = held.due.get(slot)
        self.judge(label, got, zeros_like(self.lift(got)) if due is None else due, got.dtype)
        held.seen[slot] = got
        return got

    def _update(self, optimizer: str, found: dict[int, Tensor], hyper: dict[str, Any]) -> None:
        """Let the reference make the update that was made, and judge what it has written."""
        spec = self.spec
        states = self.states.setdefault(optimizer, [State() for _ in SHAPES])
        for param, value, state in zip(self.theirs, self.values, states, strict=True):
            self.hand_over(spec, param, value, state, optimizer)
        used = spec.params_by_leaf
        spec.params_by_leaf = {k: self.theirs[slot] for k, slot in enumerate(found)}
        lifted = {k: self.gradient(bits, optimizer) for k, bits in enumerate(found.values())}
        getattr(spec, f"{optimizer}_step")(grads=lifted, **hyper)
        spec.params_by_leaf = used
        for slot in found:
            label = f"{optimizer}: parameter {slot}"
            value = self.params[slot].value()
            kept = self.fast.optimizer_state(optimizer, self.params[slot])
            state = spec.state(self.theirs[slot])
            fields = OPTIMIZERS[optimizer].moments
            moments = {name: kept[name] for name in fields if getattr(state, name) is not None}
            due = self.theirs[slot].value, state
            got = value, moments
            states[slot] = self.judge_update(label, optimizer, got, due, states[slot])
            self.values[slot] = value
