"""Sessions that record a graph, against the device tape: values, cotangents and tangents.

A random program runs in a `GraphSession` on balls and in a session of `fast`; what the graph says
of every entry is a budget for what `fast` computes there. The graph's tangents are judged by the
identity <u, J v> = <J^T u, v>: the left side is the graph's forward mode, the right side the
backward pass of `fast`, multiplied out exactly. `fast` has no forward mode of its own in a session,
so that the rounding of a tangent is not judged by anyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from equivalence.budgets.ledger import Ledger
from equivalence.runs.results import Row, RowResult
from equivalence.twins.examined import CONFIGURATIONS, examine_drawn
from equivalence.twins.programs import numbers
from equivalence.twins.sides import Listed, Sides
from equivalence.twins.texts import PROGRAMS, SQUARE, Step, run
from spec.linked import GraphSession
from spec.op import AnyTensor

TRAINABLE = (True, False, True)
"""The leaves: one may be a constant of the loss, and moves all the same."""

Refs = list[Any]


class Recorded:
    """A program on both sides, with the refs of its entries, its leaves first."""

    def __init__(
        self, program: Sequence[Step], seed: int, provider: str = "aten", precision: str = "fp32"
    ) -> None:
        """Draw the leaves, and run the program on them; a scalar is its last entry."""
        self.graph = GraphSession()
        self.sides = Sides(self.graph, provider, precision)
        self.program = program
        self.data = self.draw(seed, len(TRAINABLE))
        self.fast, self.spec = self._run(self.data)

    def draw(self, seed: int, count: int) -> list[torch.Tensor]:
        """Draw tensors of the shape of all entries."""
        return [self.sides.seen(numbers(seed + k, *SQUARE) / 2) for k in range(count)]

    def _run(self, data: Sequence[torch.Tensor]) -> tuple[Refs, Refs]:
        found = []
        for session, given_as in ((self.sides.fast, lambda x: x), (self.graph, self.sides.lift)):
            ops: Any = Listed(session)
            leaves = [
                session.input(given_as(x), requires_grad=trainable)
                for x, trainable in zip(data, TRAINABLE, strict=True)
            ]
            ops.sum(run(self.program, ops, leaves))
            found.append([*leaves, *ops.made])
        return found[0], found[1]

    def judge_values(self, seed: int) -> None:
        """Judge every entry, and the result again, at other inputs."""
        sides = self.sides
        for k, (ours, theirs) in enumerate(zip(self.fast, self.spec, strict=True)):
            sides.judge(f"entry {k}", sides.fast.value(ours), self.graph.value(theirs))
        data = self.draw(seed, len(self.data))
        exact = self.graph.evaluate(self.spec[-1], [sides.lift(x) for x in data])
        sides.fast.reset_tape()
        sides.fast.random_counter = 0
        leaves = [sides.fast.input(x) for x in data]
        ops: Any = Listed(sides.fast)
        out = ops.sum(run(self.program, ops, leaves))
        sides.judge("at other inputs", sides.fast.value(out), exact)

    def cotangents(self, k: int, seed: torch.Tensor | None) -> list[torch.Tensor]:
        """Send a seed back from entry k on the device tape; return that of every entry."""
        session = self.sides.fast
        with session.backward_dense(self.fast[k], seed) as grads:
            return [session.grad(grads, ref) for ref in self.fast]

    def judge_cotangents(self, k: int, seed: torch.Tensor | None) -> None:
        """Judge the cotangent of every entry: the graph's, and the compiled tape's."""
        got = self.cotangents(k, seed)
        lifted, out = None if seed is None else self.sides.lift(seed), self.spec[k]
        dense = self.graph.backward_dense(out, lifted)
        compiled = self.graph.compile_tape().backward_dense(out.id, lifted)
        for here, (found, ref) in enumerate(zip(got, self.spec, strict=True)):
            label = f"cotangent of entry {here}"
            self.sides.judge(label, found, self.graph.grad(dense, ref))
            self.sides.judge(f"{label} of the compiled tape", found, compiled[ref.id])

    def judge_tangents(self, k: int, seed: torch.Tensor, tangents: list[torch.Tensor]) -> None:
        """Judge the tangent of entry k along all leaves that take a gradient, then along each."""
        got = self.cotangents(k, seed)[: len(TRAINABLE)]
        out = self.spec[k]
        dense = self.graph.backward_dense(out, self.sides.lift(seed))
        allowed = [self.graph.grad(dense, ref) for ref in self.spec[: len(TRAINABLE)]]
        moving = [t if trains else None for t, trains in zip(tangents, TRAINABLE, strict=True)]
        every = self.graph.jvp(out, [None if t is None else self.sides.lift(t) for t in moving])
        self.sides.judge_tangent("tangent", (every, seed), got, allowed, moving)
        for leaf, tangent in enumerate(moving):
            if tangent is None:
                continue
            one = self._along(k, leaf, tangent)
            alone = [tangent if at == leaf else None for at in range(len(moving))]
            self.sides.judge_tangent(f"tangent of {leaf}", (one, seed), got, allowed, alone)

    def _along(self, k: int, leaf: int, tangent: torch.Tensor) -> AnyTensor:
        out = self.spec[k]
        ask = self.graph.jvp_leaf if out.shape else self.graph.jvp_scalar_leaf
        return ask(out, self.spec[leaf], self.sides.lift(tangent))


def examine(
    program: Sequence[Step], seed: int, other: int, provider: str = "aten", precision: str = "fp32"
) -> Ledger:
    """Judge all that a graph says of a program: at its last square, and at the scalar."""
    recorded = Recorded(program, seed, provider, precision)
    inner, last = len(recorded.spec) - 2, len(recorded.spec) - 1
    *tangents, u = recorded.draw(other + 100, len(TRAINABLE) + 1)
    one = recorded.sides.seen(numbers(other + 1))
    recorded.judge_cotangents(inner, u)
    recorded.judge_cotangents(last, None)
    recorded.judge_tangents(inner, u, tangents)
    recorded.judge_tangents(last, one, tangents)
    recorded.judge_values(other)
    return recorded.sides.ledger


ROWS = tuple(Row("drawn", *where) for where in CONFIGURATIONS)


def judged(row: Row, cases: int, number: int, shrink: bool = False) -> RowResult:
    """Judge drawn programs on a graph and on the device tape."""
    seeds = st.integers(0, 2**16)

    def judge(program: Sequence[Step], seed: int, other: int) -> Ledger:
        return examine(program, seed, other, row.direction, row.dtype)

    return examine_drawn(row, judge, (PROGRAMS, seeds, seeds), cases, number, shrink)
