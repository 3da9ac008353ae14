"""The lifecycle machine's two sessions, and what stands between them: judging without disturbing.

Every new value is judged, and then taken over by the reference, exactly; so each op, each backward
pass and each update is judged by itself, however long a life has been.
What is looked at is peeked at. A readback would synchronize, count and allocate, and so hide what
it is meant to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor

import fast
from equivalence.budgets.judge import fraction_of
from equivalence.budgets.oracle import lift_one, store
from equivalence.dtypes import master_of
from equivalence.lives.model import same_bits
from equivalence.measure.update import MOMENTS
from equivalence.twins.session import TwinRef, TwinSession
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import constant
from equivalence.worlds.contract import Contract
from fast.errors import Stale
from spec.op import AnyTensor, plus
from spec.tape import Accumulate, Event, Seed


class Violation(AssertionError):
    """A promise was broken; `program` is the text that leads there."""

    def __init__(self, says: str, program: Sequence[str] = ()) -> None:
        """Say which, and remember the program."""
        super().__init__(says)
        self.says = says
        self.program = tuple(program)


class Injected(RuntimeError):
    """The error that a fault plants; nobody else raises it."""


class Resynced(TwinSession):
    """A session of `fast` beside a reference that takes over every value once it was judged."""

    def __init__(self, provider: str, precision: str) -> None:
        """Start both; of all ops, cross_entropy promises the least, so its contract holds for each.

        What passes from op to op is stored, so any step may pass through the storage format.
        """
        super().__init__(
            fast.Session(provider=provider, precision=precision, device="cpu"), self._watch
        )
        contract = self._contracts("cross_entropy", precision)
        self._arithmetic = Arithmetic(replace(contract, steps="storage"))
        self.spec.like = constant(self._arithmetic, 0)
        self.judged = 0
        self.breaks_at: int | None = None
        self._contributions: dict[int, list[AnyTensor]] = {}

    def _watch(self, event: Event) -> None:
        if isinstance(event, Seed):
            self._contributions = {event.node: [event.cotangent]}
        elif isinstance(event, Accumulate):
            self._contributions.setdefault(event.parent, []).append(event.contribution)
        elif event.node == self.breaks_at:
            raise Injected

    def update_contract(self, optimizer: str) -> Contract:
        """Return the contract of an update, which works on the masters."""
        return self._contracts(optimizer, master_of(self.fast.options.precision))

    def lift(self, value: Tensor) -> AnyTensor:
        """Take a tensor as the exact numbers that it holds."""
        return self._lift(value)

    def peek(self, ref: TwinRef) -> Tensor:
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

    def adopt(self, ref: TwinRef, bits: Tensor) -> Tensor:
        """Let the reference take over a value, and return a copy of it."""
        nodes = self.spec.tape._nodes
        nodes[ref.spec.id] = replace(nodes[ref.spec.id], value=self.lift(bits))
        return bits.clone()

    def judge_value(self, ref: TwinRef) -> None:
        """Judge what an op returned."""
        got = self.peek(ref)
        self.judge(f"value of entry {ref.fast.id}", got, self.spec.value(ref.spec))

    def judge(self, label: str, got: Tensor, exact: AnyTensor) -> None:
        """Raise unless every element of a result is within its budget."""
        if tuple(got.shape) != tuple(exact.shape):
            raise Violation(f"{label}: of shape {tuple(got.shape)}, due is {tuple(exact.shape)}")
        values = got.detach().double().reshape(-1).tolist()
        for k, (z, x) in enumerate(zip(values, store(exact, self._arithmetic).data, strict=True)):
            fraction = fraction_of(z, x)
            self.judged += fraction is not None
            if fraction is not None and not fraction <= 1.0:
                due = x.v.mid().str(9, radius=False)
                raise Violation(f"{label}: element {k} is {z:.9g}, due is {due}: {fraction:.3g} "
                                "of its budget")  # fmt: skip

    def total(self, leaf: TwinRef, before: AnyTensor | None) -> AnyTensor:
        """Add up what the last backward pass sent to a leaf, in order, to what was there."""
        found = before
        for contribution in self._contributions[leaf.spec.id]:
            found = plus(found, contribution)
        assert found is not None
        return found

    @contextmanager
    def updating(self, optimizer: str) -> Iterator[Arithmetic]:
        """Judge, for a while, by the contract of an update."""
        before = self._arithmetic
        self._arithmetic = Arithmetic(self.update_contract(optimizer))
        try:
            yield self._arithmetic
        finally:
            self._arithmetic = before

    def moments(self, optimizer: str, slot: int) -> dict[str, Tensor] | None:
        """Look at the moments of a parameter; None where there is no memory for them yet."""
        known = self.fast.optimizers.get(optimizer)
        arenas = None if known is None else known._states
        if arenas is None or slot >= len(arenas[0].views):
            return None
        fields = MOMENTS[optimizer]
        return {field: arena.views[slot] for field, arena in zip(fields, arenas, strict=True)}

    def steps(self, optimizer: str, slot: int) -> int:
        """Look at the step count of a parameter, where the kernels read it."""
        known = self.fast.optimizers.get(optimizer)
        counts = None if known is None else known._steps
        return 0 if counts is None or slot >= counts.numel() else int(counts[slot])


def check_bits(label: str, got: Tensor, due: Tensor) -> None:
    """Raise unless two tensors are equal bit for bit."""
    if not same_bits(got.contiguous(), due.contiguous()):
        raise Violation(f"{label}: {show(got)}, due is {show(due)}")


def check_equal(label: str, got: object, due: object) -> None:
    """Raise unless two things are equal."""
    if got != due:
        raise Violation(f"{label}: {got}, due is {due}")


def show(value: Tensor) -> str:
    """Write a tensor in a message."""
    return f"{str(value.dtype).removeprefix('torch.')} {value.tolist()}"


def lifted_moments(
    moments: Mapping[str, Tensor] | None, optimizer: str, arithmetic: Arithmetic
) -> dict[str, AnyTensor | None]:
    """Take an optimizer's moments as exact numbers; None for those that are not there yet."""
    return {
        field: None if moments is None else lift_one(moments[field], arithmetic)
        for field in MOMENTS[optimizer]
    }
