"""Drawn programs that an engine compiles: every value and every leaf's gradient, beside a graph's.

The program's leaves are parameters, and all its entries are its results, so that each is judged:
the engine shows nothing of a program but what it returns.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from equivalence.budgets.ledger import Ledger
from equivalence.sessions.judge import SessionJudge
from equivalence.sessions.numbers import normal
from equivalence.sessions.pair import Listed
from equivalence.sessions.texts import SQUARE, Step, run
from fast import CompiledSession
from fast.errors import Frozen
from spec.linked import GraphSession

TRAINABLE = (True, False, True)
"""The leaves: one is frozen."""


class CompiledProgram(SessionJudge):
    """A program on a graph of the reference, and compiled by an engine."""

    def __init__(self, program: Sequence[Step], seed: int, engine: str, precision: str) -> None:
        """Draw the leaves, and run both; a scalar is the last entry."""
        self.session = CompiledSession("aten", precision, "cpu", engine=engine)
        super().__init__(self.session.options, engine)
        self.graph = GraphSession()
        self.bound(self.graph)
        data = [self.seen(normal(seed + k, *SQUARE) / 2) for k in range(len(TRAINABLE))]
        self.params = [
            self.session.param(value, requires_grad=trainable)
            for value, trainable in zip(data, TRAINABLE, strict=True)
        ]
        self.leaves = [
            self.graph.input(self.lift(value), requires_grad=trainable)
            for value, trainable in zip(data, TRAINABLE, strict=True)
        ]
        self.program = program
        self.exact: list[Any] = []
        self.found: list[Any] = []
        self.run()

    def run(self) -> None:
        """Run the program on both sides: each draws on from where its last run has left off.

        A step's indices are its own, of which a recording warns.
        """
        self.exact = _entries(self.graph, self.program, self.leaves)

        def entries(ops: Any, *leaves: Any) -> tuple[Any, ...]:
            return tuple(_entries(ops, self.program, leaves))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Frozen)
            self.found = list(self.session.run(entries, self.params, []))

    def judge_values(self) -> None:
        """Judge every entry."""
        for k, (ours, theirs) in enumerate(zip(self.found, self.exact, strict=True)):
            got, due = self.session.value(ours), self.graph.value(theirs)
            if got.is_floating_point():
                self.judge(f"entry {k}", got, due, self.options.compute)

    def judge_gradients(self, k: int, seed: torch.Tensor | None) -> None:
        """Send a seed back from an entry, and judge the gradient of every leaf that takes one."""
        lifted = None if seed is None else self.lift(seed)
        dense = self.graph.backward_dense(self.exact[k], lifted)
        with self.session.backward(self.found[k], seed) as grads:
            for param, leaf in zip(self.params, self.leaves, strict=True):
                if param.requires_grad:
                    got = self.session.grad(grads, param)
                    label = f"gradient of {param.name} from entry {k}"
                    self.judge(label, got, self.graph.grad(dense, leaf), self.options.master)


def _entries(session: Any, program: Sequence[Step], leaves: Sequence[Any]) -> list[Any]:
    """Run a program, and return the refs of everything that it made; a scalar is the last."""
    ops: Any = Listed(session)
    ops.sum(run(program, ops, leaves))
    made: list[Any] = ops.made
    return made


def examine_compiled(
    program: Sequence[Step], seed: int, other: int, engine: str, precision: str
) -> Ledger:
    """Judge a program's values, and its gradients from its last square and from its scalar."""
    both = CompiledProgram(program, seed, engine, precision)
    last = len(both.exact) - 1
    both.judge_gradients(last, None)
    both.judge_values()
    both.run()
    both.judge_gradients(last - 1, both.seen(normal(other, *SQUARE)))
    return both.ledger
