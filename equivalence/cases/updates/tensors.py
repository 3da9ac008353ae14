"""The tensors of an optimizer's case: parameters, gradients, states that are loaded or written.

A long tensor repeats its first numbers with a period that no block has, so that it holds few
distinct ones: who judges it computes each of them once, and looks at every element.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any

import torch

from equivalence.cases.built import Numbers
from equivalence.cases.call import TORCH, Recipe, Shape
from equivalence.cases.fills.entries import source
from equivalence.cases.fills.regimes import fill
from equivalence.cases.fills.turns import BY_TURNS, SPOTS, special, spot
from equivalence.cases.guard import Guarded, core_shape, guard
from equivalence.cases.updates.spec import Event, UpdateSpec
from equivalence.dtypes import DTYPES
from equivalence.registry import OPTIMIZERS

PERIOD = 31
"""How many numbers a long tensor has before it repeats them: a prime, and no part of a block."""

LONG = 4 * PERIOD
"""A tensor with more elements is long."""

ROUND = 7
"""How many steps have gradients of their own, where there are many; then they come round again."""

Named = tuple[str, Guarded]


def long(elements: int) -> bool:
    """Say whether a tensor of so many elements repeats its numbers."""
    return elements > LONG


def marks(elements: int) -> list[int]:
    """Return positions in a long tensor at which a mistake of blocks shows.

    They are both sides of the first, the second and the last boundary of blocks of each power of
    two, the ends, and one position in each sixteenth.
    """
    found = {0, 1, elements - 2, elements - 1}
    found |= {(2 * k + 1) * elements // 32 for k in range(16)}
    block = 64
    while block < elements:
        ends = (block, 2 * block, elements // block * block)
        found |= {k for end in ends for k in (end - 1, end) if k < elements}
        block *= 2
    return sorted(found)


def build_parameters(case: UpdateSpec, device: str, numbers: Numbers | None = None) -> list[Named]:
    """Construct the parameters before the first step, by their positions."""
    return [
        _placed(case, turned(case.parameters, k), f"parameter {k}", shape, device, numbers)
        for k, shape in enumerate(case.shapes)
    ]


def turned(recipe: Recipe, turns: int) -> Recipe:
    """Return the recipe of a tensor by its number: a regime of turns goes on from tensor to tensor.

    So the parameters of a case have every kind of special number at every spot.
    """
    return replace(recipe, seed=recipe.seed + turns) if recipe.regime in BY_TURNS else recipe


def _placed(
    case: UpdateSpec,
    recipe: Recipe,
    where: str,
    shape: Shape,
    device: str,
    numbers: Numbers | None,
    positive: bool = False,
) -> Named:
    values = _drawn(case, recipe, where, shape) if numbers is None else numbers[where]
    if positive:
        values = list(map(abs, values))
    return where, guard(values, shape, TORCH[case.dtype], recipe.layout, device)


def _drawn(case: UpdateSpec, recipe: Recipe, where: str, shape: Shape) -> list[float]:
    """Draw the numbers of a tensor, as many as its layout stores.

    A regime of turns takes all of a tensor for one row: an optimizer reads no axes.
    """
    stored, reach = core_shape(shape, recipe.layout), DTYPES[case.dtype].reach
    count = math.prod(stored)
    if recipe.regime in BY_TURNS:
        row = _drawn(case, replace(recipe, regime="normal"), where, shape)
        if row:
            BY_TURNS[recipe.regime](source(recipe.seed, where), recipe.seed, row, reach)
        return row
    if not long(count):
        return fill(recipe.regime, recipe.seed, where, stored, reach)
    once = fill(recipe.regime, recipe.seed, where, (PERIOD,), reach)
    return list(islice(cycle(once), count))


@dataclass(slots=True)
class Gradients:
    """The gradients of a case, step by step, in the tensors that its handing asks for."""

    case: UpdateSpec
    device: str
    numbers: Numbers | None = None
    held: dict[int, Guarded] = field(default_factory=dict[int, Guarded])
    drawn: dict[tuple[int, int], list[float]] = field(default_factory=dict[Any, Any])

    def at(self, step: int) -> list[tuple[str, Guarded | None]]:
        """Construct those of one step; None where a parameter gets none.

        Where the same tensors are handed again, what an earlier step had of them is overwritten.
        """
        case, made = self.case, dict[int, Guarded]()
        found: list[tuple[str, Guarded | None]] = []
        for k, shape in enumerate(case.shapes):
            where = f"gradient {k} at step {step}"
            owner = case.shapes.index(shape) if case.handing == "shared" else k
            if (step, k) in case.missing:
                found.append((where, None))
                continue
            if owner not in made:
                made[owner] = self._made(step, k, owner, where)
            found.append((where, made[owner]))
        if case.handing == "reused":
            self.held |= made
        return found

    def _made(self, step: int, k: int, owner: int, where: str) -> Guarded:
        case, recipe, shape = self.case, self.case.gradients, self.case.shapes[k]
        values = self.numbers[where] if self.numbers is not None else self._values(step, k, owner)
        held = self.held.get(owner)
        if held is None:
            return guard(values, shape, TORCH[case.dtype], recipe.layout, self.device)
        return refilled(held, values)

    def _values(self, step: int, k: int, owner: int) -> Sequence[float]:
        """Draw a gradient's numbers: zeros, if it has none, and nothing finite where it is spoiled.

        Where a norm is clipped, a long gradient has few entries that are not 0, as whoever judges
        the norm adds up all of them.
        """
        case, recipe, shape = self.case, self.case.gradients, self.case.shapes[k]
        drawn_at = step % ROUND if case.steps > ROUND else step
        if (owner, drawn_at) not in self.drawn:
            where = f"gradient {owner} at step {drawn_at}"
            self.drawn[owner, drawn_at] = _drawn(case, turned(recipe, owner), where, shape)
        drawn = self.drawn[owner, drawn_at]
        if (step, k) in case.zeroed:
            return [0.0] * len(drawn)
        if case.limits(k, step).max_norm is not None and long(len(drawn)):
            sparse = [0.0] * len(drawn)
            for n in marks(len(drawn)):
                sparse[n] = drawn[n]
            drawn = sparse
        for at, parameter, what in case.spoiled:
            if (at, parameter) == (step, k):
                drawn = _spoiled(case, drawn, what)
        return drawn


def _spoiled(case: UpdateSpec, drawn: Sequence[float], what: str) -> list[float]:
    """Return the numbers with one of a kind at a place, the first if none is told."""
    kind, _, place = what.partition(" ")
    found, at = list(drawn), spot(place or SPOTS[0], len(drawn))
    found[at] = special(kind, source(at, what), DTYPES[case.dtype].reach)
    return found


def build_gradients(
    case: UpdateSpec, step: int, device: str, numbers: Numbers | None = None
) -> list[tuple[str, Guarded | None]]:
    """Construct the gradients of one step alone; None where a parameter gets none."""
    return Gradients(case, device, numbers).at(step)


def refilled(held: Guarded, values: Sequence[float]) -> Guarded:
    """Put other numbers into a guarded tensor, which stays the same tensor."""
    core = held.base.as_strided(held.stored, held.placement.strides, held.placement.offset)
    core.copy_(torch.tensor(list(values), dtype=torch.float64).reshape(held.stored))
    return replace(held, before=held.base.view(torch.uint8).clone())


def build_written(case: UpdateSpec, event: Event, device: str) -> dict[int, Named]:
    """Construct the numbers that parameters get from outside, by the parameters' positions."""
    return {
        k: _placed(case, turned(event.recipe, k), f"parameter {k} as written", shape, device, None)
        for k, shape in enumerate(case.shapes)
        if k % 2 == 0
    }


def build_state(
    case: UpdateSpec, event: Event, device: str, held: Collection[str] = ()
) -> Mapping[str, list[Guarded]]:
    """Construct moments for every parameter, by the fields of a state; squares are not below 0.

    A moment that no parameter keeps by its settings is among them where it is held nevertheless.
    Where numbers stand by turns, each moment of a parameter has another turn.
    """
    page, found = OPTIMIZERS[case.optimizer], dict[str, list[Guarded]]()
    settings = {tuple(case.hyper_parameters(k).items()) for k in range(len(case.shapes))}
    kept = {moment for hyper in settings for moment in page.kept(dict(hyper))}
    for turn, moment in enumerate(page.moments):
        if page.may_lack(moment) and kept and moment not in kept | {*held}:
            continue
        found[moment] = []
        for k, shape in enumerate(case.shapes):
            recipe, where = turned(event.recipe, turn + k), f"{moment} {k}"
            squares = moment in page.squares
            found[moment].append(_placed(case, recipe, where, shape, device, None, squares)[1])
    return found
