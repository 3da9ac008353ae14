"""Sessions that record a graph, against the device tape: values, cotangents and tangents.

A random program runs in a `GraphSession` on balls and in a session of `fast`; what the graph says
of every entry is a budget for what `fast` computes there. The graph's tangents are judged by the
identity <u, J v> = <J^T u, v>: the left side is the graph's forward mode, the right side the
backward pass of `fast`, multiplied out exactly. `fast` has no forward mode of its own in a session,
so that the rounding of a tangent is not judged by anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import spec.graph
from equivalence.budgets.ledger import Ledger
from equivalence.budgets.violation import Violation
from equivalence.twins.programs import numbers
from equivalence.twins.sides import Listed, Sides
from fast import Session
from spec.graph import Graph
from spec.linked import GraphSession
from spec.op import AnyTensor
from tests.spec.programs import PROGRAMS, SQUARE, Step, run

CONFIGURATIONS = [("aten", "fp32"), ("aten", "bf16"), ("triton", "fp32"), ("triton", "bf16")]
EXAMPLES = {"aten": 60, "triton": 5}
"""How many programs are drawn; Triton's interpreter takes a hundred times as long for one."""

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


@pytest.mark.parametrize(("provider", "precision"), CONFIGURATIONS)
def test_what_a_graph_says_is_what_a_tape_computes(provider: str, precision: str) -> None:
    judged = unconstrained = 0

    @settings(max_examples=EXAMPLES[provider])
    @given(PROGRAMS, st.integers(0, 2**16), st.integers(0, 2**16))
    def check(program: Sequence[Step], seed: int, other: int) -> None:
        nonlocal judged, unconstrained
        ledger = examine(program, seed, other, provider, precision)
        judged, unconstrained = judged + ledger.judged, unconstrained + ledger.unconstrained

    check()
    assert judged > 10 * unconstrained


SHARED: list[Step] = [("mul", 0, 2), ("mul", 0, 2), ("matmul", 0, 1)]
"""The product of two leaves, which is read twice afterwards; a constant of the loss joins in."""


def test_a_program_that_shares_is_right() -> None:
    assert examine(SHARED, 1, 2).judged


Change = Callable[[pytest.MonkeyPatch], None]


def constant_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    jvp = Graph.jvp

    def moving(self: Any, inputs: Any, tangents: Any) -> Any:
        return jvp(self, inputs, [inputs[0] if t is None else t for t in tangents])

    monkeypatch.setattr(Graph, "jvp", moving)


def one_tangent(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed = spec.graph._pushed

    def first(entry: Any, values: Any, moved: Any) -> Any:
        known = [p for p in entry.parents if p in moved][:1]
        return pushed(entry, values, {p: moved[p] for p in known})

    monkeypatch.setattr(spec.graph, "_pushed", first)


def one_contribution(monkeypatch: pytest.MonkeyPatch) -> None:
    handed_back = Graph._handed_back

    def first(self: Any, id: int, handed: Any) -> Any:
        yield from list(handed_back(self, id, handed))[:1]

    monkeypatch.setattr(Graph, "_handed_back", first)


def tape_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_tape = Graph.compile_tape

    def shorter(self: Any, inputs: Any, observer: Any = None) -> Any:
        return compile_tape(self, [inputs[0], *inputs[:-1]], observer)

    monkeypatch.setattr(Graph, "compile_tape", shorter)


def inputs_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        GraphSession,
        "evaluate",
        lambda self, out, inputs=None: self.graph.evaluate(self.tape.inputs)[out.id],
    )


def seed_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = Session.backward_dense

    def by_ones(self: Any, ref: Any, seed: Any = None) -> Any:
        return dense(self, ref, None if seed is None else torch.ones_like(seed))

    monkeypatch.setattr(Session, "backward_dense", by_ones)


PLANTED: list[tuple[Change, str]] = [
    (constant_moves, "tangent: transposed"),
    (one_tangent, "tangent: transposed"),
    (one_contribution, r"cotangent of entry \d: element"),
    (tape_forgets, r"cotangent of entry \d of the compiled tape"),
    (inputs_ignored, "at other inputs"),
    (seed_ignored, r"cotangent of entry \d: element"),
]
"""Bugs, in the graph or on the device tape, and the first thing that each of them spoils."""


@pytest.mark.parametrize(("plant", "spoils"), PLANTED, ids=[p.__name__ for p, _ in PLANTED])
def test_a_planted_bug_is_found(
    plant: Change, spoils: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{spoils}"):
        examine(SHARED, 1, 2)
