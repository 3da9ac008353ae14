"""The executor of a task: it puts the task's questions to a backend, each of them once.

A task lists its questions in batches and asks for one after another. The executor notes a question
before it is put, and its answer afterwards. So a question that ended its process is answered by
`Ended` in the next process, and a question that was answered before is not put again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from equivalence.workers import data, notes

MOST_ENDED = 3
"""How many questions of a task may each cost a process. After as many, none like them is put.

Where as many hung, no new one is put at all, since each costs the time that a call may take.
"""

MOST_IN_ALL = 12
"""How many processes a task may cost. After as many, no new question is put."""

Answer = TypeVar("Answer")


class TooManyEnded(Exception):
    """So many processes have ended at the questions of a task that no new one is put."""


class LeftOut(Exception):
    """A question is not put, since too many processes have ended, one of them at one like it."""


def _never() -> bool:
    """Say that there are never enough answers."""
    return False


def _nothing() -> None:
    """Do nothing."""


def _ignored(answer: object) -> None:
    """Do nothing with an answer."""


@dataclass(frozen=True, slots=True)
class Question(Generic[Answer]):
    """One thing that a task asks of a backend.

    text    what identifies the question: it is the same in every process that is at the task
    title   what a reader is told of it
    put     asks the backend, and returns its answer
    enter   takes the answer down, or how the process ended
    form    the type of the answer, by which another process reads it
    alike   what the question has in common with others that may end a process as well
    """

    text: str
    title: str
    put: Callable[[], Answer]
    enter: Callable[[Answer | notes.Ended], None] = _ignored
    form: Any = Any
    alike: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions that are known together.

    enough  says that no more of them need an answer
    close   is called when the questions of the batch are through
    """

    questions: Iterable[Question[Any]]
    enough: Callable[[], bool] = _never
    close: Callable[[], None] = _nothing


class Executor:
    """Puts the questions of one task, and remembers which of them ended a process."""

    def __init__(self) -> None:
        """Start before the first question."""
        self._ended: dict[str, bool] = {}
        self._deadly: set[str] = set()
        self.left_out: Counter[str] = Counter()
        """How many questions were not put, by what they have in common."""

    @property
    def exhausted(self) -> bool:
        """Whether so many processes have ended that nothing is asked for the reader's sake."""
        return len(self._ended) >= MOST_ENDED

    def ask(self, question: Question[Answer]) -> Answer | notes.Ended:
        """Return the answer to a question, or how a process ended at it.

        TooManyEnded says that no question is put any more, and LeftOut that this one is not.
        """
        if self.exhausted and question.text not in self._ended:
            self._admit(question)
        known = notes.answers()
        answer: Answer | notes.Ended
        if question.text in known:
            left = known[question.text]
            answer = left if isinstance(left, notes.Ended) else data.made(question.form, left)
        else:
            notes.asks(question.text, question.title)
            answer = question.put()
            notes.answered(question.text, answer)
        if isinstance(answer, notes.Ended):
            self._ended[question.text] = answer.late
            self._deadly.add(question.alike)
        return answer

    def _admit(self, question: Question[Any]) -> None:
        """Raise where a question is not put any more."""
        for most, ended in (
            (MOST_ENDED, sum(self._ended.values())),
            (MOST_IN_ALL, len(self._ended)),
        ):
            if ended >= most:
                raise TooManyEnded(f"nothing more was asked, as {most} processes have ended")
        if question.alike in self._deadly:
            self.left_out[question.alike] += 1
            raise LeftOut(question.title)
