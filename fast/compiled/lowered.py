"""A recorded program as one op: artifacts compute its results, and the sweep back through it.

Nothing is computed when it is entered on a tape: data are checked and copied, and what the program
returns stands there without contents (fast.compiled.pending). There are four kinds of artifacts: of
the forward pass, of both passes, of both passes that write gradients where they lie or add them to
what is there, and of those and an update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from fast.compiled import artifacts, inductor, lowering, naming, progress
from fast.compiled.lowering import Moved, Moves, Place
from fast.compiled.recorded.plan import Call, Plan, blank
from fast.compiled.shown import sources
from fast.compiled.shown.outline import Outline
from fast.compiled.steps import Step, Sums, Update
from fast.errors import Unavailable
from fast.optim._rule import Stated
from fast.runtime.binding import Bindings
from fast.runtime.param import Param
from fast.tape import LEAF, Tape

NONE: Mapping[int, Tensor] = MappingProxyType({})
"""The gradients of further leaves, where there are none."""


class Lowered:
    """The artifacts of one plan, each made when it is first run."""

    def __init__(self, plan: Plan, tape: Tape, integers: int, bindings: Bindings) -> None:
        """Hold a plan that was recorded on a tape; what no artifact can do is Unavailable."""
        self.plan = plan
        self._integers = integers
        self._bindings = bindings
        dtypes = [_dtype_of(tape, leaf) for leaf in range(plan.first)]
        slots = {leaf: parameter.slot for leaf, (parameter, _) in tape.uses.items()}
        first = {slot: leaf for leaf, slot in reversed(slots.items())}
        reads = [first[slots[leaf]] if leaf in slots else leaf for leaf in range(plan.first)]
        own = [call for call in plan.calls if _reads_own_indices(plan, call)]
        self._checked = [
            (c.check, c.sources, c.attributes, c.drawn)
            for c in plan.calls
            if c.check is not None and c not in own
        ]
        self._ready: dict[int | None, tuple[inductor.Loaded, list[int]]] = {}
        self._forward = lowering.signature(plan, dtypes, reads)
        self.moved = tuple(plan.moved.values())
        self.count = len(self._forward.results)
        self.results = self._forward.results[: self.count - len(self.moved)]
        parents = tuple(k for k, dtype in enumerate(dtypes) if dtype)
        self.parents, self.needs = parents, (True,) * len(parents)
        self.owners = {leaf: owner for leaf, owner in tape.leaves.items() if leaf < plan.first}
        self.result_bytes = sum(tape.values[k].nbytes for k in self.results)
        self.leaf_bytes = sum(value.nbytes for value in tape.values[len(tape.uses) : plan.first])
        # A leaf that is a result keeps its own rule: a pass ends there.
        made = [k for k in self.results if k >= plan.first]
        self.ruled = [k for k in made if parents and tape.values[k].is_floating_point()]
        self._leaf_rules, self._leaf_names = tape.rules[: plan.first], tape.names[: plan.first]
        self._shapes = [*map(blank, tape.values[: plan.first]), *plan.blanks]
        # From these results a pass may start.
        leaves = [k for k in self.results if k < plan.first and tape.rules[k] is LEAF]
        self.starts = {k: self._shapes[k] for k in (*leaves, *self.ruled)}
        self.ones: dict[int, Tensor] = {}
        self._constants = [plan.blanks[k - plan.first] for k in self._forward.constants]
        self._slots = {k: p.slot for k, p in self.owners.items() if isinstance(p, Param)}
        again = self.owners.keys() - self._slots.keys()
        self._further = {leaf: slots[leaf] for leaf in sorted(again)}
        self._taken = lowering.own_leaves(self._forward, range(plan.first))
        self._argument_of = {slot: self._taken.index(leaf) for slot, leaf in first.items()}
        # An artifact that finds an index out of range stops midway, so it may not write parameters.
        self.whole = not own
        self._reached: dict[int, list[int]] = {}
        self._touched: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self._steps: dict[Any, Step] = {}
        self._latest: tuple[Any, Stated | None, Step | None] = (), None, None
        self._names = lowering.names(plan, self._forward, integers)
        self._named = {p.slot: p.name for p, _ in tape.uses.values()}
        self._parts: list[tuple[str, str, dict[str, int]]] = []

    def enter(self, leaves: list[Tensor], given: list[Tensor]) -> list[Tensor]:
        """Check a call's data, and take its random numbers.

        Return what the artifacts of the passes take.
        """
        # This runs in every step that is compiled whole, where Python is the longest part.
        plan, bindings = self.plan, self._bindings
        start = bindings.next_call
        beside = plan.read_beside() if plan.beside else []
        if self._checked:
            # A check reads shapes of numbers, and the data of integer inputs.
            table = [*self._shapes, *given, *beside]
            for check, sources, attributes, drawn in self._checked:
                # A random op's check reads the counter; what fails leaves it as the program would.
                bindings.next_call = start + drawn
                assert check is not None
                check(*[table[k] for k in sources], **attributes)
        bindings.next_call = start + plan.draws
        own = leaves if len(self._taken) == plan.first else [leaves[k] for k in self._taken]
        taken = [*own, *self._constants, *given, *beside]
        if plan.draws:
            taken.append(lowering.cell(start))
        return taken

    @property
    def names(self) -> list[str | None]:
        """The names of a call's entries."""
        return [*self._leaf_names, *self.plan.names]

    @property
    def rules(self) -> list[tuple[Any, ...] | None]:
        """The rules of a call's leaves, and places for those of its results."""
        return [*self._leaf_rules, *[None] * len(self.plan.blanks)]

    def run(
        self, seeded: int | None, given: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], list[int]]:
        """Run the artifact of the forward pass, or that of both passes from an entry.

        Return the program's results, with them what the `moved` buffers hold afterwards, then the
        cotangents of the leaves that are named. An index that the program computes, out of range,
        is Rejected.
        """
        loaded, reached = self._ready.get(seeded) or self.passes(seeded, given)
        with inductor.indices_in_range():
            return loaded([*given]), reached

    def passes(
        self, seeded: int | None, given: Sequence[Tensor]
    ) -> tuple[inductor.Loaded, list[int]]:
        """Return the artifact that `run` runs, and the leaves that it reaches."""
        known = self._ready.get(seeded)
        if known is None:
            function, reached = self._function(seeded)
            title = "a forward pass" if seeded is None else "both passes"
            names = [*self._names, *(() if seeded is None else ("seed",))]
            made = self._made(function, (title, names), ("passes", seeded), given)
            known = self._ready[seeded] = made, reached
        return known

    def reached(self, seeded: int, given: Sequence[Tensor]) -> list[int]:
        """Return the leaves that a pass from an entry reaches; nothing is compiled for it."""
        known = self._reached.get(seeded)
        if known is None:
            function, known = self._function(seeded)
            function(*given)
            self._reached[seeded] = known
        return known

    def touched(self, seeded: int, given: Sequence[Tensor], slots: int) -> tuple[bytes, bytes]:
        """Say of each slot whether a pass from an entry reaches its parameter.

        Second, say the same of the parameter's first leaf, whose gradient lies in an arena.
        """
        known = self._touched.get((seeded, slots))
        if known is None:
            first = bytearray(slots)
            for leaf in self.reached(seeded, given):
                if leaf in self._slots:
                    first[self._slots[leaf]] = 1
            found = bytearray(first)
            for leaf in self.reached(seeded, given):
                if leaf in self._further:
                    found[self._further[leaf]] = 1
            known = self._touched[seeded, slots] = bytes(found), bytes(first)
        return known

    def step(
        self, seeded: int, given: list[Tensor], sums: Sums, update: Update | None
    ) -> tuple[Sequence[Tensor], Mapping[int, Tensor]]:
        """Run the artifact of both passes, and of an update if there is one.

        It writes gradients into an arena, or adds them to what is there, and parameters and states
        where they lie. Return the program's results, and the gradients of further leaves.
        """
        arena, kept = sums
        if update is None:
            stated, asked = None, (seeded, kept, True, True)
        else:
            stated, most, factor, _, _ = update
            asked = (seeded, kept, most is None, factor == 1.0)
        # In a training loop an optimizer states its update by the object of the last one.
        known, said, step = self._latest
        if step is None or said is not stated or known != asked:
            step = self._step_of(seeded, given, sums, update)
            self._latest = asked, stated, step
        taken = step.arguments(given, arena.views, update)
        if step.loaded is None:
            step.loaded = self._compiled(seeded, given, taken, step, update)
        found = step.loaded(taken)
        if not step.further:
            return found, NONE
        made = found[: self.count]
        return made, dict(zip(step.further, found[self.count :], strict=True))

    def _step_of(self, seeded: int, given: list[Tensor], sums: Sums, update: Update | None) -> Step:
        """Return the step of this kind; its artifact is made when it is first run."""
        kind: tuple[Any, ...] = (seeded, sums.kept)
        if update is not None:
            (rule, rows, branches, _, _, held), most, factor, _, _ = update
            kind = (*kind, rule.name, rows, branches, held, most is None, factor == 1.0)
        known = self._steps.get(kind)
        if known is None:
            known = self._steps[kind] = self._planned(seeded, given, sums, update)
        return known

    def _planned(self, seeded: int, given: list[Tensor], sums: Sums, update: Update | None) -> Step:
        """Find out where a step of a new kind has its arguments."""
        kept = {slot for slot, holds in enumerate(sums.kept) if holds}
        reached = self.reached(seeded, given)
        places = {self._slots[leaf]: Place(leaf, self._slots[leaf] in kept)
                  for leaf in reached if leaf in self._slots}  # fmt: skip
        further = [leaf for leaf in reached if leaf in self._further]
        if update is None:
            return Step(places, {}, further, torch.empty(0))
        for slot, _ in update.stated.rows:
            if slot in kept:
                places.setdefault(slot, Place(None, True))
        numbers = len(update.stated.branches) * len(update.stated.constants[0]) + 2
        vector = torch.zeros(numbers, dtype=sums.arena.flat.dtype)
        moved, where = {}, {slot: k for k, slot in enumerate(places)}
        for slot, row in update.stated.rows:
            argument = None if update.copied else self._argument_of.get(slot)
            again = tuple(leaf for leaf in further if self._further[leaf] == slot)
            moved[slot] = Moved(argument, where.get(slot), again, row)
        return Step(places, moved, further, vector)

    def _compiled(
        self, seeded: int, given: list[Tensor], taken: list[Tensor], step: Step,
        update: Update | None,
    ) -> inductor.Loaded:  # fmt: skip
        """Compile a step for arguments like those taken."""
        moves = None
        if update is not None:
            (rule, _, branches, _, _, held), most, factor, *_ = update
            moved = tuple(step.moved.values())
            moves = Moves(rule, moved, branches, held, most is not None, factor != 1.0)
        places, reached = tuple(step.places.values()), self.reached(seeded, given)
        passes, _ = self._function(seeded)
        function = lowering.whole(passes, len(given), reached, places, step.further, moves)
        described = self._described(step, None if update is None else update.stated)
        key = moves and (moves.rule.name, moves.moved, moves.branches, moves.kept)
        return self._made(function, described, ("step", seeded, places, key), taken, apart=True)

    def _function(self, seeded: int | None) -> tuple[Callable[..., list[Tensor]], list[int]]:
        wanted = replace(self._forward, seeded=seeded)
        return lowering.function(self.plan, wanted, self._integers, self._bindings)

    def _described(self, step: Step, stated: Stated | None) -> tuple[str, list[str]]:
        """Return a title for a step, and the names of what its artifact takes."""
        # What another program's pass has reached may be no parameter of this one.
        named = {slot: f"parameter {slot}" for slot in step.moved} | self._named
        gradients = [f"gradient of {named[slot]}" for slot in step.places]
        masters = [named[slot] for slot in step.beside]
        names = [*self._names, "seed", *gradients, *masters]
        if stated is None:
            return "both passes", names
        states = [f"{state} of {named[slot]}" for slot in step.moved for state in stated.kept]
        return f"both passes and {stated.rule.name}", [*names, *states, "numbers of the update"]

    def _made(
        self,
        function: Callable[..., list[Tensor]],
        described: tuple[str, list[str]],
        what: Any,
        given: Sequence[Tensor],
        apart: bool = False,
    ) -> inductor.Loaded:
        """Load the artifact of a function, which `what` tells from others of the program.

        It is run once to be named, and traced, on copies where `apart`: it may write, and a trace
        asks whether memory is shared.
        """
        given = [tensor.clone() for tensor in given] if apart else given
        key = self._key(function, what, given)

        def make() -> bytes:
            inductor.require_compiler()
            graph = inductor.traced(function, given)
            with progress.compiling(described[0]):
                return inductor.built(graph, given)

        loaded = inductor.loaded(artifacts.fetch(key, make))
        self._show(described, key, given)
        return loaded

    def _key(
        self, function: Callable[..., list[Tensor]], what: Any, given: Sequence[Tensor]
    ) -> str:
        """Name a function's artifact by a run of it on what is given."""
        with inductor.indices_in_range():
            calls = naming.noted(function, given)
        return naming.key(calls, (self._forward, what), given)

    def _show(self, described: tuple[str, list[str]], key: str, given: Sequence[Tensor]) -> None:
        """Let `outlines` show an artifact that was loaded."""
        title, names = described
        sizes = [tensor.nbytes for tensor in given]
        self._parts.append((title, key, dict(zip(names, sizes, strict=False))))

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


def _dtype_of(tape: Tape, leaf: int) -> torch.dtype | None:
    """Return the dtype in which a leaf's gradient is added up, None where it takes none."""
    if tape.rules[leaf] is not LEAF:
        return None
    owner = tape.leaves[leaf]
    return owner.dtype if isinstance(owner, Param) else tape.values[leaf].dtype


def beyond(engine: str, what: str) -> Unavailable:
    """Build the refusal of a program that another engine runs."""
    return Unavailable(
        f"engine {engine!r}: this program is beyond it: {what}; engine 'replay' runs it"
    )
