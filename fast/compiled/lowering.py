"""Lowers a recorded program, the sweep back through it and an update: a flat graph of ATen calls.

The pages' own functions are run on tensors that stand for any numbers, and what they call is
written down. The graph is a function of tensors only: leaves, constants, integer inputs, what the
program read from outside, the random counter as a cell, the cotangents of what it returns, and
rates, decays and powers of an update. Nothing that may change from call to call is left in it as a
number. An update writes gradients, parameters and states where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from fast.compiled.recorded.plan import Plan
from fast.optim._rule import Rule
from fast.optim.clip import GUARD
from fast.ref import Entry
from fast.runtime.binding import Bindings
from fast.tape import LEAF, Tape, backward_sparse

T = TypeVar("T")


@dataclass(frozen=True)
class Signature:
    """What a lowered function takes and returns, all by position.

    Its arguments are the leaves, the constants that the plan made, its integer inputs, what it read
    beside them, the random counter if it draws, and the cotangent of `seeded` unless that is None.
    Its results are those of the program, what named buffers hold afterwards, and the cotangents of
    the leaves in `reached`.

    `leaves` has the dtype in which a leaf's gradient is added up, None where nobody wants it.
    `first` has the first leaf that reads the same memory: a parameter that is handed in for two
    arguments of a program is one argument here, since what an artifact writes may lie nowhere else.
    """

    leaves: tuple[torch.dtype | None, ...]
    first: tuple[int, ...]
    results: tuple[int, ...]
    constants: tuple[int, ...]
    draws: bool
    seeded: int | None


class Place(NamedTuple):
    """Memory for a gradient: the leaf that the pass reaches, if any, and whether it holds a sum."""

    leaf: int | None
    kept: bool


class Moved(NamedTuple):
    """A parameter that is updated.

    It lies in that `argument` of the passes, or, where that is None, in memory beside them, as
    masters do. Its gradient is what is in that of the places, if any, and what `further` leaves
    get. `row` is that of its constants.
    """

    argument: int | None
    place: int | None
    further: tuple[int, ...]
    row: int


@dataclass(frozen=True)
class Moves:
    """What a whole step does after both passes.

    `branches` has each row's calls, and `kept` names the states that some row keeps. `normed` says
    that the norm of the gradients is bounded, `scaled` that they are multiplied by a number.
    """

    rule: Rule
    moved: tuple[Moved, ...]
    branches: tuple[Any, ...]
    kept: tuple[str, ...]
    normed: bool
    scaled: bool


class Contributions:
    """A sink for the cotangents of leaves: it keeps sums, and lends no memory."""

    def __init__(self, dtypes: Sequence[torch.dtype | None]) -> None:
        """Start with none; each leaf's are added up in its dtype."""
        self.found: dict[int, Tensor] = {}
        self._dtypes = dtypes

    def accumulate(self, leaf: int, cotangent: Tensor) -> None:
        """Keep a contribution, or add it to what is kept."""
        known, dtype = self.found.get(leaf), self._dtypes[leaf]
        assert dtype is not None
        wide = cotangent.to(dtype)
        self.found[leaf] = wide if known is None else known + wide

    def places(self, parents: tuple[int, ...], dtype: torch.dtype) -> list[Tensor | None]:
        """Offer no memory."""
        return [None] * len(parents)


def signature(plan: Plan, leaves: Sequence[torch.dtype | None], first: Sequence[int]) -> Signature:
    """Say what a plan's forward pass takes, given what `Signature` has of its leaves."""
    out = (plan.out,) if isinstance(plan.out, Entry) else plan.out
    results = (*dict.fromkeys(entry.id for entry in out), *plan.moved)
    constants = {id(buffer.tensor) for buffer in plan.constants}
    made = tuple(k for k, blank in enumerate(plan.blanks, plan.first) if id(blank) in constants)
    return Signature(tuple(leaves), tuple(first), results, made, plan.draws > 0, None)


def names(plan: Plan, wanted: Signature, integers: int) -> list[str]:
    """Name what the function takes but for the cotangent: leaves as they are called, and kinds."""
    constants = [f"constant {k}" for k in range(len(wanted.constants))]
    others = [f"integers {k}" for k in range(integers)]
    read = [f"read from outside {k}" for k in range(len(plan.beside))]
    drawn = ["random counter"] if wanted.draws else []
    return [*own_leaves(wanted, plan.leaves), *constants, *others, *read, *drawn]


def own_leaves(wanted: Signature, leaves: Sequence[T]) -> list[T]:
    """Return those of something by leaf whose leaves are arguments, in order."""
    return [x for k, (x, first) in enumerate(zip(leaves, wanted.first, strict=False)) if k == first]


def function(
    plan: Plan, wanted: Signature, integers: int, bindings: Bindings
) -> tuple[Callable[..., list[Tensor]], list[int]]:
    """Return the function, for a trace, and a list in which a trace leaves the leaves it reached.

    It is to be run on tensors that hold no numbers: it checks nothing.
    """
    reached: list[int] = []

    def lowered(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        leaves: list[Tensor] = []
        for k, first in enumerate(wanted.first):
            leaves.append(next(rest) if first == k else leaves[first])
        blanks = list(plan.blanks)
        for k in wanted.constants:
            blanks[k - plan.first] = next(rest)
        table = [*leaves, *blanks, *islice(rest, integers + len(plan.beside))]
        rules: list[tuple[Any, ...] | None] = [None] * len(blanks)
        before = bindings.next_call
        bindings.next_call = next(rest) if wanted.draws else before
        try:
            plan.run(table, rules, bindings, checked=False)
        finally:
            bindings.next_call = before
        found = [table[k] for k in wanted.results]
        reached.clear()
        if wanted.seeded is not None:
            tape = Tape()
            tape.values = table[: plan.first + len(blanks)]
            tape.rules = [*(LEAF if dtype else None for dtype in wanted.leaves), *rules]
            sink = Contributions(wanted.leaves)
            backward_sparse(tape, wanted.seeded, next(rest), sink)
            reached.extend(sorted(sink.found))
            found += [sink.found[leaf] for leaf in reached]
        return own(found, given)

    return lowered, reached


def whole(
    passes: Callable[..., list[Tensor]],
    taken: int,
    reached: Sequence[int],
    places: Sequence[Place],
    further: Sequence[int],
    moves: Moves | None,
) -> Callable[..., list[Tensor]]:
    """Return the function of both passes, whose gradients lie in places, and of an update if any.

    After what the passes take, so many tensors, it takes memory for the gradients. For an update it
    takes the parameters that the passes do not, the states of each parameter, and one vector: the
    rows of constants, the largest norm, and the number that multiplies gradients. It returns the
    program's results, and the gradients of further leaves, which have no place.
    """

    def step(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        passed = [*islice(rest, taken)]
        memory = [*islice(rest, len(places))]
        found = passes(*passed)
        count = len(found) - len(reached)
        by_leaf = dict(zip(reached, found[count:], strict=True))
        sums = [_summed(by_leaf, *place) for place in zip(places, memory, strict=True)]
        for (leaf, _), lent, gradient in zip(places, memory, sums, strict=True):
            if leaf is not None:
                lent.copy_(gradient)
        if moves is not None:
            _update(moves, passed, sums, by_leaf, rest)
        return [*found[:count], *(by_leaf[leaf] for leaf in further)]

    return step


def _summed(by_leaf: dict[int, Tensor], place: Place, lent: Tensor) -> Tensor:
    """Return the gradient that a place has after a pass."""
    if place.leaf is None:
        return lent
    gradient = by_leaf[place.leaf]
    return lent + gradient if place.kept else gradient


def _update(
    moves: Moves, passed: list[Tensor], sums: list[Tensor], by_leaf: dict[int, Tensor],
    rest: Iterator[Tensor],
) -> None:  # fmt: skip
    """Write parameters and states, where `rest` has what a step takes beside the passes."""
    values = [next(rest) if m.argument is None else passed[m.argument] for m in moves.moved]
    states = [dict(zip(moves.kept, rest, strict=False)) for _ in moves.moved]
    *numbers, most, factor = next(rest).unbind()
    chosen = []
    for (_, place, further, _), value in zip(moves.moved, values, strict=True):
        parts = [by_leaf[leaf].to(value.dtype) for leaf in further]
        chosen.append(reduce(torch.add, parts if place is None else [sums[place], *parts]))
    if moves.normed:
        factor = _coefficient(chosen, most, factor if moves.scaled else None)
    if moves.normed or moves.scaled:
        chosen = [gradient * factor for gradient in chosen]
    width = len(numbers) // len(moves.branches)
    for (*_, row), value, gradient, held in zip(moves.moved, values, chosen, states, strict=True):
        constants = numbers[row * width : (row + 1) * width]
        old = [held.get(name) for name in moves.rule.states]
        moved = moves.rule.formula.update(moves.branches[row], value, gradient, old, constants)
        for place, new in zip((value, *old), moved, strict=True):
            if place is not None and new is not None:
                place.copy_(new)


def _coefficient(gradients: list[Tensor], most: Tensor, factor: Tensor | None) -> Tensor:
    """Return what gradients are multiplied by, as fast.optim.clip does, `factor` included."""
    scaled = gradients if factor is None else [gradient * factor for gradient in gradients]
    norm = torch.stack([(gradient * gradient).sum() for gradient in scaled]).sum().sqrt()
    share = (most / (norm + GUARD)).clamp(max=1.0)
    return share if factor is None else share * factor


def own(results: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """Copy what shares memory with an argument or another result: a caller writes to neither."""
    taken = {tensor.untyped_storage()._cdata for tensor in given}
    found = []
    for tensor in results:
        key = tensor.untyped_storage()._cdata
        found.append(tensor.clone() if key in taken else tensor)
        taken.add(key)
    return found


def cell(counter: int) -> Tensor:
    """Return a random counter as data: a scalar of int64 with the same 64 bits."""
    return torch.tensor(counter - 2**64 if counter >= 2**63 else counter)
