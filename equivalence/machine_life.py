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

# longer than the guide because a life is one class, and what it may do to leaves is one subject
import gc
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from equivalence.machine_model import Entry, Leaf, Model
from equivalence.machine_model import Param as ModelParam
from equivalence.machine_model import Tape as ModelTape
from equivalence.machine_ops import kept, numbers
from equivalence.machine_twin import Resynced, Violation, check_bits, check_equal
from equivalence.twins import TwinRef
from fast._counters import counters
from fast.errors import SessionError, Stale
from spec.op import Rejected
from spec.ops import OPS
from spec.tensor import tensor

Method = TypeVar("Method", bound=Callable[..., None])

SCRIBBLE = 7.0
"""What is written over memory that is the caller's again."""


def statement(method: Method) -> Method:
    """Make a method a statement of the program: noted as text, and checked when it is done."""

    @wraps(method)
    def run(self: Base, *args: Any, **kwargs: Any) -> None:
        given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        self.program.append(f"life.{method.__name__}({', '.join(given)})")
        try:
            method(self, *args, **kwargs)
            self.check()
        except Exception as error:
            self.broken = True
            says = (
                error.says if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
            )
            raise Violation(says, self.program) from error

    return cast(Method, run)


def described(call: Callable[[], object]) -> str:
    """Write a call in a message."""
    if not isinstance(call, partial):
        return "it"
    more = [f"{name}={value!r}" for name, value in call.keywords.items()]
    return f"{call.func.__name__}({', '.join([*map(repr, call.args), *more])})"


class Base:
    """The sessions, the model, and the checks after every statement."""

    def __init__(self, provider: str, precision: str) -> None:
        """Start a life; what the counters showed before is not its own."""
        self.program = [f"life = Life({provider!r}, {precision!r})"]
        self.provider, self.precision = provider, precision
        self.broken = False
        self.born()
        self.first = self.baseline

    def born(self) -> None:
        """Start both sessions anew."""
        gc.collect()
        before = counters.snapshot()
        self.baseline = before.live_bytes, before.live_buffers
        self.twin = Resynced(self.provider, self.precision)
        options = self.twin.fast.options
        self.model = Model(options.compute, options.master)
        self.refs: list[TwinRef] = []
        self.naturals: list[tuple[Any, int]] = []
        self.grads: dict[int, Any] = {}
        self.made = 0

    def draw(self, seed: int, shape: tuple[int, ...]) -> Tensor:
        """Draw numbers of the dtype in which the session computes."""
        return numbers(seed, shape, self.model.compute)

    def draw_master(self, seed: int, shape: tuple[int, ...]) -> Tensor:
        """Draw the value of a parameter; what bf16 sees of it is rounded."""
        value = numbers(seed, shape, self.model.master)
        if self.model.shadow is not None:
            value += numbers(seed + 1, shape) / 512
        return value

    def check(self) -> None:
        """Check everything that can be looked at without disturbing it."""
        self._check_params()
        self._check_states()
        self._check_tape()
        self._check_grads()
        self._check_memory()

    def refused(self, call: Callable[[], object], *kinds: type[Exception]) -> None:
        """Expect an error."""
        try:
            call()
        except kinds:
            return
        due = " or ".join(kind.__name__ for kind in kinds)
        raise Violation(f"{described(call)} went on, due is {due}")

    def _check_params(self) -> None:
        for slot, (param, due) in enumerate(zip(self.twin.params, self.model.params, strict=True)):
            found = param.fast
            label = f"parameter {slot}"
            check_equal(f"{label}: current", found.current, due.current)
            check_equal(f"{label}: version", found.version, due.version)
            check_equal(f"{label}: requires_grad", found.requires_grad, due.trainable)
            if due.current != "device":
                check_bits(f"{label}: host copy", found._host, due.value)
            if due.current != "host":
                check_bits(f"{label}: mirror", self.twin.fast.masters.views[slot], due.value)

    def _check_states(self) -> None:
        for slot, param in enumerate(self.model.params):
            for optimizer, state in param.states.items():
                label = f"{optimizer} state of parameter {slot}"
                found = self.twin.moments(optimizer, slot)
                if state.moments is None:
                    nothing = found is None or not any(bool(m.any()) for m in found.values())
                    check_equal(f"{label}: is fresh", nothing, True)
                    continue
                if found is None:
                    raise Violation(f"{label}: is gone")
                for name, due in state.moments.items():
                    check_bits(f"{label}: {name}", found[name], due)
                check_equal(f"{label}: step", self.twin.steps(optimizer, slot), state.step)

    def _check_tape(self) -> None:
        tape, entries = self.twin.fast._tape, self.model.tape.entries
        check_equal("length of the tape", len(tape.values), len(entries))
        for here, entry in self.model.intact():
            check_bits(f"entry {here}", tape.values[here], entry.bits)
        for here in range(len(entries)):
            check_equal(f"entry {here}: stale", self.twin.stale(here), self.model.stale(here))
        check_equal("trainable leaves", list(tape.leaves), list(self.model.tape.leaves))
        check_equal("naturals", len(self.twin.fast._nats), len(self.model.tape.naturals))
        counters = self.twin.fast.random_counter, self.twin.spec.random_counter
        check_equal("random counters", counters, (self.model.calls,) * 2)

    def _check_grads(self) -> None:
        raise NotImplementedError

    def _check_memory(self) -> None:
        found = counters.snapshot()
        live = found.live_bytes - self.baseline[0], found.live_buffers - self.baseline[1]
        check_equal("live bytes and buffers", live, self.model.weight())


class Leaves(Base):
    """Parameters and other leaves, naturals, ops and their values."""

    @statement
    def param(self, shape: tuple[int, ...], seed: int, trainable: bool = True) -> None:
        """Make a parameter."""
        value = self.draw_master(seed, shape)
        name = f"p{len(self.model.params)}"
        self.twin.param(value, name, trainable)
        self.model.params.append(ModelParam(shape, trainable, value.clone()))
        self.model.fit(self.model.masters)
        value.fill_(SCRIBBLE)

    @statement
    def use(self, param: int) -> None:
        """Put a parameter on the tape."""
        self.model.use(param)
        owner = self.model.params[param]
        ref = self.twin.use(self.twin.params[param])
        due = owner.value.to(self.model.compute)
        check_bits(f"use of parameter {param}", self.twin.peek(ref), due)
        bits = self.twin.adopt(ref, due)
        self._enter(ref, Entry(bits, param=param, version=owner.version))

    @statement
    def input(self, shape: tuple[int, ...], seed: int, trainable: bool = False, form: str = "torch") -> None:  # fmt: skip  # noqa: E501
        """Put data on the tape: a torch tensor, a list, a numpy array or a device buffer."""
        value = self.draw(seed, shape)
        due = value.clone()
        given = self.given(value, form)
        fast = self.twin.fast.input(given, requires_grad=trainable)
        spec = self.twin.spec.input(self.twin.lift(value), requires_grad=trainable)
        if form == "buffer":
            given.tensor.fill_(SCRIBBLE)
            given.release()
        value.fill_(SCRIBBLE)
        if trainable:
            self.model.tape.leaves[len(self.refs)] = Leaf(shape)
        ref = TwinRef(self.twin, fast, spec)
        check_bits("input", self.twin.peek(ref), due)
        self._enter(ref, Entry(due, due.nbytes, 1))

    def given(self, value: Tensor, form: str) -> Any:
        """Put data into one of the forms in which a caller may hand it in."""
        if form == "list" and value.numel():
            return value.tolist()
        if form == "numpy":
            return value.float().numpy()
        return self.twin.fast.upload(value) if form == "buffer" else value

    @statement
    def op(self, name: str, inputs: tuple[Any, ...], **attributes: Any) -> None:
        """Run an op on entries; indices are a list or the name of a natural."""
        fast = [self._operand(x, 0) for x in inputs]
        spec = [self._operand(x, 1) for x in inputs]
        ref = TwinRef(
            self.twin,
            getattr(self.twin.fast, name)(*fast, **attributes),
            getattr(self.twin.spec, name)(*spec, **attributes),
        )
        self.twin.judge_value(ref)
        value = self.twin.peek(ref)
        check_equal(f"{name}: dtype", value.dtype, self.model.compute)
        wanted = self.twin.spec.tape.node(ref.spec.id).requires_grad
        check_equal(f"{name}: requires_grad", ref.fast.requires_grad, wanted)
        known = self.model.tape.entries
        nbytes, buffers = kept(name, self.provider, inputs, known) if wanted else (0, 0)
        self.model.calls += OPS[name].random
        bits = self.twin.adopt(ref, value)
        self._enter(ref, Entry(bits, bits.nbytes + nbytes, 1 + buffers))

    def _operand(self, given: Any, side: int) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            ref = self.refs[given]
            return ref.spec if side else ref.fast
        if isinstance(given, str):
            natural = int(given[1:])
            return tensor(self.model.tape.naturals[natural]) if side else self.naturals[natural][0]
        data = torch.tensor(given)
        data = data if data.dtype is torch.bool else data.to(torch.int64)
        return tensor(given) if side else data

    def fed(self) -> list[int]:
        """List the entries that a trainable leaf feeds."""
        tape = self.twin.spec.tape
        return [k for k, ref in enumerate(self.refs) if tape.node(ref.spec.id).requires_grad]

    @statement
    def value(self, entry: int) -> None:
        """Read a value back, which a change of a parameter that it borrows from forbids."""
        ref = self.refs[entry].fast
        if self.model.unreadable(entry):
            self.refused(lambda: self.twin.fast.value(ref), Stale)
            return
        found = self.twin.fast.value(ref)
        check_bits(f"value of entry {entry}", found, self.model.tape.entries[entry].bits)
        found.fill_(SCRIBBLE)

    @statement
    def nat(self, held: int | list[int]) -> None:
        """Record a natural, or a vector of them."""
        fast, spec = self.twin.fast, self.twin.spec
        if isinstance(held, int):
            self.naturals.append((fast.nat(held), spec.nat(held)))
        else:
            given = torch.tensor(held, dtype=torch.int64)
            self.naturals.append((fast.nat_vec(given), spec.nat_vec(held)))
            given.fill_(0)
        self.model.tape.naturals.append(held)
        self._check_naturals()

    @statement
    def set_nat(self, natural: int, held: int | list[int]) -> None:
        """Overwrite a natural: what has read it stays as it was."""
        fast, spec = self.naturals[natural]
        if isinstance(held, int):
            self.twin.fast.set_nat(fast, held)
            self.twin.spec.set_nat(spec, held)
        else:
            given = torch.tensor(held, dtype=torch.int64)
            self.twin.fast.set_nat_vec(fast, given)
            self.twin.spec.set_nat_vec(spec, held)
            given.fill_(0)
        self.model.tape.naturals[natural] = held
        self._check_naturals()

    def _check_naturals(self) -> None:
        for k, due in enumerate(self.model.tape.naturals):
            fast, spec = self.naturals[k]
            if isinstance(due, int):
                found: Any = (self.twin.fast.get_nat(fast), self.twin.spec.get_nat(spec))
            else:
                count = len(due)
                found = (
                    self.twin.fast.get_nat_vec(fast),
                    self.twin.spec.get_nat_vec(spec, count),
                )
            check_equal(f"natural {k}", found, (due, due))

    @statement
    def reset_tape(self) -> None:
        """Forget the tape: its refs are dead, its memory is free, all else stays."""
        dead, naturals = self.refs[-1:], self.naturals[-1:]
        self.twin.reset_tape()
        self.refs, self.naturals, self.model.tape = [], [], ModelTape()
        fast, spec = self.twin.fast, self.twin.spec
        for ref in dead:
            for use in (fast.value, fast.relu, fast.shape_of):
                self.refused(partial(use, ref.fast), SessionError)
            self.refused(partial(spec.value, ref.spec), Rejected)
        for natural, _ in naturals:
            self.refused(partial(fast.indices, natural), SessionError)

    @statement
    def collect(self) -> None:
        """Give memory back that nothing needs."""
        self.twin.fast.collect()
        self.model.pool.clear()

    def _enter(self, ref: TwinRef, entry: Entry) -> None:
        check_equal("id of the entry", ref.fast.id, len(self.refs))
        self.refs.append(ref)
        self.model.tape.entries.append(entry)


class Writes(Leaves):
    """What is written to parameters and read from them."""

    @statement
    def set(self, param: int, seed: int, form: str = "torch") -> None:
        """Overwrite a parameter on the host."""
        owner = self.model.params[param]
        value = self.draw_master(seed, owner.shape)
        owner.written(value.clone(), "host")
        given = value.tolist() if form == "list" else value.numpy() if form == "numpy" else value
        self.twin.params[param].fast.set(given)
        self._tell(param)
        value.fill_(SCRIBBLE)

    @statement
    def set_device(self, param: int, seed: int, form: str = "torch") -> None:
        """Overwrite a parameter on the device."""
        owner = self.model.params[param]
        value = self.draw_master(seed, owner.shape)
        owner.written(value.clone(), "device")
        self.twin.params[param].fast.set_device(
            self._on_device(value) if form == "buffer" else value
        )
        self._tell(param)
        value.fill_(SCRIBBLE)

    def _on_device(self, value: Tensor) -> Any:
        from fast.buffer import Buffer

        return Buffer(value.clone())

    def _tell(self, param: int) -> None:
        """Let the reference have the parameter's value."""
        self.twin.params[param].spec.set(self.twin.lift(self.model.params[param].value))

    @statement
    def read(self, param: int) -> None:
        """Read a parameter back, which synchronizes it."""
        owner = self.model.params[param]
        found = self.twin.params[param].fast.value()
        owner.synchronized()
        check_bits(f"parameter {param}", found, owner.value)
        found.fill_(SCRIBBLE)

    @statement
    def sync(self, param: int) -> None:
        """Bring a parameter's host copy up to date."""
        self.twin.params[param].fast.sync()
        self.model.params[param].synchronized()

    @statement
    def mirror(self, param: int) -> None:
        """Look at a parameter's mirror, which brings it up to date."""
        owner = self.model.params[param]
        owner.uploaded()
        buffer = self.twin.params[param].fast.mirror()
        check_bits(f"mirror of parameter {param}", buffer.tensor, owner.value)

    @statement
    def freeze(self, param: int, trainable: bool = False) -> None:
        """Freeze a parameter, or let it be trained again."""
        self.twin.params[param].fast.requires_grad = trainable
        self.twin.params[param].spec.requires_grad = trainable
        self.model.params[param].trainable = trainable
