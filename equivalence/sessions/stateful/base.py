"""What every statement of a run has in common: it is noted, and everything is checked after it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from equivalence.budgets.ledger import Ledger
from equivalence.budgets.violation import Violation, check_bits, check_equal
from equivalence.sessions.numbers import normal, quarters, whole_numbers
from equivalence.sessions.pair import RefPair
from equivalence.sessions.stateful.model import Dense, Model, Shape
from equivalence.sessions.stateful.stepwise import StepwisePair
from fast.device.counters import counters
from spec.op import AnyTensor
from spec.tensor import tensor

Seed = int | float
"""By what numbers are drawn; a float stands for that very number, everywhere."""

Method = TypeVar("Method", bound=Callable[..., object])

DRAWS: Mapping[str, Callable[[int, Shape, torch.dtype], Tensor]] = {
    "quarters": lambda seed, shape, dtype: quarters(seed, shape, dtype),
    "normal": lambda seed, shape, dtype: normal(seed, *shape).to(dtype),
}
"""How a run draws its numbers: so that products are exact, or so that everything is rounded."""

SCRIBBLE = 7.0
"""What is written over memory that is the caller's again."""


def statement(method: Method) -> Method:
    """Make a method a statement of the program: noted as text, and checked when it is done."""

    @wraps(method)
    def run(self: Base, *args: Any, **kwargs: Any) -> object:
        given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        self.program.append(f"run.{method.__name__}({', '.join(given)})")
        try:
            made = method(self, *args, **kwargs)
            self.check()
            return made
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

    def __init__(self, provider: str, precision: str, draws: str = "quarters") -> None:
        """Start a run; what the counters showed before is not its own."""
        self.provider, self.precision, self.draws = provider, precision, draws
        given = (provider, precision) if draws == "quarters" else (provider, precision, draws)
        self.program = [f"run = Run{given!r}"]
        self.broken, self.ledger = False, Ledger()
        self.born()
        self.first = self.baseline

    def born(self) -> None:
        """Start both sessions anew."""
        gc.collect()
        before = counters.snapshot()
        self.baseline = before.live_bytes, before.live_buffers
        self.pair = StepwisePair(self.provider, self.precision)
        self.pair.ledger = self.ledger
        options = self.pair.fast.options
        self.model = Model(options.compute, options.master)
        self.refs: list[RefPair] = []
        self.naturals: list[tuple[Any, int]] = []
        self.grads: dict[int, Any] = {}
        self.held: list[AnyTensor] = []
        self.made = 0

    def draw(self, seed: Seed, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """Draw numbers, of the dtype in which the session computes unless another is asked for."""
        dtype = dtype or self.model.compute
        if isinstance(seed, float):
            return torch.full(shape, seed, dtype=dtype)
        return DRAWS[self.draws](seed, shape, dtype)

    def draw_master(self, seed: Seed, shape: Shape) -> Tensor:
        """Draw the value of a parameter; what 16 bits see of it is rounded."""
        value = self.draw(seed, shape, self.model.master)
        if self.model.shadow is not None:
            low = self.draw(seed + 1, shape, torch.float32)
            value += low * (torch.finfo(self.model.compute).eps / 4)
        return value

    def given(self, value: Tensor, form: str) -> Any:
        """Put data into one of the forms in which a caller may hand it in."""
        if form == "list" and value.numel():
            return value.tolist()
        if form == "numpy":
            return value.float().numpy()
        if form == "strided":
            return value.mT.contiguous().mT
        return self.pair.fast.upload(value) if form == "buffer" else value

    def _operand(self, given: Any, side: int) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            ref = self.refs[given]
            return ref.spec if side else ref.fast
        if isinstance(given, str) and given[0] == "b":
            return (self.pair.spec if side else self.pair.fast).buffers[int(given[1:])]
        if isinstance(given, str):
            natural = int(given[1:])
            return tensor(self.model.tape.naturals[natural]) if side else self.naturals[natural][0]
        return tensor(given) if side else whole_numbers(given)

    def _seed(self, entry: int, seed: Seed | None, form: str) -> tuple[Any, Tensor | None]:
        if seed is None:
            return None, None
        bits = self.model.tape.entries[entry].bits
        value = self.draw(seed, tuple(bits.shape), bits.dtype)
        return self.given(value, form), value.clone()

    def _give_back(self, given: Any, due: Tensor | None) -> None:
        """Check that a seed is still its caller's, and write over it.

        A buffer has the session's dtype, also where the entry was cast; quarters fit any.
        """
        held = getattr(given, "tensor", given)
        if isinstance(held, Tensor) and due is not None:
            check_bits("seed", held, due.to(held.dtype))
            held.fill_(SCRIBBLE)
        if isinstance(held, Tensor) and held is not given:
            given.release()

    def _tell(self, param: int) -> None:
        """Let the reference have the parameter's value."""
        self.pair.params[param].spec.set(self.pair.lift(self.model.params[param].value))

    def _have_buffer(self, value: Tensor) -> int:
        """Make a named buffer on both sides, and return its number."""
        k = len(self.model.buffers)
        self.pair.fast.buffer(value, f"b{k}")
        self.pair.spec.buffer(self.pair.lift(value))
        self.model.buffers.append(value)
        self.held.append(self.pair.lift(value))
        self._hold(k, value)
        return k

    def _hold(self, k: int, bits: Tensor) -> None:
        """Note what a buffer holds, and let the reference have it."""
        self.model.buffers[k] = bits.clone()
        self.held[k] = self.pair.lift(bits)
        self.pair.spec.buffers[k].set(self.held[k])

    def check(self) -> None:
        """Check everything that can be looked at without disturbing it."""
        self._check_params()
        self._check_states()
        self._check_tape()
        self._check_buffers()
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
        for slot, (param, due) in enumerate(zip(self.pair.params, self.model.params, strict=True)):
            found = param.fast
            label = f"parameter {slot}"
            check_equal(f"{label}: current", found.current, due.current)
            check_equal(f"{label}: version", found.version, due.version)
            check_equal(f"{label}: requires_grad", found.requires_grad, due.trainable)
            if due.current != "device":
                check_bits(f"{label}: host copy", found._host, due.value)
            if due.current != "host":
                check_bits(f"{label}: mirror", self.pair.fast.store.masters.views[slot], due.value)

    def _check_states(self) -> None:
        for slot, param in enumerate(self.model.params):
            for optimizer, state in param.states.items():
                label = f"{optimizer} state of parameter {slot}"
                found = self.pair.moments(optimizer, slot)
                if state.moments is None:
                    nothing = found is None or not any(bool(m.any()) for m in found.values())
                    check_equal(f"{label}: is fresh", nothing, True)
                    continue
                if found is None:
                    raise Violation(f"{label}: is gone")
                for name, due in state.moments.items():
                    check_bits(f"{label}: {name}", found[name], due)
                check_equal(f"{label}: step", self.pair.steps(optimizer, slot), state.step)

    def _check_tape(self) -> None:
        tape, entries = self.pair.fast._tape, self.model.tape.entries
        check_equal("length of the tape", len(tape.values), len(entries))
        for here, entry in self.model.intact():
            check_bits(f"entry {here}", tape.values[here], entry.bits)
        for here in range(len(entries)):
            check_equal(f"entry {here}: stale", self.pair.stale(here), self.model.stale(here))
        check_equal("trainable leaves", list(tape.leaves), list(self.model.tape.leaves))
        check_equal("naturals", len(tape.naturals), len(self.model.tape.naturals))
        counters = self.pair.fast.random_counter, self.pair.spec.random_counter
        check_equal("random counters", counters, (self.model.calls,) * 2)

    def _check_buffers(self) -> None:
        fast, spec = self.pair.fast.buffers, self.pair.spec.buffers
        check_equal("number of buffers", (len(fast), len(spec)), (len(self.model.buffers),) * 2)
        for k, (ours, theirs, due) in enumerate(zip(fast, spec, self.model.buffers, strict=True)):
            self.model.sees(ours.contents)
            check_bits(f"buffer {k}", ours.contents, due)
            check_equal(f"buffer {k} of the reference", theirs.value is self.held[k], True)

    def _check_grads(self) -> None:
        for serial, model in self.model.grads.items():
            found = self.grads[serial]
            check_equal(f"gradients {serial}: released", found.released, False)
            if isinstance(model, Dense):
                for entry, due in model.bits.items():
                    label = f"gradients {serial} of entry {entry}"
                    check_bits(label, found._buffers[entry].tensor, due)
                continue
            for param, due in model.slots.items():
                label = f"gradients {serial} of parameter {param}"
                check_bits(label, found.arena.views[param], due)
            for leaf, due in model.loose.items():
                check_bits(f"gradients {serial} of leaf {leaf}", found._loose[leaf].tensor, due)

    def _check_memory(self) -> None:
        found = counters.snapshot()
        live = found.live_bytes - self.baseline[0], found.live_buffers - self.baseline[1]
        check_equal("live bytes and buffers", live, self.model.weight())
