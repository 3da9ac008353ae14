"""What a graph says of a program, against the device tape: planted bugs on either side are found.

`python -m equivalence programs` judges drawn ones; test_examined runs a few rows of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import spec.graph
from equivalence.budgets.violation import Violation
from equivalence.sessions.graphs import examine
from equivalence.sessions.texts import Step
from fast import Session
from spec.graph import Graph
from spec.linked import GraphSession

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


@pytest.mark.holds(
    "Compile the graph into a tape",
    "Gradients of every entry, with a seed or from a scalar loss",
    "Tangents of all leaves, of one leaf, of a scalar loss",
    "The tape's loop on the compiled graph is the graph's own backward pass",
)
@pytest.mark.parametrize(("plant", "spoils"), PLANTED, ids=[p.__name__ for p, _ in PLANTED])
def test_a_planted_bug_is_found(
    plant: Change, spoils: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{spoils}"):
        examine(SHARED, 1, 2)
