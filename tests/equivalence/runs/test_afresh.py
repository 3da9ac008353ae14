"""A failure that takes earlier calls is shown by a case that fails in a new process, or says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from torch import Tensor

from equivalence import Capabilities, Request, declared, perform, replay_case
from equivalence.runs.results import Row
from equivalence.runs.row import probes
from equivalence.runs.runner import run_row
from equivalence.workers.afresh import run_afresh


class Second:
    """It is wrong from the second call of a shape on."""

    name, late = "second", 1

    def __init__(self) -> None:
        self.calls: dict[Any, int] = {}

    def capabilities(self) -> Capabilities:
        return Capabilities({"square": ["fp32"]}, declared("generic"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        shape = tuple(inputs[0].shape) if self.late == 1 else ()
        self.calls[shape] = self.calls.get(shape, 0) + 1
        return inputs[0] * inputs[0] + float(self.calls[shape] > self.late)

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> list[Tensor]:
        return [2 * inputs[0] * cotangents[0]]


class Twentieth(Second):
    """It is wrong from the twenty-first call on."""

    late = 20


class Always(Second):
    """It is wrong."""

    late = 0


def lines_of(backend: type[Second], monkeypatch: pytest.MonkeyPatch) -> str:
    """Judge a backend, of which a new one stands for a new process."""

    def replayed(line: Sequence[str]) -> int:
        return replay_case(line[1], backend()).code

    monkeypatch.setattr(probes, "in_a_worker", lambda: True)
    monkeypatch.setattr(probes, "run_afresh", replayed)
    row = Row("square", "value", "fp32")
    options = {"counted": 8, "seed": 0, "findings": (), "probing": True, "address": "mine:Second"}
    return "\n".join(run_row(backend(), row, **options).failures[0].lines())


def test_a_call_that_fails_when_it_comes_twice_is_replayed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = lines_of(Second, monkeypatch)
    assert '"calling":"again"' in said and "called alone in a new process" in said
    assert "in the plain layout and calling pattern, too" not in said


def test_what_a_new_process_does_not_show_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "fails only after earlier calls of this process" in lines_of(Twentieth, monkeypatch)


def test_what_fails_anyway_says_nothing_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "new process" not in lines_of(Always, monkeypatch)


def test_a_process_that_takes_too_long_has_no_exit_code() -> None:
    assert run_afresh(["list"], seconds=0.01) is None


@pytest.mark.full
def test_a_new_process_is_started_by_a_worker() -> None:
    where = f"{__name__}:{Second.__name__}"
    done = perform(Request(where, ops=("square",), profile="quick", jobs=1))
    failure = next(row for row in done.results if row.failures).failures[0]
    assert failure.replay is not None and '"calling":"again"' in failure.replay
