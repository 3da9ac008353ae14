"""A recorded program as one op: artifacts compute its results, and the sweep back through it.

Nothing is computed when it is entered on a tape: data are checked and copied, and what the program
returns stands there without contents (fast.compiled.pending). There are three kinds of artifacts:
of the forward pass, of both passes, and of both passes and an update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from fast.compiled import artifacts, inductor, lowering, naming, progress
from fast.compiled.lowering import Moves
from fast.compiled.plan import Call, Plan
from fast.compiled.shown import sources
from fast.compiled.shown.outline import Outline
from fast.device.arena import Arena
from fast.errors import Rejected, Unavailable
from fast.optim._rule import Rule, Stated
from fast.runtime.binding import Bindings
from fast.runtime.param import Param
from fast.tape import LEAF, Tape


class Step:
    """The artifact of one kind of whole step, and where its arguments are.

    `vector` holds the numbers of the update at hand, which `numbers` writes.
    """

    def __init__(self, places: list[int], held: list[int], vector: Tensor) -> None:
        """Hold the slots whose gradients are written, and those that are updated."""
        self.loaded: inductor.Loaded | None = None
        self.numbers = vector.numpy()
        self.places = places
        self.held = held
        self._vector = vector

    def arguments(
        self, given: Sequence[Tensor], gradients: Sequence[Tensor], states: Sequence[Arena]
    ) -> list[Tensor]:
        """Return what the artifact takes: the passes' arguments, and where it writes."""
        views = [arena.views for arena in states]
        return [
            *given,
            *[gradients[slot] for slot in self.places],
            *[of[slot] for slot in self.held for of in views],
            self._vector,
        ]


class Lowered:
    """The artifacts of one plan, each made when it is first run."""

    def __init__(self, plan: Plan, tape: Tape, integers: int, bindings: Bindings) -> None:
        """Hold a plan that was recorded on a tape; what no artifact can do is Unavailable."""
        self.plan = plan
        self._integers = integers
        self._bindings = bindings
        leaves = tuple(rule is LEAF for rule in tape.rules[: plan.first])
        own = [call for call in plan.calls if _reads_own_indices(plan, call)]
        self._checked = [c for c in plan.calls if c.check is not None and c not in own]
        self._ready: dict[int | None, tuple[inductor.Loaded, list[int]]] = {}
        self._forward = lowering.signature(plan, leaves)
        self.results = self._forward.results
        parents = tuple(k for k, leaf in enumerate(leaves) if leaf)
        self.parents, self.needs = parents, (True,) * len(parents)
        self.owners = {leaf: owner for leaf, owner in tape.leaves.items() if leaf < plan.first}
        self.leaf_rules = tape.rules[: len(tape.uses)]
        self._slots = {k: p.slot for k, p in self.owners.items() if isinstance(p, Param)}
        self._leaf_of = {slot: leaf for leaf, slot in self._slots.items()}
        # An artifact that finds an index out of range stops midway, so it may not write parameters;
        # and what a further use of a parameter gets is added up in the map.
        self.whole = not own and len(self._slots) == len(self.owners)
        self._reached: dict[int, list[int]] = {}
        self._touched: dict[tuple[int, int], bytes] = {}
        self._steps: dict[Any, Step] = {}
        self._names = lowering.names(plan, self._forward, integers)
        self._parts: list[tuple[str, str, dict[str, int]]] = []

    def enter(self, tape: Tape, given: Sequence[Tensor]) -> list[Tensor]:
        """Check a call's data, take its random numbers, and append its entries without contents.

        Return what the artifacts of the passes take.
        """
        plan, bindings = self.plan, self._bindings
        start = bindings.next_call
        # A check reads shapes of numbers, and the data of integer inputs.
        table = [*tape.values, *plan.blanks, *given, *plan.read_beside()] if self._checked else []
        for call in self._checked:
            # A random op's check reads the counter; what fails leaves it as the program would.
            bindings.next_call = start + call.drawn
            assert call.check is not None
            call.check(*(table[k] for k in call.sources), **call.attributes)
        bindings.next_call = start + plan.draws
        cell = lowering.cell(start) if plan.draws else None
        taken = lowering.arguments(plan, self._forward, tape.values, given, cell)
        tape.values += plan.blanks
        tape.rules += [None] * len(plan.blanks)
        tape.extra -= len(plan.blanks)
        return taken

    def run(
        self, seeded: int | None, given: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], list[int]]:
        """Run the artifact of the forward pass, or that of both passes from an entry.

        Return the program's results, then the cotangents of the leaves that are named. An index
        that the program computes, out of range, is Rejected.
        """
        known = self._ready.get(seeded)
        if known is None:
            function, reached = self._function(seeded)
            title = "a forward pass" if seeded is None else "both passes"
            names = [*self._names, *(() if seeded is None else ("seed",))]
            made = self._made(function, (title, names), ("passes", seeded), given)
            known = self._ready[seeded] = made, reached
        loaded, reached = known
        try:
            return loaded([*given]), reached
        except RuntimeError as error:
            if "index out of bounds" not in str(error):
                raise
            raise Rejected(
                "run: an index that the program computes is out of range; engine 'replay' says "
                "which op reads it"
            ) from error

    def reached(self, seeded: int, given: Sequence[Tensor]) -> list[int]:
        """Return the leaves that a pass from an entry reaches; nothing is compiled for it."""
        known = self._reached.get(seeded)
        if known is None:
            function, known = self._function(seeded)
            inductor.traced(function, given)
            self._reached[seeded] = known
        return known

    def touched(self, seeded: int, given: Sequence[Tensor], slots: int) -> bytes:
        """Say of each slot whether a pass from an entry reaches its parameter."""
        known = self._touched.get((seeded, slots))
        if known is None:
            found = bytearray(slots)
            for leaf in self.reached(seeded, given):
                found[self._slots[leaf]] = 1
            known = self._touched[seeded, slots] = bytes(found)
        return known

    def step(
        self, seeded: int, given: list[Tensor], gradients: Arena, stated: Stated,
        scaling: tuple[float | None, float],
    ) -> Sequence[Tensor]:  # fmt: skip
        """Run the artifact of both passes and an update; return the program's results.

        It writes gradients into an arena, and parameters and states where they lie. `scaling` is
        the largest norm, if there is one, and what gradients are multiplied by.
        """
        most, factor = scaling
        rule, rows, branches, constants, states = stated
        shape = (len(states), most is not None, factor != 1.0)
        key = (seeded, rule.name, rows, branches, shape)
        step = self._steps.get(key)
        if step is None:
            reached = self.reached(seeded, given)
            moved = tuple((self._leaf_of[slot], row) for slot, row in rows)
            places = [self._slots[leaf] for leaf in reached]
            held = [slot for slot, _ in rows]
            numbers = len(branches) * len(constants[0]) + 2
            step = Step(places, held, torch.zeros(numbers, dtype=gradients.flat.dtype))
        taken = step.arguments(given, gradients.views, states)
        bound = 0.0 if most is None else min(most, torch.finfo(gradients.flat.dtype).max)
        step.numbers[:] = [*chain.from_iterable(constants), bound, factor]
        if step.loaded is None:
            moves = Moves(rule, moved, branches, *shape)
            passes, _ = self._function(seeded)
            function = lowering.whole(passes, len(given), reached, moves)
            apart = [tensor.clone() for tensor in taken]  # A trace asks whether memory is shared.
            step.loaded = self._made(function, self._described(step, rule), ("step", *key), apart)
            self._steps[key] = step
        return step.loaded(taken)

    def _function(self, seeded: int | None) -> tuple[Callable[..., list[Tensor]], list[int]]:
        wanted = replace(self._forward, seeded=seeded)
        return lowering.function(self.plan, wanted, self._integers, self._bindings)

    def _described(self, step: Step, rule: Rule) -> tuple[str, list[str]]:
        """Return a title for a whole step, and the names of what its artifact takes."""
        owner = {p.slot: p.name for p in self.owners.values() if isinstance(p, Param)}
        gradients = [f"gradient of {owner[slot]}" for slot in step.places]
        states = [f"{state} of {owner[slot]}" for slot in step.held for state in rule.states]
        names = [*self._names, "seed", *gradients, *states, "numbers of the update"]
        return f"both passes and {rule.name}", names

    def _made(
        self,
        function: Callable[..., list[Tensor]],
        described: tuple[str, list[str]],
        what: Any,
        given: Sequence[Tensor],
    ) -> inductor.Loaded:
        """Load the artifact of a function, which `what` tells from others of the program."""
        title, names = described
        graph = inductor.traced(function, given)
        key = naming.key(graph, (self._forward, what), given)

        def make() -> bytes:
            with progress.compiling(title):
                return inductor.built(graph, given)

        loaded = inductor.loaded(artifacts.fetch(key, make))
        sizes = [tensor.nbytes for tensor in given]
        self._parts.append((title, key, dict(zip(names, sizes, strict=False))))
        return loaded

    def outlines(self) -> list[Outline]:
        """Read off the artifacts that were run what they do; those no longer on disk are left."""
        found = []
        for title, key, arguments in self._parts:
            package = artifacts.read(artifacts.folder() / f"{key}.artifact")
            if package is not None:
                found.append(sources.outlined(package, title, arguments))
        return found


def _reads_own_indices(plan: Plan, call: Call) -> bool:
    """Say whether a call reads indices that the program computes, which no host check sees."""
    made = range(plan.first, plan.first + len(plan.blanks))
    return any(
        k in made and not plan.blanks[k - plan.first].is_floating_point() for k in call.sources
    )


def beyond(what: str) -> Unavailable:
    """Build the refusal of a program that another engine runs."""
    return Unavailable(
        f"engine 'inductor': this program is beyond it: {what}; engine 'replay' runs it"
    )
