"""A session that may have put a run off: what it is asked for first decides what is computed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor

from fast.compiled.background.compiler import Compiler
from fast.compiled.background.patient import NotReady, Waiting
from fast.compiled.late import LateTape
from fast.compiled.lowered import Lowered, beyond
from fast.compiled.pending import Awaited, Pending
from fast.optim._stated import StatedOptimizer
from fast.ref import Entry, Ref
from fast.runtime.gradmap import DenseGrads, GradMap
from fast.runtime.param import Param
from fast.runtime.seed import start_at
from fast.runtime.updates import Wanted
from fast.session import Session
from fast.tape import Tape

DENSE = torch.contiguous_format


class Deferring(Session):
    """An eager session with at most one call of a lowered program that waits to be computed."""

    engine: str
    _flat = StatedOptimizer

    def __init__(
        self, provider: str | None, precision: str, device: torch.device | str | None,
        deterministic: bool,
    ) -> None:  # fmt: skip
        """Start with nothing put off."""
        super().__init__(provider, precision, device, deterministic)
        self._pending: Pending | None = None
        self._waits: type[Pending] = Pending
        self._settling = WeakMethod(self.settle)
        self._compiler: Compiler | None = None

    def use(self, parameter: Param) -> Ref:
        """Record a parameter's value as a leaf as a `Session` does."""
        self._write_down()
        return super().use(parameter)

    def _on(self, tape: Tape) -> AbstractContextManager[None]:
        self._write_down()
        return super()._on(tape)

    def _write_down(self) -> None:
        """Let parameters know that they were used on the tape, which it says when it is written."""
        len(self._tape)

    def value(self, ref: Entry) -> Tensor:
        """Download the value of a ref as a `Session` does; what was put off is computed first."""
        if self._pending is not None:
            self._own(ref, "value", Entry)
            self.settle()
        return super().value(ref)

    def backward(self, loss: Ref, seed: Any = None, into: GradMap | None = None) -> GradMap:
        """Return the gradients of the trainable leaves as a `Session` does.

        An engine that compiles or captures puts the pass off until somebody looks at the gradients;
        an update that is the first to do so is one with the pass, also one that adds to earlier
        ones.
        """
        pending = self._pending
        if pending is not None:
            known = type(loss) is Ref and loss.tape is self._tape
            identity = loss.id if known else self._own(loss, "backward")
            if pending.may_wait(identity, into):
                start = pending.lowered.ones.get(identity) if seed is None else None
                if start is None:
                    start = self._start_of(pending.lowered, identity, seed)
                return pending.backward(identity, self.store, start, into)
            if isinstance(pending, Waiting):
                pending.before_backward(identity, seed, self._one)
        return super().backward(loss, seed, into)

    def _start_of(self, lowered: Lowered, identity: int, seed: Any) -> Tensor:
        """Return a cotangent that stays what it is until a pass is run; ones are kept."""
        start = start_at(identity, lowered.starts[identity], seed, self._one)
        if seed is not None:
            # It stays the caller's, who may write to it.
            return start.clone(memory_format=DENSE)
        lowered.ones[identity] = start = start.contiguous()
        return start

    def backward_dense(self, ref: Ref, seed: Any = None) -> DenseGrads:
        """Return the gradients of all tape entries as a `Session` does.

        An engine that compiles or captures has none of those inside a program, and raises
        Unavailable.
        """
        if isinstance(self._pending, Waiting):
            self._pending.open()
        elif self._pending is not None:
            raise beyond(
                self.engine,
                "backward_dense() is asked for cotangents inside it, and backward() has those of "
                "the leaves",
            )
        return super().backward_dense(ref, seed)

    @property
    def puts_off(self) -> bool:
        """Whether a run waits to be computed by whoever asks for it."""
        return self._pending is not None and not self._pending.filled

    def settle(self) -> None:
        """Compute what a run has put off, before it is read or parameters change."""
        if self._pending is not None:
            self._pending.fill()

    def reset_tape(self) -> None:
        """Forget every value, ref and natural as a `Session` does.

        Gradients that were put off, and that somebody holds, are computed first, as is what named
        buffers will hold.
        """
        self._forget()

    def _forget(self) -> None:
        self._leave()
        tape = self._tape
        # To look whether a late tape is empty would write it down.
        if type(tape) is LateTape or tape.values or tape.naturals:
            tape.clear()
            self._start()
        else:
            self.store.overwritten = False

    def _leave(self) -> None:
        """Compute what has to be before the tape is left."""
        pending = self._pending
        if pending is not None:
            if not pending.filled and (pending.awaited is not None or pending.moves):
                pending.fill()
            self._pending = None

    def _put_off(
        self, lowered: Lowered, params: Sequence[Param], leaves: list[Tensor],
        integers: list[Tensor],
    ) -> Tape:  # fmt: skip
        """Start a tape, and enter a call of a lowered program on it, to be computed later.

        The leaves are those of the parameters, and then of the data.
        """
        # This runs in every step that is compiled whole, where Python is the longest part.
        self._leave()
        self._tape.clear()
        self._tape = tape = LateTape(self)
        store = self.store
        store.overwritten = False
        self._pending = self._waits(lowered, tape, params, leaves, integers)
        store.reader = self._settling
        return tape

    def _apply(self, wanted: Wanted, grads: Any) -> None:
        pending, clipped = self._pending, wanted[-1] is not None
        if (
            clipped
            or pending is None
            or type(grads) is not Awaited
            or grads.pending is not pending
            or not pending.lowered.whole
        ):
            # A copy of the gradients is clipped, and a whole step has none.
            self.settle()
            super()._apply(wanted, grads)
            return
        sums = grads.memory()
        try:
            step = partial(pending.step, grads, sums, wanted)
            self._write(wanted, sums.arena, pending.touched(sums), step)
            return
        except NotReady:
            pass
        finally:
            grads.unused(sums)
        pending.replay()
        super()._apply(wanted, grads)
