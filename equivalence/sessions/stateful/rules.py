"""The rules of the state machine: what may happen next in a run, decided by three numbers.

A rule does what its name says with what there is: numbers are read modulo the parameters, entries
and gradients that are alive. Where nothing fits it does nothing.
"""

# This file is longer than the guide because a run has all of its rules in one place.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from torch import Tensor

from equivalence.cases.families.family import Picks
from equivalence.cases.updates.levels import choices, of_every_shape, other_choices, permitted_pairs
from equivalence.sessions.stateful.bad import KINDS
from equivalence.sessions.stateful.model import Shape, Sparse
from equivalence.sessions.stateful.operands import MOST_ENTRIES, Offer, operands
from equivalence.sessions.stateful.run import Run
from spec.ops import OPS
from spec.optim import OPTIMIZERS

SHAPES: tuple[Shape, ...] = ((3,), (2, 3), (1,), (), (3, 2), (2, 2), (0,), (1, 3))
FORMS = ("torch", "buffer", "list", "numpy")
MATRICES = tuple(shape for shape in SHAPES if len(shape) == 2)
NAMES = (*OPTIMIZERS,)
MOST_PARAMS, MOST_GRADS, MOST_NATURALS, MOST_USES, MOST_BUFFERS = 5, 4, 3, 2, 6

Calls = Sequence[tuple[str, Picks]]
"""Some ops to run in a row, with the numbers by which they find their operands."""

Event = tuple[str, int, Picks]
"""A rule that disturbs a training step, after which of its phases, and its numbers."""


class Rules:
    """A run, and everything that may happen in it."""

    def __init__(self, provider: str, precision: str) -> None:
        """Start a run."""
        self.run = Run(provider, precision)
        self.usual = NAMES[0]
        self.shapes = SHAPES

    def begin(self, n: Picks) -> None:
        """Have one parameter or two, in use, and an optimizer that is used more than the others.

        Where that is one of matrices, all parameters are such.
        """
        self.usual = NAMES[n[0] % len(NAMES)]
        self.shapes = MATRICES if OPTIMIZERS[self.usual].matrices else SHAPES
        for param in range(1 + n[1] % 2):
            self.run.param(self.shapes[n[2] % len(self.shapes)], n[0] + param)
            self.run.use(param)

    def param(self, n: Picks) -> None:
        """Make a parameter, frozen or not, and leave it idle or use it."""
        if len(self.run.model.params) < MOST_PARAMS:
            self.run.param(self.shapes[n[0] % len(self.shapes)], n[1], n[2] % 4 > 0)
            if n[1] % 2 and self.room:
                self.run.use(len(self.run.model.params) - 1)

    def use(self, n: Picks) -> None:
        """Use a parameter, once or twice on a tape."""
        params = range(len(self.run.model.params))
        found = [p for p in params if self.run.model.tape.count(p) < MOST_USES]
        if found and self.room:
            self.run.use(found[n[0] % len(found)])

    def input(self, n: Picks) -> None:
        """Put data on the tape, trainable or not."""
        if self.room:
            form = FORMS[n[2] % len(FORMS)]
            self.run.input(SHAPES[n[0] % len(SHAPES)], n[1], n[1] % 2 > 0, form)

    def natural(self, n: Picks) -> None:
        """Record a natural or a vector, or overwrite one by another of its kind and length."""
        known = self.run.model.tape.naturals
        if known and (n[0] % 3 or len(known) >= MOST_NATURALS):
            which = n[1] % len(known)
            self.run.set_nat(which, like(known[which], n[0]))
        elif len(known) < MOST_NATURALS:
            self.run.nat(n[2] % 3 if n[1] % 2 else like([0] * (n[1] % 5), n[2]))

    def ops(self, calls: Calls) -> None:
        """Run some ops on what the tape has."""
        for name, picks in calls:
            operands = self.operands(name, picks) if self.room else None
            if operands is not None:
                self.run.op(name, operands[0], **operands[1])

    def backward(self, n: Picks) -> None:
        """Send a cotangent back to the leaves."""
        if self.run.refs and len(self.run.grads) < MOST_GRADS:
            entry, seed = self.loss(n)
            self.run.backward(entry, seed, FORMS[n[2] % len(FORMS)])

    def into(self, n: Picks) -> None:
        """Send a cotangent back on top of an earlier pass."""
        target = self.target(n[1])
        if self.run.refs and target is not None:
            entry, seed = self.loss(n)
            self.run.backward(entry, seed, FORMS[n[2] % len(FORMS)], target)

    def dense(self, n: Picks) -> None:
        """Send a cotangent back to every entry."""
        if self.run.refs and len(self.run.grads) < MOST_GRADS:
            entry, seed = self.loss(n)
            self.run.backward_dense(entry, seed, FORMS[n[2] % len(FORMS)])

    def ask(self, n: Picks) -> None:
        """Look a gradient up."""
        if self.run.grads:
            grads, by = self.grads(n[0]), ("id", "ref", "param")[n[2] % 3]
            known = self.run.model.grads[grads].known()
            if known:
                self.run.ask(grads, known[n[1] % len(known)], by)

    def release(self, n: Picks) -> None:
        """Give gradients back."""
        if self.run.grads:
            self.run.release(self.grads(n[0]), ("release", "with", "drop")[n[1] % 3])

    def step(self, n: Picks) -> None:
        """Update parameters; then go on, with a new tape, or with the gradients released too."""
        if not self.run.grads:
            return
        grads, name = self.grads(n[0]), self.optimizer(n[1])
        if self.run.usable(grads):
            self.run.step(name, grads, self.groups(name, n), **hyper(name, n[1]))
        if n[2] % 3 == 2:
            self.run.release(grads)
        if n[2] % 3:
            self.again(n)

    def step_host(self, n: Picks) -> None:
        """Update parameters by gradients that the host made up."""
        if self.run.model.tape.leaves:
            name, form = self.optimizer(n[1]), ("mapping", "sequence", "buffers")[n[2] % 3]
            self.run.step_host(name, n[0], form, self.groups(name, n), **hyper(name, n[1]))

    def set(self, n: Picks) -> None:
        """Overwrite a parameter on the host."""
        self.run.set(self.owner(n[0]), n[1], FORMS[n[2] % len(FORMS)])

    def set_device(self, n: Picks) -> None:
        """Overwrite a parameter on the device."""
        self.run.set_device(self.owner(n[0]), n[1], FORMS[n[2] % 2])

    def look(self, n: Picks) -> None:
        """Read an entry, a parameter or its state, or bring a copy up to date."""
        how = ("value", "read", "sync", "mirror", "state")[n[1] % 5]
        if how == "state":
            self.run.state(self.optimizer(n[2]), self.owner(n[0]))
        elif how != "value":
            getattr(self.run, how)(self.owner(n[0]))
        elif self.run.refs:
            self.run.value(n[0] % len(self.run.refs))

    def freeze(self, n: Picks) -> None:
        """Freeze a parameter, or let it be trained again."""
        param = self.owner(n[0])
        self.run.freeze(param, not self.run.model.params[param].trainable or n[1] % 4 == 0)

    def forget(self, n: Picks) -> None:
        """Reset the tape."""
        self.run.reset_tape()

    def again(self, n: Picks) -> None:
        """Reset the tape, and use every parameter again."""
        self.run.reset_tape()
        for param in range(len(self.run.model.params)):
            self.run.use(param)

    def collect(self, n: Picks) -> None:
        """Give memory back."""
        self.run.collect()

    def save(self, n: Picks) -> None:
        """Write a checkpoint."""
        self.run.save()

    def load(self, n: Picks) -> None:
        """Go back to the checkpoint, in one of three ways."""
        if self.run.saved is not None:
            getattr(self.run, ("load", "restore", "resume")[n[0] % 3])()

    def broken_value(self, n: Picks) -> None:
        """Let an op fail."""
        name = [*OPS][n[0] % len(OPS)]
        operands = self.operands(name, n)
        if operands is not None:
            self.run.broken_value(name, operands[0], **operands[1])

    def broken_rule(self, n: Picks) -> None:
        """Let a rule fail in the middle of a backward pass, as a rule one that adds to another."""
        if n[2] % 4 and self.target(n[1]) is None:
            self.backward(n)
        if self.run.refs:
            entry, seed = self.loss(n)
            behind = [] if self.run.model.stale(entry) else self.run.behind(entry)
            if behind:
                into = self.target(n[1]) if n[2] % 4 else None
                self.run.broken_rule(entry, behind[n[1] % len(behind)], seed, into)

    def broken_update(self, n: Picks) -> None:
        """Let an update fail, or be stopped by an index out of range."""
        if self.run.grads:
            name, run = self.optimizer(n[1]), (self.run.broken_update, self.run.flagged)[n[2] % 2]
            run(name, self.grads(n[0]), **hyper(name, n[1]))

    def bad(self, n: Picks) -> None:
        """Hand in bad arguments."""
        self.run.bad([*KINDS][n[0] % len(KINDS)])

    def train(self, calls: Calls, n: Picks, events: Sequence[Event]) -> None:
        """Make one training step again and again, by other numbers and rates, and disturb one.

        A session learns from a step what it needs in the next; a disturbance makes that wrong. The
        first step may not teach it all, as an optimizer's state is new in it: so half the time
        another goes before the one that is disturbed. What was saved in that is loaded after it.
        """
        name, count = self.optimizer(n[1]), len(self.run.model.params)
        changed, disturbed = hyper(name, n[1]), n[0] % 2
        for k in range(disturbed + 2):
            for phase in self._round(count, calls, n, name, changed, n[0] + k):
                for event, at, m in events:
                    if k == disturbed and phase == at:
                        getattr(self, event)(m)
            if k == disturbed:
                changed["lr"] = 0.25
                if "save" in [event for event, _, _ in events]:
                    self.load(n)

    def _round(
        self, count: int, calls: Calls, n: Picks, name: str, hyper: dict[str, Any], seed: int
    ) -> Iterator[int]:
        """Use, run, send back, update, release; stop after each, and go on while it can be done."""
        run = self.run
        run.reset_tape()
        if n[2] % 2:
            run.nat(n[2] % 3)
            run.nat([n[2] % 3, 0])
        for param in range(min(count, len(run.model.params))):
            run.use(param)
        if n[2] % 3 == 0:
            run.use(0)
        yield 0
        self.ops(calls)
        for k, held in enumerate(run.model.tape.naturals):
            run.set_nat(k, held // 2 if isinstance(held, int) else held[::-1])
        yield 1
        last = max(run.fed(), default=-1)
        if last < 0 or run.model.stale(last) or len(run.grads) == MOST_GRADS:
            return
        run.backward(last, seed)
        grads = max(run.grads)
        yield 2
        if grads in run.grads and run.usable(grads):
            run.step(name, grads, **hyper)
        yield 3
        if grads in run.grads:
            run.release(grads)
        yield 4

    @property
    def room(self) -> bool:
        """Whether the tape may grow."""
        return len(self.run.refs) < MOST_ENTRIES

    def owner(self, which: int) -> int:
        """Pick a parameter."""
        return which % len(self.run.model.params)

    def grads(self, which: int) -> int:
        """Pick gradients."""
        return sorted(self.run.grads)[which % len(self.run.grads)]

    def target(self, which: int) -> int | None:
        """Pick a gradient map to add to."""
        models = self.run.model.grads
        found = [k for k, m in models.items() if isinstance(m, Sparse) and self.run.usable(k)]
        return found[which % len(found)] if found else None

    def loss(self, n: Picks) -> tuple[int, int | None]:
        """Pick an entry, as a rule one that has gradients, and a seed, which a scalar may lack.

        Now and then it is the sum of one with itself, which hands the very seed on twice.
        """
        fed = self.run.fed()
        terms = self.operands("add", n) if self.room and n[2] % 5 == 0 else None
        if terms is not None and terms[0][0] in fed:
            self.run.op("add", terms[0][:1] * 2)
            return len(self.run.refs) - 1, n[1]
        found = fed[::-1] if n[0] % 4 and fed else self.run.model.tape.numbers()
        entry = found[n[0] % len(found)]
        return entry, None if n[1] % 2 and not self.run.refs[entry].shape else n[1]

    def optimizer(self, which: int) -> str:
        """Pick an optimizer: the usual one, as a rule."""
        among = NAMES if self.shapes is MATRICES else of_every_shape()
        return among[which // 4 % len(among)] if which % 4 == 0 else self.usual

    def groups(self, name: str, n: Picks) -> Any:
        """Pick groups: none, as a rule, or a parameter with hyper-parameters of its own."""
        if n[1] % 4:
            return ()
        if n[1] % 16 == 0:
            return (((self.owner(n[0]),), {"max_norm": 0.5}),)
        key = (alone := OPTIMIZERS[name].alone)[n[2] % len(alone)]
        others = other_choices(name, hyper(name, n[1]), key)
        return (((self.owner(n[0]),), {key: others[n[1] % len(others)]}),) if others else ()

    def operands(self, name: str, picks: Picks) -> Any:
        """Find operands for an op among the entries whose bits are still what they were."""
        model = self.run.model
        values = {here: entry.bits for here, entry in model.intact()}
        if OPS[name].buffers:
            self._buffers(values, picks)
        where = self.run.provider, self.run.precision
        return operands(name, Offer(values, model.tape.naturals, *where, model.buffers), picks)

    def _buffers(self, values: Mapping[int, Tensor], picks: Picks) -> None:
        """Have buffers for the channels of some entry, or overwrite one that there is."""
        held, at = self.run.model.buffers, picks[0]
        if held and picks[2] % 4 == 0:
            self.run.set_buffer(at % len(held), picks[1])
        elif held and picks[2] % 4 == 1:
            self.run.read_buffer(at % len(held))
        wide = [x.shape[1:2] for x in values.values() if x.dim() > 1]
        if wide and len(held) < MOST_BUFFERS:
            while sum(b.shape == wide[-1 - at % len(wide)] for b in held) < 2:
                self.run.buffer(tuple(wide[-1 - at % len(wide)]), picks[1] + len(held))


LEAVES = "param", "use", "input", "natural"
GRADIENTS = ("backward", "into", "into", "dense", "ask", "ask", "release")
UPDATES = ("step", "step_host")
PARAMETERS = ("set", "set_device", "look", "freeze", "freeze")
TURNS = ("forget", "again", "collect", "save", "save", "load")
PHASES = (0, 1, 2, 2, 3, 4)
FAULTS = ("broken_value", *["broken_rule"] * 2, *["broken_update"] * 2, "bad")
EVENTS = (*["param"] * 4, *LEAVES[1:], *GRADIENTS, *UPDATES, *PARAMETERS, *TURNS, *FAULTS)
"""What may disturb a training step: everything else; what is named twice happens more often."""


def hyper(name: str, number: int) -> dict[str, Any]:
    """Pick hyper-parameters, of which any may be far from its default."""
    draw = Random(number)
    chosen = {k: draw.choice(among) for k, among in choices(name).items() if k != "start_step"}
    chosen["grad_scale"] = draw.choice((1.0, 1.0, 1024.0, 48.0))
    chosen["max_value"] = draw.choice((None, None, None, 0.25, 2.0))
    return dict(permitted_pairs(name, chosen))


def like(held: int | list[int], number: int) -> int | list[int]:
    """Make a natural up, or a vector of a given one's length."""
    return number % 3 if isinstance(held, int) else [(number + k) % 3 for k in range(len(held))]
