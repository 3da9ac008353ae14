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

import torch
from torch import Tensor

from fast.compiled.graph import cuda
from fast.compiled.lowered import Lowered
from fast.compiled.pending import Awaited, Pending
from fast.compiled.plan import Plan
from fast.compiled.shown import replayed
from fast.compiled.shown.outline import Outline
from fast.device.arena import Arena
from fast.optim import clip
from fast.runtime.binding import Bindings
from fast.runtime.updates import Wanted
from fast.tape import Tape

MOST_GRAPHS = 4
"""How many graphs of a program are kept; each holds the memory of its intermediate results."""


class Graph:
    """A step that runs on memory of its own: kernel by kernel at first, and then captured."""

    def __init__(
        self, fixed: Sequence[Tensor], body: Callable[[], list[Tensor]], held: Sequence[Tensor]
    ) -> None:
        """Hold what is written before each run, the step, and the memory that it works on."""
        self._fixed = fixed
        self._body = body
        self._held = held  # What is captured has addresses alone.
        self._again: Callable[[], None] | None = None
        self._found: list[Tensor] | None = None

    def run(self, given: Sequence[Tensor]) -> list[Tensor]:
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

    def captured(
        self, seeded: int, given: list[Tensor], gradients: Arena, active: bytes, wanted: Wanted
    ) -> list[Tensor]:
        """Run both passes and an update that was staged; return the program's results."""
        optimizer, hypers, groups, most, scale = wanted
        memory = optimizer.stage(active, hypers, groups)
        leaves = [tensor for k, tensor in enumerate(given) if k in self._slots]
        held = [*memory, gradients.flat, *leaves]
        key = (seeded, active, groups, most, scale, *[t.data_ptr() for t in held])
        graph = self._graphs.pop(key, None)
        if graph is None:
            given = self._placed(given)
            fixed = [t if k in self._slots else t.clone() for k, t in enumerate(given)]
            body = partial(self._step, seeded, fixed, gradients, active, wanted)
            graph = Graph(fixed, body, held)
            while len(self._graphs) >= MOST_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
        found = graph.run(given)
        self._graphs[key] = graph
        optimizer.written(hypers, on_device=True)
        return found

    def _step(
        self, seeded: int, given: Sequence[Tensor], gradients: Arena, active: bytes, wanted: Wanted
    ) -> list[Tensor]:
        """Start the kernels of a whole step; nothing is read on the host."""
        optimizer, hypers, groups, most, scale = wanted
        function, reached = self._function(seeded)
        found = function(*given)
        count = len(found) - len(reached)
        for leaf, gradient in zip(reached, found[count:], strict=True):
            gradients.views[self._slots[leaf]].copy_(gradient)
        factor = None
        if most is not None or scale != 1.0:
            squares = partial(optimizer.squares, gradients, active, hypers, groups)
            factor = clip.of_update(optimizer.provider, gradients.flat, squares, most, scale)
        optimizer.enqueue(gradients, factor)
        return found[:count]

    def _placed(self, given: Sequence[Tensor]) -> list[Tensor]:
        """Put on the device what a call has on the host, such as its random counter."""
        return [tensor.to(self._device) for tensor in given]

    @property
    def _device(self) -> torch.device:
        return self.plan.blanks[0].device

    def outlines(self) -> list[Outline]:
        """Say what the kernels do: what a replay does."""
        return [replayed.outlined(self.plan)]


class PendingGraph(Pending):
    """One call of a program whose whole step is captured."""

    def step(self, grads: Awaited, wanted: Wanted, arena: Arena, active: bytes) -> None:
        """Run both passes and the update of the active slots; the map gets the arena."""
        lowered: Any = self.lowered
        found = lowered.captured(self._seeded, self._given, arena, active, wanted)
        self._put(found)
        grads.own(arena, bytearray(self.touched(len(arena.views))))
