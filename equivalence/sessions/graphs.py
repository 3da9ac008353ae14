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

import flint
import torch

from equivalence.budgets.ledger import Ledger
from equivalence.sessions.judge import Judge
from equivalence.sessions.numbers import normal
from equivalence.sessions.pair import Listed, SessionPair
from equivalence.sessions.texts import SQUARE, Step, run
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import Arb
from equivalence.worlds.bounded import Bounded, constant, within
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
        self.pair = SessionPair(self.graph, provider, precision)
        self.program = program
        self.data = self.draw(seed, len(TRAINABLE))
        self.fast, self.spec = self._run(self.data)

    def draw(self, seed: int, count: int) -> list[torch.Tensor]:
        """Draw tensors of the shape of all entries."""
        return [self.pair.seen(normal(seed + k, *SQUARE) / 2) for k in range(count)]

    def _run(self, data: Sequence[torch.Tensor]) -> tuple[Refs, Refs]:
        found = []
        for session, given_as in ((self.pair.fast, lambda x: x), (self.graph, self.pair.lift)):
            ops: Any = Listed(session)
            leaves = [
                session.input(given_as(x), requires_grad=trainable)
                for x, trainable in zip(data, TRAINABLE, strict=True)
            ]
            ops.sum(run(self.program, ops, leaves))
            found.append([*leaves, *ops.made])
        return found[0], found[1]

    def _judge(self, label: str, got: torch.Tensor, exact: AnyTensor) -> None:
        self.pair.judge(label, got, exact, self.pair.options.compute)

    def judge_values(self, seed: int) -> None:
        """Judge every entry, and the result again, at other inputs."""
        pair = self.pair
        for k, (ours, theirs) in enumerate(zip(self.fast, self.spec, strict=True)):
            self._judge(f"entry {k}", pair.fast.value(ours), self.graph.value(theirs))
        data = self.draw(seed, len(self.data))
        exact = self.graph.evaluate(self.spec[-1], [pair.lift(x) for x in data])
        pair.fast.reset_tape()
        pair.fast.random_counter = 0
        leaves = [pair.fast.input(x) for x in data]
        ops: Any = Listed(pair.fast)
        out = ops.sum(run(self.program, ops, leaves))
        self._judge("at other inputs", pair.fast.value(out), exact)

    def cotangents(self, k: int, seed: torch.Tensor | None) -> list[torch.Tensor]:
        """Send a seed back from entry k on the device tape; return that of every entry."""
        session = self.pair.fast
        with session.backward_dense(self.fast[k], seed) as grads:
            return [session.grad(grads, ref) for ref in self.fast]

    def judge_cotangents(self, k: int, seed: torch.Tensor | None) -> None:
        """Judge the cotangent of every entry: the graph's, and the compiled tape's."""
        got = self.cotangents(k, seed)
        lifted, out = None if seed is None else self.pair.lift(seed), self.spec[k]
        dense = self.graph.backward_dense(out, lifted)
        compiled = self.graph.compile_tape().backward_dense(out.id, lifted)
        for here, (found, ref) in enumerate(zip(got, self.spec, strict=True)):
            label = f"cotangent of entry {here}"
            self._judge(label, found, self.graph.grad(dense, ref))
            self._judge(f"{label} of the compiled tape", found, compiled[ref.id])

    def judge_tangents(self, k: int, seed: torch.Tensor, tangents: list[torch.Tensor]) -> None:
        """Judge the tangent of entry k along all leaves that take a gradient, then along each."""
        got = self.cotangents(k, seed)[: len(TRAINABLE)]
        out = self.spec[k]
        dense = self.graph.backward_dense(out, self.pair.lift(seed))
        allowed = [self.graph.grad(dense, ref) for ref in self.spec[: len(TRAINABLE)]]
        moving = [t if trains else None for t, trains in zip(tangents, TRAINABLE, strict=True)]
        every = self.graph.jvp(out, [None if t is None else self.pair.lift(t) for t in moving])
        judge_tangent(self.pair, "tangent", (every, seed), got, allowed, moving)
        for leaf, tangent in enumerate(moving):
            if tangent is None:
                continue
            one = self._along(k, leaf, tangent)
            alone = [tangent if at == leaf else None for at in range(len(moving))]
            judge_tangent(self.pair, f"tangent of {leaf}", (one, seed), got, allowed, alone)

    def _along(self, k: int, leaf: int, tangent: torch.Tensor) -> AnyTensor:
        out = self.spec[k]
        ask = self.graph.jvp_leaf if out.shape else self.graph.jvp_scalar_leaf
        return ask(out, self.spec[leaf], self.pair.lift(tangent))


def judge_tangent(
    judge: Judge,
    label: str,
    along: tuple[AnyTensor, torch.Tensor],
    gradients: Sequence[torch.Tensor],
    allowed: Sequence[AnyTensor],
    directions: Sequence[torch.Tensor | None],
) -> None:
    """Judge gradients by a tangent: <u, J v> = <J^T u, v>.

    `along` is J v, found by forward mode, and the seed u. The left side is exact. The right side is
    the backend's, multiplied out exactly, so its error is that of the gradients: a contract allows
    what it allows of each of them, times v, added up.
    """
    arithmetic, zero = judge.arithmetic, flint.arb(0)
    left: Arb = sum((x.v * u for x, u in _beside(arithmetic, *along)), zero)
    right: Arb = zero
    ball: Arb = zero
    value: Arb = zero
    for gradient, due, direction in zip(gradients, allowed, directions, strict=True):
        if direction is None:
            continue
        for x, v in _beside(arithmetic, due, direction):
            ball, value = ball + x.ball * v, value + x.v * v
        for z, v in zip(_floats(gradient), _floats(direction), strict=True):
            right += flint.arb(z) * v
    if not (left.is_finite() and value.is_finite()):
        # Numbers that are equal, but not exactly known, may tie or not: there is no derivative.
        judge.ledger.unconstrained += 1
        return
    judge.ledger.judge_number(f"{label}: transposed", value, within(left, left, arithmetic))
    judge.ledger.judge_number(label, right, within(left, ball, arithmetic))


def _beside(
    arithmetic: Arithmetic, exact: AnyTensor, value: torch.Tensor
) -> list[tuple[Bounded, Arb]]:
    lifted = [x if isinstance(x, Bounded) else constant(arithmetic, x) for x in exact.data]
    return list(zip(lifted, map(flint.arb, _floats(value)), strict=True))


def _floats(value: torch.Tensor) -> list[float]:
    found: list[float] = value.double().reshape(-1).tolist()
    return found


def examine(
    program: Sequence[Step], seed: int, other: int, provider: str = "aten", precision: str = "fp32"
) -> Ledger:
    """Judge all that a graph says of a program: at its last square, and at the scalar."""
    recorded = Recorded(program, seed, provider, precision)
    inner, last = len(recorded.spec) - 2, len(recorded.spec) - 1
    *tangents, u = recorded.draw(other + 100, len(TRAINABLE) + 1)
    one = recorded.pair.seen(normal(other + 1))
    recorded.judge_cotangents(inner, u)
    recorded.judge_cotangents(last, None)
    recorded.judge_tangents(inner, u, tangents)
    recorded.judge_tangents(last, one, tangents)
    recorded.judge_values(other)
    return recorded.pair.ledger
