"""Our pages compiled by Inductor: each row is one artifact, and judged as any other backend's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import UnknownBackend, load
from equivalence.backends.inductor import backend as adapter
from equivalence.backends.inductor.programs import Artifact, Program
from equivalence.backends.libraries import shipped
from equivalence.backends.protocol import Backend, Call, HasJvp, HasOptimizers, Prepares
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS
from equivalence.runs.results import Row
from equivalence.runs.runner import run_row
from fast.compiled import inductor
from fast.compiled.shown.sources import written
from fast.errors import Rejected, Unavailable
from tools.families import representatives

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache"),
]

ROWS = [
    (op, direction)
    for op in representatives()
    if op in OPS
    for direction in ("value", "vjp")
    if direction == "value" or OPS[op].moves
]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many programs each artifact has that is compiled or loaded."""
    seen: list[int] = []
    make = Artifact.__init__

    def noted(self: Artifact, programs: Sequence[Program]) -> None:
        make(self, programs)
        seen.append(len(programs))

    monkeypatch.setattr(Artifact, "__init__", noted)
    return seen


def judged(row: Row) -> Any:
    return run_row(load("fast-inductor"), row, counted=8, seed=0, findings=shipped())


def test_it_follows_the_protocol() -> None:
    backend = load("fast-inductor")
    assert isinstance(backend, Backend) and isinstance(backend, Prepares)
    assert not isinstance(backend, HasJvp) and not isinstance(backend, HasOptimizers)
    assert backend.name == "fast-inductor"


def test_it_says_why_it_is_not_offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inductor, "missing", lambda: "no module named package")
    with pytest.raises(UnknownBackend, match=r"does not offer what it calls \(no module"):
        load("fast-inductor")
    monkeypatch.undo()
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnknownBackend, match=r"needs a C\+\+ compiler"):
        load("fast-inductor")


@pytest.mark.full
@pytest.mark.parametrize(("op", "direction"), ROWS)
def test_a_row_is_one_artifact_and_is_right(op: str, direction: str, compiled: list[int]) -> None:
    result = judged(Row(op, direction, "fp32"))
    assert (result.status, result.failures) in (("conformant", ()), ("declared", ()))
    assert len(compiled) == 1 and compiled[0] > 10


class Telling:
    """Stands for a backend where a row asks, and keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.name, self.capabilities = "fast-inductor", load("fast-aten").capabilities

    def prepare(self, calls: Sequence[Call]) -> None:
        self.calls += calls
        raise KeyboardInterrupt


def told(rows: Sequence[Row]) -> list[Call]:
    """Return the calls that rows of an op tell ahead."""
    telling = Telling()
    with pytest.raises(KeyboardInterrupt):
        run_row(telling, rows[0], counted=8, seed=0, findings=(), together=rows)
    return telling.calls


def beside(op: str) -> list[Row]:
    """Return the rows that are compiled together: all of an op's."""
    ways = ("value", "vjp") if OPS[op].moves else ("value",)
    return [Row(op, way, dtype) for dtype in DTYPES for way in ways]


def answer(backend: Any, call: Call) -> list[Tensor]:
    if call.direction == "vjp":
        found = backend.vjp(call.op, call.inputs, call.attrs, call.cotangents)
        return [gradient for gradient in found if gradient is not None]
    made = backend.value(call.op, call.inputs, call.attrs)
    return [made] if isinstance(made, Tensor) else list(made)


def same_bits(one: Tensor, other: Tensor) -> bool:
    fits = (one.shape, one.dtype) == (other.shape, other.dtype)
    bits = [tensor.contiguous().flatten().view(torch.uint8) for tensor in (one, other)]
    return fits and torch.equal(*bits)


@pytest.mark.full
@pytest.mark.parametrize(("op", "direction"), ROWS)
def test_a_call_gives_the_same_bits_alone_and_among_others(op: str, direction: str) -> None:
    calls = told(beside(op))
    many, lone = load("fast-inductor"), load("fast-inductor")
    assert isinstance(many, Prepares)
    many.prepare(calls)
    found = [(call, answer(many, call)) for call in calls if call.direction == direction]
    largest, together = max(found, key=lambda pair: sum(result.numel() for result in pair[1]))
    assert together and all(map(same_bits, together, answer(lone, largest)))
    assert together[0].numel()


@pytest.mark.full
def test_two_calls_that_are_exchanged_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two programs that take the same tensors, each gets the other's place in the artifact."""
    compile_ = adapter.FastInductor._compile

    def exchanged(self: Any, programs: Sequence[Program]) -> None:
        compile_(self, programs)
        alike = [
            (one, other) for one, other in combinations(programs, 2) if one.forms == other.forms
        ]
        for one, other in alike[:1]:
            ready = self._ready
            ready[one], ready[other] = ready[other], ready[one]

    monkeypatch.setattr(adapter.FastInductor, "_compile", exchanged)
    assert judged(Row("sum", "value", "fp32")).status == "nonconformant"


class Picky:
    """Stands for an artifact that cannot be had of programs that a call at fault is among."""

    tried: list[int]
    wrong: tuple[int, ...]

    def __init__(self, programs: Sequence[Program]) -> None:
        self.tried.append(len(programs))
        if any(program.forms[0][0] == self.wrong for program in programs):
            raise Unavailable("this one cannot be compiled")

    def run(self, position: int, given: Sequence[Tensor]) -> list[Tensor]:
        return [given[0] + position]


def test_halves_are_compiled_down_to_the_call_that_is_at_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Picky, "tried", [], raising=False)
    monkeypatch.setattr(Picky, "wrong", (5,), raising=False)
    monkeypatch.setattr(adapter, "Artifact", Picky)
    backend: Any = load("fast-inductor")
    inputs = [torch.zeros(n) for n in range(1, 9)]
    backend.prepare([Call("relu", "value", [x], {}) for x in inputs])
    assert Picky.tried == [8, 4, 4, 2, 1, 1, 2]
    for x in inputs:
        if len(x) == 5:
            with pytest.raises(Unavailable, match="this one"):
                backend.value("relu", [x], {})
        else:
            backend.value("relu", [x], {})
    assert len(Picky.tried) == 7, "nothing is tried twice"
    backend.value("relu", [torch.zeros(9)], {})
    assert Picky.tried[7:] == [1], "what was not told is compiled alone"


def test_what_is_told_at_once_is_divided_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picky, "tried", [], raising=False)
    monkeypatch.setattr(Picky, "wrong", (99,), raising=False)
    monkeypatch.setattr(adapter, "Artifact", Picky)
    monkeypatch.setattr(adapter, "TOGETHER", 4)
    backend: Any = load("fast-inductor")
    backend.prepare([Call("relu", "value", [torch.zeros(n)], {}) for n in range(1, 10)])
    assert Picky.tried == [3, 3, 3]
    monkeypatch.setattr(adapter, "DRAWING_TOGETHER", 2)
    drawn = {"seed": 0, "counter": 0, "dtype": torch.float32}
    calls = [Call("rand_uniform", "value", [], {"shape": (n,), **drawn}) for n in (1, 2, 3, 4)]
    backend.prepare(calls)
    assert Picky.tried[3:] == [2, 2]


def test_what_a_page_refuses_is_passed_over_and_refused_when_it_is_asked() -> None:
    backend: Any = load("fast-inductor")
    x, index = torch.zeros(3, 2), torch.tensor([3])
    backend.prepare([Call("take", "value", [x, index], {"axis": 0})])
    assert not backend._ready and not backend._failed
    with pytest.raises(Rejected, match="take C"):
        backend.value("take", [x, index], {"axis": 0})


def kernels(package: bytes) -> list[str]:
    """Return what the kernels of a package are compiled of, and how, but for the names of files."""
    text = written(package, ".kernel.cpp")
    command = next(line for line in text.splitlines() if line.startswith("// g++"))
    flags = [word for word in command.split() if word.startswith(("-f", "-O", "-m"))]
    return [*flags, *(line for line in text.splitlines() if not line.startswith("//"))]


@pytest.mark.full
def test_the_kernels_are_those_of_the_engine() -> None:
    """What is left unoptimized for the judge computes no numbers."""
    given = [torch.rand(5, 33), torch.rand(33)]
    graph = inductor.traced(lambda x, y: [(x * y).softmax(-1), (x + y).sum(0)], given)
    brief, usual = (kernels(inductor.built(graph, given, brief)) for brief in (True, False))
    assert brief == usual
    assert "-O3" in usual and "-ffp-contract=off" in usual and len(usual) > 50


@pytest.mark.full
def test_a_counter_and_indices_are_data(compiled: list[int]) -> None:
    """More blocks of random numbers than a vector has lanes: there at::vec's arange overflows."""
    backend, ours = load("fast-inductor"), load("fast-aten")
    x = torch.arange(1.0, 97.0).reshape(32, 3)
    for counter in (0, 7, 2**64 - 1):
        attrs = {"p": 0.5, "seed": 3, "counter": counter}
        assert torch.equal(
            *(b.value("dropout", [x], attrs) for b in (backend, ours))  # type: ignore[arg-type]
        )
    for places in ([0, 1], [3, 3]):
        call = ("take", [x, torch.tensor(places)], {"axis": 0})
        assert torch.equal(*(b.value(*call) for b in (backend, ours)))  # type: ignore[arg-type]
    assert compiled == [1, 1]
