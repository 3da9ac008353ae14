"""Runs an optimizer's rule over flat arenas: one launch, all or nothing.

The caller has validated everything; what happens here cannot fail halfway. Each parameter has its
own step count and may be left out of an update, which then touches neither its value nor its state.
While the sticky error flag is set, nothing is written at all.
"""

# This file is longer than the guide because what is held and what is written must agree.

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from fast.device.arena import Arena
from fast.device.dtypes import computed_in, wide
from fast.optim import _state, clip
from fast.optim._chunks import Run, apart, chunk_table, runs
from fast.optim._hypers import HyperTable
from fast.optim._plans import Kept, Part, Plan, on_host
from fast.optim._rule import Batch, Flat, Launch, Rule, Stated

_CONSTANT = frozenset((bool, int, float, str, type(None)))
"""The types of numbers and words that nobody changes in place."""


class FlatOptimizer:
    """One rule, the parameters' arena, and the state that belongs to them."""

    def __init__(self, rule: Rule, masters: Arena, provider: str, flag: Tensor) -> None:
        """Keep state for the slots of `masters`; `flag` is the sticky error flag, one integer."""
        self.rule = rule
        self.masters = masters
        self.provider = provider
        self.flag = flag
        self.formats = (computed_in(masters.flat.dtype),)
        self._ages: list[int] = []
        self._used: list[Any] = []
        self._owned: list[frozenset[str]] = []
        self._applied: tuple[Any, ...] = ()
        self._states: tuple[Arena, ...] = ()
        self.held: tuple[str, ...] = ()
        self._steps = masters.flat.new_zeros(0, dtype=torch.float32)
        self._spare = self._steps
        self._key: Any = None
        self._plan = Plan()
        self._given: dict[str, Any] | None = None
        self._kinds: list[type] = []
        self._checked_hyper: tuple[Any, ...] = ()
        self._planned_hypers: tuple[Any, ...] | None = None
        self._kept: tuple[tuple[str, ...], ...] = ()
        self._table = HyperTable(self._steps.device)

    def read(self, given: dict[str, Any]) -> tuple[Any, ...]:
        """Return checked hyper-parameters for one group; those of the last call are known good."""
        kinds = [*map(type, given.values())]
        if kinds != self._kinds:
            # True equals 1.0, and so does a tensor of it: what is no number is found by its type.
            self._given, self._kinds = None, kinds
        # NaN is equal to nothing, so it is never taken for something that was checked.
        if given != self._given:
            self._checked_hyper = (self.rule.read(given, self.formats),)
            # What may change between two calls, as a tensor may, is read anew each time.
            self._given = given if _CONSTANT.issuperset(kinds) else None
        return self._checked_hyper

    def step(
        self,
        gradients: Arena,
        active: bytes,
        hypers: tuple[Any, ...],
        groups: tuple[int, ...] | None = None,
        scale: Tensor | None = None,
    ) -> None:
        """Update the active slots; `groups` gives each slot's index in `hypers`, 0 if absent.

        Gradients are multiplied by `scale`, a number on the device, without being changed.
        """
        self._prepare(active, hypers, groups)
        if self.provider == "triton":
            self._launch(gradients, hypers, scale)
        elif self.flag.is_cpu:
            if self.flag.item():
                return
            self._call(gradients, hypers, None, scale)
        else:
            self._call(gradients, hypers, (self.flag != 0).to(torch.float32), scale)
        self._count(hypers)

    def stated(
        self, active: bytes, hypers: tuple[Any, ...], groups: tuple[int, ...] | None = None
    ) -> Stated | None:
        """Say how an update of the active slots goes, to who writes it himself; None: not at all.

        It takes memory for their states if they have none. `written` counts the update.
        """
        assert self.rule.formula is not None
        if self.flag.item():
            return None
        self._prepare(active, hypers, groups)
        plan, formula = self._plan, self.rule.formula
        if plan.rows is None:
            first: dict[tuple[int, int], int] = {}
            for slot, group in plan.groups:
                first.setdefault((group, self._ages[slot]), slot)
            plan.kinds = [(group, slot) for (group, _), slot in first.items()]
            row_of = {kind: row for row, kind in enumerate(first)}
            plan.rows = tuple((s, row_of[group, self._ages[s]]) for s, group in plan.groups)
        # Ages are brought up to date now and then; what has been counted since comes on top.
        steps = plan.updates + 1
        constants = [
            formula.constants(hypers[group], self._ages[slot] + steps) for group, slot in plan.kinds
        ]
        branches, every = plan.branched(formula, hypers), {n for kept in self._kept for n in kept}
        pairs = [(n, arena) for n, arena in self._arenas.items() if n in every]
        states, kept = tuple([arena for _, arena in pairs]), tuple([name for name, _ in pairs])
        return Stated(self.rule, plan.rows, branches, constants, states, kept)

    def written(self, hypers: tuple[Any, ...], on_device: bool = False) -> None:
        """Count an update that was written as `stated` said, or enqueued and so counted there."""
        if not on_device:
            self._plan.owed += 1
        self._count(hypers)

    def squares(
        self,
        gradients: Arena,
        active: bytes,
        hypers: tuple[Any, ...],
        groups: tuple[int, ...] | None = None,
        inverse: float = 1.0,
    ) -> Tensor:
        """Add up the squares of the active slots' gradients times `inverse`, in parts."""
        self._prepare(active, hypers, groups)
        plan = self._plan
        if self.provider == "triton":
            assert plan.table is not None
            return clip.squares(gradients.flat, plan.table, inverse)
        if plan.whole is None:
            alike = [0] * len(active)
            plan.whole = runs(self.masters.layout, active, alike, alike)
        if not plan.whole:
            return wide(gradients.flat.new_zeros(1))
        return clip.aten_squares(gradients.flat, plan.whole, inverse)

    def clamped(
        self,
        gradients: Arena,
        into: Arena,
        bounds: clip.Bounds,
        inverse: float,
        active: bytes,
        hypers: tuple[Any, ...],
        groups: tuple[int, ...] | None = None,
    ) -> clip.Clamped:
        """Write the active slots' gradients times `inverse` into another arena, clamped."""
        self._prepare(active, hypers, groups)
        where: Any = self._plan.table
        if where is None:
            alike = [0] * len(active)
            where = runs(self.masters.layout, active, groups or alike, alike)
        return clip.clamped(gradients.flat, into.flat, where, bounds, inverse)

    def _prepare(
        self, active: bytes, hypers: tuple[Any, ...], groups: tuple[int, ...] | None
    ) -> None:
        self._fit()
        if hypers is not self._planned_hypers:
            # `read` hands the same object out as long as a training loop changes nothing.
            self._kept = tuple([self.rule.kept(hyper) for hyper in hypers])
            self._planned_hypers = hypers
        key = (active, groups, self._kept)
        if key != self._key:
            self._hold({name for kept in self._kept for name in kept})
            self._replan(active, groups or (0,) * len(active), self._kept)
            self._key = key

    @property
    def _arenas(self) -> dict[str, Arena]:
        """The arenas that there are, by the names of their states."""
        return dict(zip(self.held, self._states, strict=True))

    def _hold(self, names: Collection[str]) -> None:
        """Take memory for the states of these names that have none."""
        known = self._arenas
        if not known.keys() >= set(names):
            both = [name for name in self.rule.states if name in known or name in names]
            self._states = tuple([known.get(name) or self._new_arena() for name in both])
            self.held = tuple(both)

    def state(self, slot: int) -> dict[str, Tensor | int | None]:
        """Return one parameter's state under torch's names: device views, and the step count.

        An optional state is there if some update of the parameter has kept it.
        """
        self._fit()
        self._settle()
        fresh = not self.rule.counted and self._ages[slot] == 0
        known, lacks = self._arenas, set(self.rule.optional) - self._owned[slot]
        found: dict[str, Tensor | int | None] = {
            name: known[name].views[slot] if name in known and not fresh else None
            for name in self.rule.states
            if name not in lacks
        }
        if self.rule.counted:
            found["step"] = self._ages[slot]
        return found

    def used(self, slot: int) -> Any:
        """Return the hyper-parameters of a parameter's last update; None before the first."""
        self._fit()
        self._settle()
        return self._used[slot]

    def load(self, slot: int, state: Any, hyper: Any = None) -> None:
        """Replace one parameter's state, as `state` returned it, after checking all of it."""
        self.put(slot, self.checked(slot, state), hyper)

    def checked(self, slot: int, state: Any) -> _state.State:
        """Read a parameter's state, as `state` returned it, or raise Rejected; write nothing."""
        self._fit()
        return _state.checked(self.rule, self.masters.views[slot], state)

    def put(self, slot: int, state: _state.State, hyper: Any = None) -> None:
        """Write one parameter's state, which `checked` has read."""
        self._settle()
        pairs = zip(self.rule.states, state.tensors, strict=False)
        given = {name: tensor for name, tensor in pairs if tensor is not None}
        self._hold(given)
        for name, arena in self._arenas.items():
            view = arena.views[slot]
            view.copy_(given[name]) if name in given else view.zero_()
        self._owned[slot] = frozenset(given)
        self._ages[slot] = state.age
        self._used[slot] = hyper
        self._steps[slot] = float(state.age)
        self._key = None

    def keep(self) -> Kept:
        """Copy what is held for every parameter, so that `put_back` restores it bit for bit."""
        self._fit()
        self._settle()
        flats = {name: on_host(arena.flat) for name, arena in self._arenas.items()}
        return Kept([*self._ages], [*self._used], [*self._owned], on_host(self._steps), flats)

    def put_back(self, kept: Kept) -> None:
        """Hold again what `keep` copied, without a check and without memory for it."""
        self._key, self._plan = None, Plan()
        self._ages, self._used, self._owned = kept.ages, kept.used, kept.owned
        self._steps.copy_(kept.steps)
        known = self._arenas
        self.held, self._states = tuple(kept.states), tuple([known[n] for n in kept.states])
        for name, flat in kept.states.items():
            known[name].flat.copy_(flat)

    def forget_plan(self) -> None:
        """Drop what was cut for the last update, so that its memory can be returned."""
        self._settle()
        self._key, self._plan = None, Plan()

    def resync(self) -> None:
        """Read the step counts back from the device, after its flag stopped an update."""
        self._settle()
        self._ages = [int(age) for age in self._steps.tolist()]
        self._key, self._plan = None, Plan()

    def _new_arena(self) -> Arena:
        flat = self.masters.flat
        return Arena(self.masters.layout, flat.dtype, flat.device)

    def _fit(self) -> None:
        slots = len(self.masters.layout.segments)
        if len(self._ages) == slots and self._steps.numel() == slots:
            return
        self.masters.fit()
        for arena in self._states:
            arena.fit()
        self._plan.pay(self._steps)
        self._ages += [0] * (slots - len(self._ages))
        self._used += [None] * (slots - len(self._used))
        self._owned += [frozenset()] * (slots - len(self._owned))
        grown = self._steps.new_zeros(slots)
        grown[: self._steps.numel()] = self._steps
        self._steps, self._spare = grown, grown.clone()
        self._key = None

    def _replan(
        self, active: bytes, groups: tuple[int, ...], kept: tuple[tuple[str, ...], ...]
    ) -> None:
        self._settle()
        layout, device = self.masters.layout, self.masters.flat.device
        advancing = [slot for slot, on in enumerate(active) if on and kept[groups[slot]]]
        plan = self._plan = Plan(advancing, [(s, groups[s]) for s, on in enumerate(active) if on])
        plan.renews = any(self._ages[slot] == 0 for slot in advancing)
        bump = torch.zeros(len(active), dtype=torch.float32)
        bump[advancing] = 1.0
        plan.bump = bump.to(device)
        if self.provider == "triton":
            plan.table = chunk_table(layout, active, groups, device)
            if self.rule.matrices:
                plan.matrices = apart(layout, active, groups, self._ages)
            return
        sorted_runs: dict[tuple[int, bool], list[Run]] = {}
        cut = apart if self.rule.matrices else runs
        for run in cut(layout, active, groups, self._ages):
            sorted_runs.setdefault((run.group, run.age == 0), []).append(run)
        plan.parts = [
            Part(group, found, self._cut(found, first, kept[group]))
            for (group, first), found in sorted_runs.items()
        ]

    def _cut(self, found: list[Run], first: bool, kept: Collection[str]) -> Batch:
        flats = [arena.flat if name in kept else None for name, arena in self._every()]
        return Batch(
            [run.of(self.masters.flat) for run in found],
            [],
            tuple([] if flat is None else [run.of(flat) for run in found] for flat in flats),
            [self._steps[run.slot] for run in found],
            first,
        )

    def _call(
        self,
        gradients: Arena,
        hypers: tuple[Any, ...],
        stop: Tensor | None,
        scale: Tensor | None,
    ) -> None:
        plan = self._plan  # An arena of the pool may have moved since its slices were cut.
        if gradients.flat is not plan.gradients:
            plan.cut(gradients.flat)
        if plan.owed:
            plan.pay(self._steps)
        if plan.advancing:
            self._steps.add_(plan.bump if stop is None else plan.bump * (1.0 - stop))
        if scale is not None:
            plan.call_scaled(self.rule, hypers, stop, scale)
            return
        for part in plan.parts:
            self.rule.aten(part.batch, hypers[part.group], stop)

    def _every(self) -> list[tuple[str, Arena]]:
        """List the rule's states in order, each with its arena, or the parameters' without one."""
        known = self._arenas
        return [(name, known.get(name, self.masters)) for name in self.rule.states]

    def stage(
        self, active: bytes, hypers: tuple[Any, ...], groups: tuple[int, ...] | None
    ) -> list[Tensor]:
        """Put what kernels read beside gradients where `enqueue` finds it; return that memory."""
        self._prepare(active, hypers, groups)
        self._table.write(hypers)
        plan, arenas = self._plan, (self.masters, *self._states)
        counts = (plan.bump, self._steps, self._spare, self._table.rows)
        return [*(arena.flat for arena in arenas), *(plan.table or ()), *counts, self.flag]

    def fixed(self, hypers: tuple[Any, ...]) -> tuple[Any, ...]:
        """Say what of an update its kernels do not read, but which kernels are started tells."""
        formula = self.rule.formula
        if not self.rule.matrices or formula is None:
            return ()
        return tuple([formula.branch(hyper) for hyper in hypers])

    def enqueue(self, gradients: Arena, scale: Tensor | None = None) -> None:
        """Start the kernels of what was staged; memory keeps its role, so they may be repeated."""
        self._start(gradients, scale)
        self._steps.copy_(self._spare)

    def _launch(self, gradients: Arena, hypers: tuple[Any, ...], scale: Tensor | None) -> None:
        self._table.write(hypers)
        self._start(gradients, scale)
        self._steps, self._spare = self._spare, self._steps

    def _start(self, gradients: Arena, scale: Tensor | None) -> None:
        # Where a state is not kept, a rule is given the parameters in its place, and reads nothing.
        plan, states = self._plan, tuple([arena.flat for _, arena in self._every()])
        assert plan.table is not None
        counts = (plan.bump, self._steps, self._spare, self._table.rows)
        flat = Flat(self.masters.flat, gradients.flat, states)
        matrices = [(run, self._planned(run.group)) for run in plan.matrices]
        self.rule.triton(flat, Launch(plan.table, *counts, self.flag, scale, matrices))

    def _planned(self, group: int) -> Any:
        assert self._planned_hypers is not None
        return self._planned_hypers[group]

    def _count(self, hypers: tuple[Any, ...]) -> None:
        """Count an update; the ages themselves are brought up to date when they are read."""
        if self.provider == "triton" and self.flag.is_cpu and self.flag.item():
            return
        self._plan.updates += 1
        self._applied = hypers
        if self._plan.renews:
            self._key = None

    def _settle(self) -> None:
        if not self._plan.updates:
            return
        self._plan.pay(self._steps)
        owned = [frozenset(self.rule.kept(hyper)) for hyper in self._applied]
        for slot in self._plan.advancing:
            self._ages[slot] += self._plan.updates
        for slot, group in self._plan.groups:
            self._used[slot] = self._applied[group]
            self._owned[slot] |= owned[group]
        self._plan.updates = 0
