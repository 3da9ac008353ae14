"""Lowers a recorded program, the sweep back through it and an update: a flat graph of ATen calls.

The pages' own functions are run on tensors that stand for any numbers, and what they call is
written down. The graph is a function of tensors only: leaves, constants, integer inputs, what the
program read from outside, the random counter as a cell, the cotangents of what it returns, and
rates, decays and powers of an update. Nothing that may change from call to call is left in it as a
number. An update writes gradients, parameters and states where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from fast.compiled.plan import Plan
from fast.optim._rule import Rule
from fast.optim.clip import GUARD
from fast.ref import Entry
from fast.runtime.binding import Bindings
from fast.tape import LEAF, Tape, backward_sparse


@dataclass(frozen=True)
class Signature:
    """What a lowered function takes and returns, all by position.

    Its arguments are the leaves, the constants that the plan made, its integer inputs, what it read
    beside them, the random counter if it draws, and the cotangent of `seeded` unless that is None.
    Its results are those of the program, and then the cotangents of the leaves in `reached`.
    """

    leaves: tuple[bool, ...]
    results: tuple[int, ...]
    constants: tuple[int, ...]
    draws: bool
    seeded: int | None


@dataclass(frozen=True)
class Moves:
    """What a whole step does after both passes.

    `moved` has the leaves that are updated, each with its row of constants; `branches` has each
    row's calls. `normed` says that the norm of their gradients is bounded, `scaled` that they are
    multiplied by a number.
    """

    rule: Rule
    moved: tuple[tuple[int, int], ...]
    branches: tuple[Any, ...]
    states: int
    normed: bool
    scaled: bool


class Contributions:
    """A sink for the cotangents of leaves: it keeps sums, and lends no memory."""

    def __init__(self) -> None:
        """Start with none."""
        self.found: dict[int, Tensor] = {}

    def accumulate(self, leaf: int, cotangent: Tensor) -> None:
        """Keep a contribution, or add it to what is kept."""
        known = self.found.get(leaf)
        self.found[leaf] = cotangent if known is None else known + cotangent

    def places(self, parents: tuple[int, ...], dtype: torch.dtype) -> list[Tensor | None]:
        """Offer no memory."""
        return [None] * len(parents)


def signature(plan: Plan, leaves: Sequence[bool]) -> Signature:
    """Say what a plan's forward pass takes; a leaf is True where its gradient is wanted."""
    out = (plan.out,) if isinstance(plan.out, Entry) else plan.out
    results = tuple(dict.fromkeys(entry.id for entry in out))
    constants = {id(buffer.tensor) for buffer in plan.constants}
    made = tuple(k for k, blank in enumerate(plan.blanks, plan.first) if id(blank) in constants)
    return Signature(tuple(leaves), results, made, plan.draws > 0, None)


def names(plan: Plan, wanted: Signature, integers: int) -> list[str]:
    """Name what `arguments` returns: leaves by their names, other things by their kinds."""
    constants = [f"constant {k}" for k in range(len(wanted.constants))]
    others = [f"integers {k}" for k in range(integers)]
    read = [f"read from outside {k}" for k in range(len(plan.beside))]
    drawn = ["random counter"] if wanted.draws else []
    return [*plan.leaves, *constants, *others, *read, *drawn]


def arguments(
    plan: Plan, wanted: Signature, leaves: Sequence[Tensor], integers: Sequence[Tensor], cell: Any
) -> list[Tensor]:
    """Return what the function takes, but for the cotangent, from what a call has."""
    constants = [plan.blanks[k - plan.first] for k in wanted.constants]
    return [*leaves, *constants, *integers, *plan.read_beside(), *([cell] if wanted.draws else [])]


def function(
    plan: Plan, wanted: Signature, integers: int, bindings: Bindings
) -> tuple[Callable[..., list[Tensor]], list[int]]:
    """Return the function, for a trace, and a list in which a trace leaves the leaves it reached.

    It is to be run on tensors that hold no numbers: it checks nothing.
    """
    reached: list[int] = []

    def lowered(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        leaves = [*islice(rest, len(wanted.leaves))]
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
            tape.rules = [*(LEAF if leaf else None for leaf in wanted.leaves), *rules]
            sink = Contributions()
            backward_sparse(tape, wanted.seeded, next(rest), sink)
            reached.extend(sorted(sink.found))
            found += [sink.found[leaf] for leaf in reached]
        return own(found, given)

    return lowered, reached


def whole(
    passes: Callable[..., list[Tensor]], taken: int, reached: Sequence[int], moves: Moves
) -> Callable[..., list[Tensor]]:
    """Return the function of a whole step, whose passes take so many arguments.

    After those it takes memory for the gradients of the leaves in `reached`, the states of each
    leaf that moves, and one vector: the rows of constants, the largest norm, and the number that
    multiplies gradients.
    """

    def step(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        passed = [*islice(rest, taken)]
        places = [*islice(rest, len(reached))]
        states = [[*islice(rest, moves.states)] for _ in moves.moved]
        *numbers, most, factor = next(rest).unbind()
        found = passes(*passed)
        count = len(found) - len(reached)
        gradients = dict(zip(reached, found[count:], strict=True))
        for place, gradient in zip(places, gradients.values(), strict=True):
            place.copy_(gradient)
        chosen = [gradients[leaf] for leaf, _ in moves.moved]
        if moves.normed:
            factor = _coefficient(chosen, most, factor if moves.scaled else None)
        if moves.normed or moves.scaled:
            chosen = [gradient * factor for gradient in chosen]
        width = len(numbers) // len(moves.branches)
        for (leaf, row), gradient, held in zip(moves.moved, chosen, states, strict=True):
            constants = numbers[row * width : (row + 1) * width]
            update = moves.rule.formula.update
            moved = update(moves.branches[row], passed[leaf], gradient, held, constants)
            for place, new in zip((passed[leaf], *held), moved, strict=True):
                place.copy_(new)
        return found[:count]

    return step


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
