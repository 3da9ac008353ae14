"""The tape's loop on a compiled graph computes the graph's backprop: exactly, on random programs.

Seeds are given over the whole context, leaves may be frozen, programs fan out, detach and draw.
proofs_notes/tape_equals_graph.md derives what is tried here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from equivalence.cases.domains import NoFraction
from equivalence.cases.probes import NUMBERS
from equivalence.sessions.drawn import PROGRAMS
from equivalence.sessions.texts import Step, run
from equivalence.trials.laws import inner, parts
from equivalence.worlds.opaque import opaque
from spec import graph as graph_chapter
from spec.dual import Dual
from spec.graph import Graph
from spec.linked import GraphSession
from spec.op import AnyTensor, zeros_like
from spec.session import Session
from spec.shape import size
from spec.show import program
from spec.tape import Tape
from spec.tensor import Tensor, zip_map
from tests.spec.programs import SQUARES, AtOnce
from tests.turns import in_turns

pytestmark = pytest.mark.slow

EXAMPLES = max(300, settings.default.max_examples if settings.default else 0)
"""A few hundred programs; `--hypothesis-profile thorough` asks for 5,000."""


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque while this module runs."""
    with opaque():
        yield


@dataclass(frozen=True)
class Case:
    """A program with inputs, tangents for them, and seeds for some entries of its context."""

    program: Sequence[Step]
    inputs: Sequence[AnyTensor]
    trainable: Sequence[bool]
    tangents: Sequence[AnyTensor | None]
    seeded: Sequence[int]
    numbers: Sequence[Fraction]

    def recorded(self, session: Any) -> Any:
        """Run the program in a session; return the ref of its last node."""
        session.like = Fraction(0)
        pairs = zip(self.inputs, self.trainable, strict=True)
        return run(self.program, session, [session.input(x, None, flag) for x, flag in pairs])

    @property
    def graph(self) -> Graph:
        """The graph of the program."""
        session = GraphSession()
        self.recorded(session)
        return session.graph

    def seeds(self, graph: Graph) -> dict[int, AnyTensor]:
        """Fill a seed for the last entry, and for some others, with the case's numbers."""
        ids = {len(graph) - 1, *(k % len(graph) for k in self.seeded)}
        return {id: self._seed(id, graph.entry(id).type.shape) for id in sorted(ids)}

    def _seed(self, id: int, shape: tuple[int, ...]) -> AnyTensor:
        count = len(self.numbers)
        return Tensor(shape, [self.numbers[(id + k) % count] for k in range(size(shape))])


TWO = st.tuples(SQUARES, SQUARES)

CASES = st.builds(
    Case,
    program=PROGRAMS,
    inputs=TWO,
    trainable=st.sampled_from([(True, True), (True, False), (False, True)]),
    tangents=st.tuples(SQUARES, st.one_of(SQUARES, st.none())),
    seeded=st.lists(st.integers(0, 20), max_size=3),
    numbers=st.lists(NUMBERS, min_size=5, max_size=5),
)


def tape_equals_graph(case: Case) -> None:
    """Cotangents of the whole context, and which of them were reached, are the same."""
    graph = case.graph
    tape, seeds = graph.compile_tape(case.inputs), case.seeds(graph)
    assert [tape.value(id) for id in range(len(tape))] == graph.evaluate(case.inputs)
    loop, stated = tape.backward_from(seeds), graph.backprop_all(case.inputs, seeds)
    assert loop == stated, "the tape's loop arrives elsewhere"
    assert loop.reached == stated.reached, "the tape's loop reaches other entries"
    assert graph.backprop(case.inputs, seeds) == [stated[id] for id in graph.leaves]


def eager_equals_graph(case: Case) -> None:
    """Both sessions record the same entries, with the same values and cotangents."""
    eager, linked = Session(), GraphSession()
    first, second = case.recorded(eager), case.recorded(linked)
    assert first.id == second.id and len(eager.tape) == len(linked.tape)
    for id in range(len(eager.tape)):
        assert eager.tape.value(id) == linked.tape.value(id)
    seed = case.seeds(linked.graph)[second.id]
    assert eager.backward_dense(first, seed) == linked.backward_dense(second, seed)
    assert eager.backward(first, seed) == linked.backward(second, seed)
    assert program(linked.compile_tape()) == program(eager.tape)


def jvp_equals_duals(case: Case) -> None:
    """The graph's tangent of the last entry is what dual numbers carry there."""
    graph = case.graph
    pairs = zip(case.inputs, case.tangents, strict=True)
    duals = [zip_map(Dual, x, t if t is not None else zeros_like(x)) for x, t in pairs]
    value, tangent = parts(run(case.program, AtOnce(), duals))
    assert graph.evaluate(case.inputs)[-1] == value
    assert graph.jvp(case.inputs, case.tangents)[-1] == tangent, "a tangent went astray"


def backprop_is_the_transpose(case: Case) -> None:
    """<seeds, J tangents> = <J' seeds, tangents>, where frozen leaves do not move."""
    graph = case.graph
    seeds = case.seeds(graph)
    pairs = zip(case.tangents, case.trainable, strict=True)
    tangents = [tangent if flag else None for tangent, flag in pairs]
    ahead = graph.jvp(case.inputs, tangents)
    back = graph.backprop(case.inputs, seeds)
    left = sum(inner(seed, ahead[id]) for id, seed in seeds.items())
    right = sum(inner(b, t) for b, t in zip(back, tangents, strict=True) if t is not None)
    assert left == right, "backprop is not the transpose of jvp"


LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (tape_equals_graph, eager_equals_graph, jvp_equals_duals, backprop_is_the_transpose)
}


@pytest.mark.holds("The tape's loop on the compiled graph is the graph's own backward pass")
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@settings(max_examples=EXAMPLES)
@given(case=CASES)
def test_a_graph_obeys(law: Callable[[Case], None], case: Case) -> None:
    obeyed(law, case)


def obeyed(law: Callable[[Case], None], case: Case) -> None:
    """Assert a law of a program; what leaves the world of fractions shows nothing."""
    try:
        law(case)
    except NoFraction:
        reject()


def caught() -> set[str]:
    """Return the names of the laws that are broken on one of a hundred programs."""
    found: set[str] = set()

    @settings(max_examples=300, phases=[Phase.generate])
    @given(case=CASES)
    def check(case: Case) -> None:
        for name, law in LAWS.items():
            try:
                obeyed(law, case)
            except AssertionError:
                found.add(name)

    check()
    return found


def _only_one_reader(self: Graph, id: int, handed: Any) -> Any:
    return list(HANDED_BACK(self, id, handed))[:1]


def _frozen_leaves_receive(self: Graph, id: int, handed: Any) -> Any:
    entry = self._entries[id]
    self._entries[id] = replace(entry, requires_grad=True)
    try:
        return list(HANDED_BACK(self, id, handed))
    finally:
        self._entries[id] = entry


def _only_the_first_input_moves(entry: Any, values: Any, moved: Any) -> Any:
    still = bool(entry.parents) and entry.parents[0] not in moved
    return None if still else PUSHED(entry, values, moved)


def _leaves_swapped(self: Graph, what: str, given: Any) -> Any:
    return list(reversed(FITTING(self, what, given)))


def _nothing_is_frozen(self: Tape, value: Any, requires_grad: bool = True, name: Any = None) -> int:
    return LEAF(self, value, True, name)


def _last_contribution_wins(self: Tape, found: Any, id: int, parent: int, part: Any) -> None:
    found.pop(parent, None)
    ACCUMULATE(self, found, id, parent, part)


HANDED_BACK, FITTING, PUSHED = Graph._handed_back, Graph._fitting, graph_chapter._pushed
LEAF, ACCUMULATE = Tape.leaf, Tape._accumulate

ALIKE = {"tape_equals_graph", "eager_equals_graph"}
TRANSPOSE = "backprop_is_the_transpose"

PLANTS: dict[str, tuple[Any, str, Callable[..., Any], set[str]]] = {
    "a fan-out hands back once": (Graph, "_handed_back", _only_one_reader, ALIKE | {TRANSPOSE}),
    "frozen leaves receive": (Graph, "_handed_back", _frozen_leaves_receive, ALIKE),
    "an op moves by its first input": (
        graph_chapter,
        "_pushed",
        _only_the_first_input_moves,
        {"jvp_equals_duals", TRANSPOSE},
    ),
    "leaves are swapped": (
        Graph,
        "_fitting",
        _leaves_swapped,
        {"eager_equals_graph", "jvp_equals_duals", TRANSPOSE},
    ),
    "the tape freezes nothing": (Tape, "leaf", _nothing_is_frozen, ALIKE),
    "the tape forgets contributions": (Tape, "_accumulate", _last_contribution_wins, ALIKE),
}
"""What is planted where, and exactly the laws that notice."""


@pytest.mark.holds("The tape's loop on the compiled graph is the graph's own backward pass")
@pytest.mark.parametrize("plant", in_turns(PLANTS, 3))
def test_a_planted_bug_breaks_laws(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong, expected = PLANTS[plant]
    monkeypatch.setattr(owner, name, wrong)
    assert caught() == expected
