"""The way from a run to a case is short, and what a row asks is known before it asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equivalence.measure.call import measure
from equivalence.runs.kinds import Calls
from equivalence.runs.results import Row
from equivalence.runs.run import Request, perform
from equivalence.runs.runner import Examination, run_row
from equivalence.workers import notes
from equivalence.workers.executor import Executor, Question
from tests.equivalence.backends import fakes

MOST_FRAMES = 8
"""How many frames a reader follows from `perform` to `measure`, both of them counted."""

ADDRESS = "tests.equivalence.backends.fakes:Looking"

ROW = Row("mul", "value", "fp32")

QUICK: dict[str, Any] = {"counted": 8, "seed": 0, "findings": ()}


def frames(backend: object | None, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return how many frames lie between `perform` and `measure` in the cases of a run."""
    monkeypatch.setattr(fakes.Looking, "seen", [])
    perform(Request(ADDRESS, ops=["mul"], profile="quick"), backend)
    ways = [came for came in fakes.Looking.seen if measure.__code__ in came]
    assert len(ways) >= QUICK["counted"]
    return {came.index(perform.__code__) - came.index(measure.__code__) + 1 for came in ways}


@pytest.mark.parametrize("backend", [None, fakes.Looking()], ids=["named", "given"])
def test_a_case_is_few_frames_below_a_run(
    backend: object | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert max(frames(backend, monkeypatch)) <= MOST_FRAMES


def test_one_layer_more_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = max(frames(None, monkeypatch))

    def layer(*call: Any) -> Any:
        return measure(*call)

    monkeypatch.setattr(Calls, "measure", staticmethod(layer))
    assert min(frames(None, monkeypatch)) == plain + 1 > MOST_FRAMES


class Untouched(fakes.Right):
    """Says what it offers, and may not be asked anything else."""

    def value(self, *call: Any) -> Any:
        raise AssertionError("a value was asked for")

    vjp = value


class Listening:
    """An executor's way to ask that writes down what is asked."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self.ask = ask
        self.heard: list[str] = []

    def __call__(self, executor: Executor, question: Question[Any]) -> Any:
        self.heard.append(question.text)
        return self.ask(executor, question)


@pytest.mark.parametrize("direction", ["value", "vjp"])
def test_what_a_row_asks_can_be_listed_before_it_asks(
    direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("mul", direction, "fp32")
    examination = Examination(Untouched(), row, strength=2, **QUICK)
    listed = [question.text for batch in examination.listed() for question in batch.questions]
    assert len(set(listed)) == len(listed) > QUICK["counted"]
    assert not examination.tally.counted and not examination.tally.failed
    told = {text.split()[0] for text in listed if not text.startswith("{")}
    assert told == ({"edge", "near-miss"} if direction == "value" else set())
    assert any('"sized"' in text for text in listed), "a large case is among them"

    listening = Listening(Executor.ask)
    monkeypatch.setattr(Executor, "ask", lambda *given: listening(*given))
    done = run_row(fakes.Right(), row, strength=2, **QUICK)
    assert listening.heard[: len(listed)] == listed
    drawn = [text for text in listening.heard[len(listed) :] if text.endswith("} ")]
    assert done.status == "conformant" and drawn, "the drawn cases come after them"


def test_a_question_that_ended_a_process_is_entered_where_it_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of a process at an edge and at an invalid call goes to their slots."""
    listed = Examination(fakes.Right(), ROW, **QUICK).listed()
    texts = [question.text for batch in listed for question in batch.questions]
    edge, miss = texts[0], next(text for text in texts if text.startswith("near-miss"))
    ended = notes.Ended("exited with code 7")
    monkeypatch.setattr(notes, "answers", lambda: {edge: ended, miss: ended})
    done = run_row(fakes.Right(), ROW, **QUICK)
    assert (done.status, done.beside) == ("error", "conformant")
    assert [failure.details for failure in done.failures] == [
        ("the process exited with code 7",)
    ] * 2
    assert done.failures[0].title.startswith("edge ") and "breaking C1" in done.failures[1].title
