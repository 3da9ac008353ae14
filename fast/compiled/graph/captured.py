"""A recorded program whose whole step, both passes and the update, is one CUDA graph.

The kernels are those of a replay, so results are its, bit for bit. Data, labels, the random counter
and hyper-parameters are written into memory that stays, and then the graph is started: one call a
step. A graph holds for the memory that it was captured on. Where that has moved (other gradients
are held, a parameter has come, another set is active) or another norm bounds the gradients, the
next step runs its kernels one by one, and the one after it captures them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from fast.compiled.graph import cuda
from fast.compiled.lowered import Lowered, Sums, Update
from fast.compiled.pending import Awaited, Pending
from fast.compiled.recorded.plan import Plan
from fast.compiled.shown import replayed
from fast.compiled.shown.outline import Outline
from fast.optim import clip
from fast.runtime.binding import Bindings
from fast.runtime.updates import Wanted
from fast.tape import Tape

MOST_GRAPHS = 4
"""How many graphs of a program are kept; each holds the memory of its intermediate results."""


class Graph:
    """A step that runs on memory of its own: kernel by kernel at first, and then captured."""

    def __init__(
        self, fixed: Sequence[Tensor], body: Callable[[], Sequence[Tensor]], held: Sequence[Tensor]
    ) -> None:
        """Hold what is written before each run, the step, and the memory that it works on."""
        self._fixed = fixed
        self._body = body
        self._held = held  # What is captured has addresses alone.
        self._again: Callable[[], None] | None = None
        self._found: Sequence[Tensor] | None = None

    def run(self, given: Sequence[Tensor]) -> Sequence[Tensor]:
        """Take a step with these data, and return its results, in memory of their own."""
        for place, tensor in zip(self._fixed, given, strict=True):
            if place is not tensor:
                place.copy_(tensor)
        if self._found is None:
            self._found = self._body()
            return self._found
        if self._again is None:
            self._again, self._found = cuda.capture(self._body)
        self._again()
        return [tensor.clone() for tensor in self._found]


class Captured(Lowered):
    """What `Lowered` is, but that a whole step is a graph; passes alone run their kernels."""

    def __init__(self, plan: Plan, tape: Tape, integers: int, bindings: Bindings) -> None:
        """Hold a plan that was recorded on a tape."""
        super().__init__(plan, tape, integers, bindings)
        # What a further use of a parameter gets is added up in the map.
        self.whole = self.whole and not self._further
        self._lent = frozenset(self._argument_of.values())
        self._graphs: dict[tuple[Any, ...], Graph] = {}

    def run(
        self, seeded: int | None, given: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], list[int]]:
        """Run the forward pass, or both passes from an entry.

        Return the program's results, then the cotangents of the leaves that are named.
        """
        function, reached = self._function(seeded)
        return function(*self._placed(given)), reached

    def reached(self, seeded: int, given: Sequence[Tensor]) -> list[int]:
        """Return the leaves that a pass from an entry reaches: once, it is run to see."""
        known = self._reached.get(seeded)
        if known is None:
            known = self._reached[seeded] = [*self.run(seeded, given)[1]]
        return known

    def step(
        self, seeded: int, given: list[Tensor], sums: Sums, update: Update | None
    ) -> tuple[Sequence[Tensor], dict[int, Tensor]]:
        """Run both passes, kernel by kernel; gradients go into an arena, or are added to it."""
        assert update is None, "an update is captured"
        return self._passes(seeded, self._placed(given), sums), {}

    def captured(
        self, seeded: int, given: list[Tensor], sums: Sums, active: bytes, wanted: Wanted
    ) -> Sequence[Tensor]:
        """Run both passes and an update; return the program's results."""
        optimizer, hypers, groups, most, scale, _ = wanted
        lent = [tensor for k, tensor in enumerate(given) if k in self._lent]
        held = [*optimizer.stage(active, hypers, groups), sums.arena.flat, *lent]
        told = sums.kept, active, groups, most, scale, optimizer.fixed(hypers)
        key = (seeded, *told, *[t.data_ptr() for t in held])
        graph, placed = self._graphs.pop(key, None), self._placed(given)
        if graph is None:
            fixed = [t if k in self._lent else t.clone() for k, t in enumerate(placed)]
            body = partial(self._enqueued, seeded, fixed, sums, active, wanted)
            graph = Graph(fixed, body, held)
            while len(self._graphs) >= MOST_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
        found = graph.run(placed)
        self._graphs[key] = graph
        optimizer.written(hypers, on_device=True)
        return found

    def _enqueued(
        self, seeded: int, given: Sequence[Tensor], sums: Sums, active: bytes, wanted: Wanted
    ) -> Sequence[Tensor]:
        """Start the kernels of a whole step; nothing is read on the host."""
        optimizer, hypers, groups, most, scale, _ = wanted
        found, factor = self._passes(seeded, given, sums), None
        if most is not None or scale != 1.0:
            squares = partial(optimizer.squares, sums.arena, active, hypers, groups)
            factor = clip.of_update(optimizer.provider, sums.arena.flat, squares, most, scale)
        optimizer.enqueue(sums.arena, factor)
        return found

    def _passes(self, seeded: int, given: Sequence[Tensor], sums: Sums) -> Sequence[Tensor]:
        """Run both passes, put gradients where they lie, and return the program's results."""
        function, reached = self._function(seeded)
        found = function(*given)
        count = len(found) - len(reached)
        for leaf, gradient in zip(reached, found[count:], strict=True):
            slot = self._slots[leaf]
            view = sums.arena.views[slot]
            if sums.kept and sums.kept[slot]:
                view.add_(gradient)
            else:
                view.copy_(gradient)
        return found[:count]

    def _placed(self, given: Sequence[Tensor]) -> list[Tensor]:
        """Put on the device what a call has on the host, such as its random counter."""
        device = self.plan.blanks[0].device
        return [tensor.to(device) for tensor in given]

    def outlines(self) -> list[Outline]:
        """Say what the kernels do: what a replay does."""
        return [replayed.outlined(self.plan)]


class PendingGraph(Pending):
    """One call of a program whose whole step is captured."""

    def step(self, grads: Awaited, sums: Sums, wanted: Wanted, active: bytes) -> None:
        """Run both passes and the update of the active slots; the map gets the sums."""
        lowered: Any = self.lowered
        found = lowered.captured(self._seeded, self._given, sums, active, wanted)
        self._done(grads, sums, found, {})
