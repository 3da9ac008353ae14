"""Grows programs: each op finds operands among the nodes so far, by their shapes and numbers.

Numbers are computed on the way, so that what is multiplied stays small, a logarithm finds positive
numbers, and a call that would overflow is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import torch
from torch import Tensor

import fast
from equivalence.cases.domains import Domain
from equivalence.cases.families.family import TERM, Picks
from equivalence.cases.families.signatures import Shape, results
from equivalence.sessions.dags.text import Param, Program, Step, is_node, kept
from equivalence.sessions.numbers import normal, whole_numbers
from equivalence.sessions.stateful.operands import Offer, operands
from spec.ops import OPS

LARGEST = 36
"""The most entries of a node: the reference computes each of them in 256 bits."""

ALIVE = 0.8
"""The share of ends that lead to the loss."""

NAMES = [name for name, op in OPS.items() if not op.buffers]
"""The ops that programs are made of: those that find all they read among the nodes."""


class Onto(Offer):
    """An offer in which the first operand that may be a certain node is that node."""

    onto: int | None = None

    def fitting(self, fits: Callable[[Shape], bool], most: float, domain: Domain) -> list[int]:
        """List that node alone where it fits, for one operand."""
        return self._chosen(super().fitting(fits, most, domain))

    def placed(self, fits: Callable[[Shape], bool], extent: int) -> list[Any]:
        """List that node alone where it holds such integers, for one operand."""
        return self._chosen(super().placed(fits, extent))

    def _chosen(self, found: list[int]) -> list[int]:
        if self.onto not in found:
            return found
        onto, self.onto = self.onto, None
        return [onto]


class Growing:
    """A program that grows, and the numbers of its nodes."""

    def __init__(
        self,
        params: Sequence[Param],
        uses: Sequence[int],
        precision: str,
        provider: str = "aten",
    ) -> None:
        """Start with the uses of parameters; all ops are those that a provider can do."""
        self.precision, self.provider = precision, provider
        self.session = fast.Session("aten", precision, "cpu")
        self.params, self.uses = [*params], [*uses]
        self.refs: list[Any] = []
        for k in uses:
            self.refs.append(self.session.input(params[k].value, requires_grad=params[k].trainable))
        self.values: list[Tensor] = [self.session.value(ref) for ref in self.refs]
        self.steps: list[Step] = []
        self.draws = 0

    def grow(self, name: str, picks: Picks, onto: int | None = None) -> int | None:
        """Add a call of an op, and return its node; None where none is found, or no good."""
        step = self.found(name, picks, onto)
        return None if step is None else self.add(step)

    def found(self, name: str, picks: Picks, onto: int | None = None) -> Step | None:
        """Find operands for an op, a certain node among them if one is given."""
        offer = Onto(dict(enumerate(self.values)), (), self.provider, self.precision)
        offer.onto = onto
        found = operands(name, offer, picks, several=True)
        if found is None or (onto is not None and onto not in found[0]):
            return None
        given, attributes = found
        shapes = [self.values[x].shape if is_node(x) else whole_numbers(x).shape for x in given]
        counter = {"counter": 0} if OPS[name].random else {}
        due = results(OPS[name], (tuple(map(tuple, shapes)), {**attributes, **counter}))
        if due is None or max(map(math.prod, due)) > LARGEST:
            return None
        if shapes and not any(map(math.prod, shapes)) and any(map(math.prod, due)):
            return (
                None  # A sum of nothing is an exact 0, of which the reference takes no logarithm.
            )
        lone = OPS[name].results is None
        return Step(name, given, attributes, None if lone else picks[-1] % len(due))

    def add(self, step: Step) -> int | None:
        """Add a step and return its node, or None where its numbers are no good."""
        self.session.random_counter = self.draws
        inputs = (self.refs[x] if is_node(x) else whole_numbers(x) for x in step.operands)
        ref = step.among(self.session.apply(step.op, tuple(inputs), dict(step.attributes)))
        value = self.session.value(ref)
        if value.is_floating_point() and not bool((value.abs() <= TERM).all()):
            return None
        self.draws = self.session.random_counter
        self.refs.append(ref)
        self.values.append(value)
        self.steps.append(step)
        return len(self.refs) - 1

    def own(self, node: int) -> bool:
        """Say whether a node holds numbers in the program's dtype, which a loss may read."""
        return self.values[node].dtype is self.session.options.compute

    def finished(self, heads: Sequence[int], seed: int) -> Program:
        """Weigh the entries of some nodes, add all up, and leave out the uses that nobody reads."""
        count = len(self.uses)
        weights = [
            Param(normal(seed + k, *self.values[h].shape), False) for k, h in enumerate(heads)
        ]
        shift = len(weights)

        def moved(operand: Any) -> Any:
            return operand + shift if is_node(operand) and operand >= count else operand

        steps = [s._replace(operands=tuple(map(moved, s.operands))) for s in self.steps]
        last = None
        size = len(self.values) + shift
        for k, head in enumerate(heads):
            steps.append(Step("mul", (moved(head), count + k), {}))
            steps.append(Step("sum", (size,), {}))
            size += 2
            if last is not None:
                steps.append(Step("add", (last, size - 1), {}))
                size += 1
            last = size - 1
        assert last is not None
        params = (*self.params, *weights)
        uses = (*self.uses, *(len(self.params) + k for k in range(shift)))
        program = Program(params, uses, tuple(steps), last)
        read = {x for step in steps for x in step.nodes}
        nodes = {k for k in range(len(program)) if k >= len(uses) or k in read}
        return kept(program, nodes, last)


def pool(extents: Sequence[int], ranks: int, seed: int, dtype: torch.dtype) -> list[Param]:
    """Draw two parameters of every shape of some extents: a third positive, a third not.

    One in five is frozen.
    """
    shapes = [shape for rank in range(ranks + 1) for shape in product(extents, repeat=rank)]
    small = [shape for shape in shapes if math.prod(shape) <= LARGEST]
    found: list[Param] = []
    for copy, shape in product(range(2), small):
        k = len(found) + copy
        value = normal(seed + k, *shape) / 2
        if k % 3 == 2:
            value = value.abs() * 1.5 + 0.25
        elif k % 3 == 1:
            value = -value.abs() - 0.125
        found.append(Param(value.to(dtype), k % 5 != 4))
    return found


def drawn(random: Random, nodes: int, precision: str, provider: str = "aten") -> Program:
    """Draw a program of up to so many nodes that compute, without those of its loss."""
    extents = sorted(random.sample(range(1, 6), 2))
    seed = random.randrange(2**16)
    dtype = fast.Session("aten", precision, "cpu").options.compute
    params = pool(extents, 3, seed, dtype)
    # Some parameters are used twice.
    again = random.sample(range(len(params)), min(3, len(params)))
    growing = Growing(params, [*range(len(params)), *again], precision, provider)
    first = len(growing.refs)
    wanted, tries = random.randint(1, nodes), 0
    while len(growing.refs) < first + wanted and tries < 20 * nodes:
        tries += 1
        name = random.choice(NAMES)
        growing.grow(name, (_pick(random), _pick(random), _pick(random)))
    heads = [k for k in range(first, len(growing.refs)) if growing.own(k)]
    if not heads:
        return drawn(random, nodes, precision, provider)
    read = {k for step in growing.steps for k in step.nodes}
    # Most ends lead to the loss, the others are dead branches; and so does a node amid a program.
    ends = [k for k in heads if k not in read and random.random() < ALIVE]
    return growing.finished(sorted({*ends, random.choice(heads)}), seed)


def _pick(random: Random) -> int:
    """Pick one of the latest nodes in half of all cases, so that programs grow deep."""
    return random.choice((random.randrange(3), random.randrange(256)))
