"""Parameters, leaves, naturals, ops and their values, as statements of a run."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equivalence.budgets.violation import check_bits, check_equal
from equivalence.cases.call import dtype_of_value
from equivalence.sessions.pair import RefPair
from equivalence.sessions.stateful.base import SCRIBBLE, Base, Seed, statement
from equivalence.sessions.stateful.model import Entry, Leaf, Shape
from equivalence.sessions.stateful.model import Param as ModelParam
from equivalence.sessions.stateful.model import Tape as ModelTape
from fast.device.buffer import Buffer
from fast.errors import SessionError, Stale
from fast.ops import OPS as FAST
from spec.op import Rejected
from spec.ops import OPS


class Leaves(Base):
    """Parameters and other leaves, naturals, ops and their values."""

    @statement
    def param(self, shape: Shape, seed: Seed, trainable: bool = True) -> int:
        """Make a parameter, and return its number."""
        value = self.draw_master(seed, shape)
        name = f"p{len(self.model.params)}"
        self.pair.param(value, name, trainable)
        self.model.params.append(ModelParam(shape, trainable, value.clone()))
        self.model.fit(self.model.masters)
        value.fill_(SCRIBBLE)
        return len(self.model.params) - 1

    @statement
    def use(self, param: int) -> int:
        """Put a parameter on the tape, and return the number of its entry."""
        self.model.use(param)
        owner = self.model.params[param]
        ref = self.pair.use(self.pair.params[param])
        due = owner.value.to(self.model.compute)
        check_bits(f"use of parameter {param}", self.pair.peek(ref), due)
        bits = self.pair.adopt(ref, due)
        return self._enter(ref, Entry(bits, param=param, version=owner.version))

    @statement
    def input(self, shape: Shape, seed: Seed, trainable: bool = False, form: str = "torch") -> int:
        """Put data on the tape: a torch tensor, a list, a numpy array or a device buffer."""
        value = self.draw(seed, shape)
        due = value.clone()
        given = self.given(value, form)
        fast = self.pair.fast.input(given, requires_grad=trainable)
        spec = self.pair.spec.input(self.pair.lift(value), requires_grad=trainable)
        if form == "buffer":
            given.tensor.fill_(SCRIBBLE)
            given.release()
        value.fill_(SCRIBBLE)
        if trainable:
            self.model.tape.leaves[len(self.refs)] = Leaf(shape)
        ref = RefPair(fast, spec)
        check_bits("input", self.pair.peek(ref), due)
        return self._enter(ref, Entry(due, due.nbytes, 1))

    @statement
    def op(self, name: str, inputs: tuple[Any, ...], **attributes: Any) -> int:
        """Run an op on entries; indices are a list or the name of a natural."""
        fast = [self._operand(x, 0) for x in inputs]
        spec = [self._operand(x, 1) for x in inputs]
        ref = RefPair(
            getattr(self.pair.fast, name)(*fast, **attributes),
            getattr(self.pair.spec, name)(*spec, **attributes),
        )
        return self._computed(ref, name, inputs, attributes)

    @statement
    def operator(self, name: str, one: int, other: int) -> int:
        """Run an op of two entries of one shape by Python's operator of that name."""
        call, x, y = getattr(operator, name), self.refs[one], self.refs[other]
        ref = RefPair(call(x.fast, y.fast), call(x.spec, y.spec))
        return self._computed(ref, name, (one, other), {})

    def _computed(
        self, ref: RefPair, name: str, inputs: tuple[Any, ...], attributes: Mapping[str, Any]
    ) -> int:
        """Judge the result of an op, and enter it."""
        self.pair.judge_value(ref, name, attributes)
        value = self.pair.peek(ref)
        due = dtype_of_value(name, attributes, self.precision)
        check_equal(f"{name}: dtype", value.dtype, due)
        wanted = self.pair.spec.tape.node(ref.spec.id).requires_grad
        if value.is_floating_point():
            check_equal(f"{name}: requires_grad", ref.fast.requires_grad, wanted)
        else:
            check_equal(f"{name}: is on the path of a gradient", wanted, False)
        given = [self._bits(x) for x in inputs]
        nbytes, buffers = kept(name, self.provider, given, attributes) if wanted else (0, 0)
        self.model.calls += OPS[name].random
        self._moved(name, inputs)
        bits = self.pair.adopt(ref, value)
        return self._enter(ref, Entry(bits, bits.nbytes + nbytes, 1 + buffers))

    def _moved(self, name: str, inputs: tuple[Any, ...]) -> None:
        """Judge what an op has made of buffers, in the format of parameters, and adopt it."""
        for k in (int(inputs[at][1:]) for at in OPS[name].buffers):
            got, exact = self.pair.fast.buffers[k].contents, self.pair.spec.buffers[k].value
            due = exact.map(lambda x: x.under(self.pair.held))
            self.pair.ledger.judge(f"{name}: buffer {k}", got, due, self.pair.held, got.dtype)
            self._hold(k, got)

    @statement
    def buffer(self, shape: Shape, seed: Seed) -> int:
        """Make a named buffer of numbers above 0, and return its number."""
        value = self.draw_master(seed, shape).abs() + 1
        k = self._have_buffer(value)
        value.fill_(SCRIBBLE)
        return k

    @statement
    def set_buffer(self, k: int, seed: Seed) -> None:
        """Overwrite a named buffer; what an op has read of it stays."""
        value = self.draw_master(seed, tuple(self.model.buffers[k].shape)).abs() + 1
        self.pair.fast.buffers[k].set(value)
        self._hold(k, value)
        value.fill_(SCRIBBLE)

    @statement
    def read_buffer(self, k: int) -> None:
        """Read a named buffer back: the copy is the reader's."""
        found = self.pair.fast.buffers[k].value()
        check_bits(f"buffer {k}", found, self.model.buffers[k])
        found.fill_(SCRIBBLE)

    def _bits(self, given: Any) -> Tensor:
        """Return an operand as the tensor that a page is handed."""
        if isinstance(given, int) and not isinstance(given, bool):
            return self.model.tape.entries[given].bits
        if isinstance(given, str) and given[0] == "b":
            return self.model.buffers[int(given[1:])]
        if isinstance(given, str):
            return torch.tensor(self.model.tape.naturals[int(given[1:])], dtype=torch.int64)
        data: Tensor = self._operand(given, 0)
        return data

    def fed(self) -> list[int]:
        """List the entries that a trainable leaf feeds."""
        tape = self.pair.spec.tape
        return [k for k, ref in enumerate(self.refs) if tape.node(ref.spec.id).requires_grad]

    @statement
    def value(self, entry: int) -> None:
        """Read a value back, which a change of a parameter that it borrows from forbids."""
        ref = self.refs[entry].fast
        if self.model.unreadable(entry):
            self.refused(lambda: self.pair.fast.value(ref), Stale)
            return
        found = self.pair.fast.value(ref)
        check_bits(f"value of entry {entry}", found, self.model.tape.entries[entry].bits)
        found.fill_(SCRIBBLE)

    @statement
    def nat(self, held: int | list[int]) -> None:
        """Record a natural, or a vector of them."""
        fast, spec = self.pair.fast, self.pair.spec
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
            self.pair.fast.set_nat(fast, held)
            self.pair.spec.set_nat(spec, held)
        else:
            given = torch.tensor(held, dtype=torch.int64)
            self.pair.fast.set_nat_vec(fast, given)
            self.pair.spec.set_nat_vec(spec, held)
            given.fill_(0)
        self.model.tape.naturals[natural] = held
        self._check_naturals()

    def _check_naturals(self) -> None:
        for k, due in enumerate(self.model.tape.naturals):
            fast, spec = self.naturals[k]
            if isinstance(due, int):
                found: Any = (self.pair.fast.get_nat(fast), self.pair.spec.get_nat(spec))
            else:
                count = len(due)
                found = (
                    self.pair.fast.get_nat_vec(fast),
                    self.pair.spec.get_nat_vec(spec, count),
                )
            check_equal(f"natural {k}", found, (due, due))

    @statement
    def reset_tape(self) -> None:
        """Forget the tape: its refs are dead, its memory is free, all else stays."""
        dead, naturals = self.refs[-1:], self.naturals[-1:]
        self.pair.reset_tape()
        self.refs, self.naturals, self.model.tape = [], [], ModelTape()
        fast, spec = self.pair.fast, self.pair.spec
        for ref in dead:
            for use in (fast.value, fast.relu, fast.shape_of):
                self.refused(partial(use, ref.fast), SessionError)
            self.refused(partial(spec.value, ref.spec), Rejected)
        for ours, theirs in naturals:
            self.refused(partial(fast.indices, ours), SessionError)
            self.refused(partial(spec.get_nat, theirs), Rejected)

    @statement
    def collect(self) -> None:
        """Give memory back that nothing needs."""
        self.pair.fast.collect()
        self.model.pool.clear()

    def _enter(self, ref: RefPair, entry: Entry) -> int:
        check_equal("id of the entry", ref.fast.id, len(self.refs))
        self.refs.append(ref)
        self.model.tape.entries.append(entry)
        return len(self.refs) - 1


class Writes(Base):
    """What is written to parameters and read from them."""

    @statement
    def set(self, param: int, seed: Seed, form: str = "torch") -> None:
        """Overwrite a parameter on the host."""
        owner = self.model.params[param]
        value = self.draw_master(seed, owner.shape)
        owner.written(value.clone(), "host")
        given = value.tolist() if form == "list" else value.numpy() if form == "numpy" else value
        self.pair.params[param].fast.set(given)
        self._tell(param)
        value.fill_(SCRIBBLE)

    @statement
    def set_device(self, param: int, seed: Seed, form: str = "torch") -> None:
        """Overwrite a parameter on the device."""
        owner = self.model.params[param]
        value = self.draw_master(seed, owner.shape)
        owner.written(value.clone(), "device")
        self.pair.params[param].fast.set_device(
            Buffer(value.clone()) if form == "buffer" else value
        )
        self._tell(param)
        value.fill_(SCRIBBLE)

    @statement
    def read(self, param: int) -> None:
        """Read a parameter back, which synchronizes it."""
        owner = self.model.params[param]
        found = self.pair.params[param].fast.value()
        owner.synchronized()
        check_bits(f"parameter {param}", found, owner.value)
        found.fill_(SCRIBBLE)

    @statement
    def sync(self, param: int) -> None:
        """Bring a parameter's host copy up to date."""
        self.pair.params[param].fast.sync()
        self.model.params[param].synchronized()

    @statement
    def mirror(self, param: int) -> None:
        """Look at a parameter's mirror, which brings it up to date."""
        owner = self.model.params[param]
        owner.uploaded()
        buffer = self.pair.params[param].fast.mirror()
        check_bits(f"mirror of parameter {param}", buffer.tensor, owner.value)

    @statement
    def freeze(self, param: int, trainable: bool = False) -> None:
        """Freeze a parameter, or let it be trained again."""
        self.pair.params[param].fast.requires_grad = trainable
        self.pair.params[param].spec.requires_grad = trainable
        self.model.params[param].trainable = trainable


def kept(
    name: str, provider: str, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[int, int]:
    """Return the bytes and buffers that a rule keeps beside its inputs and its result.

    A page's hosts say what they save; they are asked here by themselves, without a session.
    """
    page = FAST[name]
    counter = {"counter": 0} if page.random else {}
    _, given = page.bind(inputs, {**attributes, **counter})
    result, saved = page.hosts(provider)[0](*inputs, **given)
    made = result if isinstance(result, tuple) else (result,)
    known = {_storage(x) for x in (*made[: page.results], *inputs) if isinstance(x, Tensor)}
    own = {_storage(x): x.untyped_storage().nbytes() for x in saved if isinstance(x, Tensor)}
    extra = [nbytes for at, nbytes in own.items() if at not in known]
    return sum(extra), len(extra)


def _storage(x: Tensor) -> int:
    """Return what two tensors share that are one piece of memory."""
    return int(x.untyped_storage()._cdata)
