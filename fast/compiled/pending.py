"""What a run has put off: it is computed by whoever asks first, and the fewer ask, the less is run.

A step that asks for nothing between `run` and the update is one artifact, of both passes and the
update. Gradients that somebody asks for, or a pass that adds to others, cost one of both passes;
a value that is asked for before the pass costs one of the forward pass. Whatever is computed stands
on the tape, or in the gradient map, as if it had been there from the start: before a parameter
changes by other means, what has yet to read it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import or_
from typing import Any
from weakref import ref as weak

from torch import Tensor

from fast.compiled.late import LateTape
from fast.compiled.lowered import Lowered, Sums, Update
from fast.device.arena import Arena
from fast.device.buffer import Buffer
from fast.device.named import counted
from fast.optim.clip import inverse_of
from fast.runtime.gradmap import GradMap
from fast.runtime.param import Param
from fast.runtime.store import Store
from fast.runtime.updates import Wanted
from fast.tape import Tape


class Pending:
    """One call of a lowered program, on the tape where its entries wait for their contents."""

    def __init__(
        self, lowered: Lowered, tape: LateTape, params: Sequence[Param], leaves: list[Tensor],
        integers: list[Tensor],
    ) -> None:  # fmt: skip
        """Enter the call on a tape; leaves are borrowed, as the tape borrows them."""
        # One of these is made in every training step.
        self.lowered = lowered
        self.filled = False
        self._tape = tape
        self._params = params
        self._leaves = leaves
        self._found: Sequence[Tensor] = ()
        self._seeded = -1
        self._awaited: weak[Awaited] | None = None
        self._given = lowered.enter(leaves, integers)
        for buffer in lowered.moved:
            buffer.wait_for(self)
        self._versions = [parameter.version for parameter in params]
        tape.leaves, tape.bytes = {**lowered.owners}, lowered.leaf_bytes
        tape.extra = len(leaves) - len(params)
        tape.write = self._write

    def fill(self) -> None:
        """Compute the contents, and the gradients if somebody holds them, unless it was done."""
        if self.filled:
            return
        awaited = self.awaited
        if awaited is None:
            self._put(self.lowered.run(None, self._without_seed())[0])
            return
        if not self.lowered.whole:
            found, reached = self.lowered.run(self._seeded, self._given)
            self._put(found[: self.lowered.count])
            awaited.receive(reached, found[self.lowered.count :])
            return
        sums = awaited.memory()
        try:
            self._done(awaited, sums, *self.lowered.step(self._seeded, self._given, sums, None))
        finally:
            awaited.unused(sums)

    @property
    def awaited(self) -> Awaited | None:
        """The gradients that were asked for and are not yet there, while somebody holds them."""
        awaited = None if self._awaited is None or self.filled else self._awaited()
        return None if awaited is None or awaited.released else awaited

    @property
    def moves(self) -> bool:
        """Whether named buffers wait for the call."""
        return not self.filled and any(buffer.awaits(self) for buffer in self.lowered.moved)

    def may_wait(self, identity: int, into: Any) -> bool:
        """Say whether a pass from an entry can be put off: nothing was computed, or put off yet.

        One that adds to the gradients of an earlier pass can, where these are no longer awaited.
        """
        return (
            not self.filled
            and self._awaited is None
            and identity in self.lowered.starts
            and (into is None or (self.lowered.whole and type(into) is Awaited and into.there))
        )

    def backward(self, identity: int, store: Store, start: Tensor, into: Awaited | None) -> Awaited:
        """Put off a pass from a cotangent, and return the gradients that wait for it."""
        if into is None:
            awaited = Awaited(store, self._tape, self)
        else:
            into.move_to(store, self._tape)
            into.wait_for(self)
            awaited = into
        self._given.append(start)
        self._seeded = identity
        self._awaited = weak(awaited)
        return awaited

    def touched(self, sums: Sums) -> bytes:
        """Say of each slot whether it has a sum, or the pass that was put off reaches it."""
        found = self.lowered.touched(self._seeded, self._given, len(sums.arena.views))[0]
        return bytes(map(or_, found, sums.kept)) if sums.kept else found

    def step(self, grads: Awaited, sums: Sums, wanted: Wanted, active: bytes) -> None:
        """Run both passes and the update of the active slots as one; the map gets the sums."""
        optimizer, hypers, group_of, max_norm, grad_scale, _ = wanted
        stated = optimizer.stated(active, hypers, group_of)
        if stated is None:
            self.fill()
            return
        store = grads.store
        factor = 1.0 if grad_scale == 1.0 else inverse_of(grad_scale, sums.arena.flat.dtype)
        update = Update(stated, max_norm, factor, store.masters, store.shadow is not None)
        found, further = self.lowered.step(self._seeded, self._given, sums, update)
        self._done(grads, sums, found, further)
        optimizer.written(hypers)

    def _done(
        self, grads: Awaited, sums: Sums, found: Sequence[Tensor], further: Mapping[int, Tensor]
    ) -> None:
        """Put results on the tape, and give the map the sums."""
        self._put(found)
        first = self.lowered.touched(self._seeded, self._given, len(sums.arena.views))[1]
        reached = bytearray(map(or_, first, sums.kept) if sums.kept else first)
        grads.own(sums.arena, reached, further)

    def _without_seed(self) -> list[Tensor]:
        """Return what the passes take, but for the seed of one that was put off."""
        return self._given if self._awaited is None else self._given[:-1]

    def _rule(self, identity: int) -> Any:
        """Return the rule that takes the cotangent of a result back to the trainable leaves."""

        def vjp(saved: object, cotangent: Tensor, needs: Sequence[bool]) -> tuple[Any, ...]:
            lowered = self.lowered
            if self.awaited is not None:
                # What this pass computes stands for the call's contents, not for those gradients.
                self.fill()
            given = [*self._without_seed(), cotangent.contiguous()]
            found, reached = lowered.run(identity, given)
            count = lowered.count
            self._put(found[:count])
            by_leaf = dict(zip(reached, found[count:], strict=True))
            return tuple(map(by_leaf.get, lowered.parents))

        return vjp

    def _put(self, found: Sequence[Tensor]) -> None:
        """Put contents on the tape, once: a second pass finds the same numbers."""
        if self.filled:
            return
        self.filled = True
        lowered, tape = self.lowered, self._tape
        if lowered.moved:
            moved = found[len(lowered.results) :]
            for buffer, contents in zip(lowered.moved, moved, strict=True):
                if buffer.awaits(self):
                    buffer.replace(counted(contents))
        if tape.session is None:
            return  # It was reset; only gradients or buffers were still waiting.
        self._found = found
        tape.bytes += lowered.result_bytes
        tape.extra += len(lowered.results)
        if tape.written:
            self._show(tape)

    def _write(self, tape: Tape) -> None:
        """Write the entries down on a tape that somebody looks at."""
        lowered, plan = self.lowered, self.lowered.plan
        tape.values = [*self._leaves, *plan.blanks]
        tape.names, tape.rules = lowered.names, lowered.rules
        for k in lowered.ruled:
            tape.rules[k] = (self._rule(k), (), lowered.parents, lowered.needs, None)
        tape.uses = dict(enumerate(zip(self._params, self._versions, strict=True)))
        for parameter in self._params:
            parameter.used_on = tape
        self._show(tape)
        # It borrows what parameters lend, and holds the data and what was found.
        held = len(self._leaves) - len(self._params) + len(lowered.results) * self.filled
        tape.extra = held - len(tape.values)

    def _show(self, tape: Tape) -> None:
        """Put contents in the place of their blanks, if they are there."""
        for k, value in zip(self.lowered.results, self._found, strict=False):
            tape.values[k] = value


class Awaited(GradMap):
    """A gradient map whose pass was put off: whoever looks inside has it run.

    It may hold sums of earlier passes, to which that one adds. `pending` is the call whose pass it
    waits for, None where that has run.
    """

    __slots__ = ("__weakref__", "_sums", "pending")

    def __init__(self, store: Store, tape: Tape, pending: Pending) -> None:
        # Of a map's own slots, those that the pass fills are left out until it has run.
        self.store = store
        self._tape = tape
        self._leaves = tape.leaves
        self._buffers = {}
        self._released = False
        self.pending: Pending | None = pending
        self._sums: Sums | None = None

    def __getattr__(self, name: str) -> Any:
        if name not in ("arena", "touched", "_loose") or self.pending is None:
            raise AttributeError(name)
        self.pending.fill()
        return getattr(self, name)

    @property
    def there(self) -> bool:
        """Whether no pass is awaited."""
        return self.pending is None

    @property
    def kept(self) -> bytes:
        """Say of each slot whether there is a sum of earlier passes; empty where there is none."""
        return b"" if self._sums is None else self._sums.kept

    def wait_for(self, pending: Pending) -> None:
        """Put what is held aside, until a pass over another tape was added to it."""
        self._sums = Sums(self.arena, bytes(self.touched))
        self.pending = pending
        del self.arena, self.touched, self._loose

    def memory(self) -> Sums:
        """Take memory for the gradients, or what was put aside; `unused` comes after it."""
        return self._sums or Sums(self.store.take_gradients(), b"")

    def unused(self, sums: Sums) -> None:
        """Give memory back that `memory` has taken, unless it holds the gradients by now."""
        if sums is not self._sums and (self.pending is not None or self.arena is not sums.arena):
            self.store.return_gradients(sums.arena)

    def receive(self, reached: Sequence[int], cotangents: Sequence[Tensor]) -> None:
        """Take the cotangents of leaves, and memory for them."""
        arena = self.store.take_gradients()
        self.own(arena, bytearray(len(arena.views)), {})
        for leaf, cotangent in zip(reached, cotangents, strict=True):
            self.add(leaf, cotangent)

    def own(self, arena: Arena, touched: bytearray, further: Mapping[int, Tensor]) -> None:
        """Hold an arena with the gradients of the slots that were reached, and further leaves'."""
        self.pending = self._sums = None
        self.arena, self.touched = arena, touched
        self._loose = {}
        for leaf, held in further.items():
            self._loose[leaf] = Buffer(held, "the gradient map")

    def _free(self) -> None:
        if self.pending is None:
            super()._free()
        elif self._sums is not None:
            self.store.return_gradients(self._sums.arena)
        self.pending = self._sums = None
