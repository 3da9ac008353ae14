"""Calls that are known ahead: a backend with `prepare` hears of them first, and no other does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from torch import Tensor

from equivalence.backends.protocol import Call, Prepares
from equivalence.cases.covering import PAIRS
from equivalence.runs.results import Row
from equivalence.runs.run import Request, perform
from equivalence.runs.runner import Examination, run_row
from tests.equivalence.backends import fakes

QUICK: dict[str, Any] = {"counted": 3, "seed": 0, "findings": ()}

Form = tuple[Any, ...]


def form(op: str, direction: str, tensors: Sequence[Tensor], attrs: Mapping[str, Any]) -> Form:
    kinds = tuple((tuple(t.shape), t.stride(), t.dtype) for t in tensors)
    return op, direction, kinds, tuple(attrs.items())


class Prepared(fakes.Right):
    """The right one, which notes what it is told and what it is asked, in order."""

    def __init__(self) -> None:
        self.told: list[Form] = []
        self.asked: list[tuple[Form, bool]] = []

    def prepare(self, calls: Sequence[Call]) -> None:
        for call in calls:
            tensors = (*call.inputs, *call.cotangents)
            self.told.append(form(call.op, call.direction, tensors, call.attrs))

    def _ask(self, *call: Any) -> None:
        self.asked.append((form(*call), form(*call) in self.told))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        self._ask(op, "value", inputs, attrs)
        return super().value(op, inputs, attrs)

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        self._ask(op, "vjp", (*inputs, *cotangents), attrs)
        return super().vjp(op, inputs, attrs, cotangents)


@pytest.mark.parametrize("direction", ["value", "vjp"])
@pytest.mark.parametrize("counted", [3, 60])
def test_every_call_of_a_row_is_told_before_it_is_made(direction: str, counted: int) -> None:
    """Edges, the design, what comes just before a case, what is drawn: all but invalid calls."""
    backend, row = Prepared(), Row("square", direction, "fp32")
    assert isinstance(backend, Prepares)
    done = run_row(backend, row, **{**QUICK, "counted": counted})
    assert done.status == "conformant" and done.cases >= counted
    assert len(backend.asked) > counted
    assert [call for call, told in backend.asked if not told] == []


def test_a_backend_without_it_is_asked_the_same() -> None:
    class Silent(Prepared):
        prepare = None  # type: ignore[assignment]

    row = Row("mul", "value", "fp32")
    told, silent = Prepared(), Silent()
    results = [run_row(backend, row, **QUICK) for backend in (told, silent)]
    assert [call for call, _ in told.asked] == [call for call, _ in silent.asked]
    assert results[0].status == results[1].status == "conformant"
    assert results[0].cases == results[1].cases


def test_what_it_raises_is_an_error_of_the_row() -> None:
    class Broken(fakes.Right):
        def prepare(self, calls: Sequence[Call]) -> None:
            raise RuntimeError("no space left")

    done = run_row(Broken(), Row("square", "value", "fp32"), **QUICK)
    assert (done.status, done.beside) == ("error", "conformant")
    assert [f.title for f in done.failures] == ["prepare raised RuntimeError: no space left"]


class Hearing(Prepared):
    """The right one in two dtypes, which notes how many calls it hears of at once, and of what."""

    ops: ClassVar[Mapping[str, Sequence[str]]] = dict.fromkeys(("square", "mul"), ("fp32", "fp64"))
    heard: ClassVar[list[tuple[str, int, int]]] = []

    def prepare(self, calls: Sequence[Call]) -> None:
        super().prepare(calls)
        ((op,),) = ({call.op for call in calls},)
        self.heard.append((op, len({call.direction for call in calls}), len(calls)))


def test_the_rows_of_an_op_are_told_with_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hearing, "heard", [])
    address = f"{__name__}:{Hearing.__name__}"
    done = perform(Request(address, ops=["square", "mul"], profile="quick"))
    found = Counter(result.status for result in done.results)
    assert found == {"conformant": 8, "unsupported": 8}
    for op in ("square", "mul"):
        (first, many), *others = [
            (ways, calls) for name, ways, calls in Hearing.heard if name == op
        ]
        assert first == 2 and [ways for ways, _ in others] == [1, 1, 1]
        assert many > sum(calls for _, calls in others)


def test_they_are_told_in_one_order_whichever_comes_first() -> None:
    """Two processes that begin with other rows of an op want the same artifacts."""
    backend = Hearing()
    rows = [Row("square", way, dtype) for way in ("value", "vjp") for dtype in ("fp32", "fp64")]
    told = []
    for row in rows:
        asked = Examination(backend, row, counted=3, seed=0, findings=(), together=rows)
        calls = asked._foreseen()
        told.append([form(c.op, c.direction, (*c.inputs, *c.cotangents), c.attrs) for c in calls])
    assert told[0] and all(told[0] == other for other in told)


class Counting(Prepared):
    """The right one, which notes how many forms it has heard of after each time it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.known: list[int] = []

    def prepare(self, calls: Sequence[Call]) -> None:
        super().prepare(calls)
        self.known.append(len({*self.told}))


@pytest.mark.parametrize("direction", ["value", "vjp"])
def test_what_is_drawn_first_is_told_with_the_design(direction: str) -> None:
    backend, row = Counting(), Row("square", direction, "fp32")
    options: dict[str, Any] = {"counted": 30, "seed": 0, "findings": (), "strength": PAIRS}
    assert run_row(backend, row, **options).status == "conformant"
    first, *others = backend.known
    assert others and others == [first] * len(others)
