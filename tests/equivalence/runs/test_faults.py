"""A fault of the suite itself is reported as one, and costs no case that was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import Capabilities, declared
from equivalence.measure import update
from equivalence.runs import runner
from equivalence.runs.choice import kind_of
from equivalence.runs.results import CRASH, Row, exit_code
from equivalence.runs.runner import run_row
from equivalence.worlds.contract import Contract

ROW = Row("square", "value", "fp32")


class Squares:
    """A right backend."""

    name = "squares"

    def capabilities(self) -> Capabilities:
        """Offer one op."""
        return Capabilities({"square": ("fp32",)}, declared("torch"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Square."""
        return inputs[0] * inputs[0]


def run(**options: Any) -> Any:
    return run_row(Squares(), ROW, counted=8, seed=0, findings=(), **options)


def of_the_suite(found: Any) -> None:
    """Check that a row has judged cases, and reports a fault of the suite alone."""
    assert (found.status, found.beside) == ("error", "conformant")
    assert exit_code([found]) == CRASH and found.cases >= 8 and found.judged
    assert found.failures and all(failure.kind == "fault" for failure in found.failures)
    text = "\n".join(found.failures[0].lines())
    assert "the suite raised KeyError: 'lost'" in text and "please report it" in text
    assert "squares raised" not in text


def test_a_case_at_which_the_suite_raises_costs_itself_alone() -> None:
    kind = kind_of(ROW)
    measure = kind.measure
    at = kind.fixed(1)[3]

    class Faulty:
        def __getattr__(self, name: str) -> Any:
            return getattr(kind, name)

        def measure(self, backend: Any, case: Any, contract: Contract) -> Any:
            if case == at:
                raise KeyError("lost")
            return measure(backend, case, contract)

    of_the_suite(run(kind=Faulty()))


def test_a_fault_at_another_rung_costs_no_case() -> None:
    """The rungs of a wrong backend are asked last, when all cases of the row are judged."""
    kind = kind_of(ROW)
    measure = kind.measure
    own = Squares().capabilities().contract(ROW.op, ROW.dtype)

    class Off(Squares):
        def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
            return super().value(op, inputs, attrs) * 1.01

    class Faulty:
        def __getattr__(self, name: str) -> Any:
            return getattr(kind, name)

        def measure(self, backend: Any, case: Any, contract: Contract) -> Any:
            if contract != own:
                raise KeyError("lost")
            return measure(backend, case, contract)

    found = run_row(Off(), ROW, counted=8, seed=0, findings=(), kind=Faulty())
    assert (found.status, found.inferred) == ("nonconformant", "none")
    assert found.judged and {failure.kind for failure in found.failures} == {"wrong"}


@pytest.mark.parametrize("name", ["sized_kind", "Edges", "Refusals", "drawn_batches", "least"])
def test_what_the_suite_cannot_list_costs_no_case(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*given: Any, **named: Any) -> Any:
        raise KeyError("lost")

    monkeypatch.setattr(runner, name, lost)
    of_the_suite(run(strength=2 if name == "sized_kind" else 1))


def test_a_step_at_which_the_judge_raises_is_no_crash_of_the_handle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from equivalence.backends import load

    monkeypatch.setattr(update.Judging, "_judge", lambda *given: {}["lost"])
    found = run_row(load("torch"), Row("sgd", "update", "fp32"), counted=2, seed=0, findings=())
    assert found.status == "error" and {failure.kind for failure in found.failures} == {"fault"}


class Raising(Squares):
    """A backend that raises."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Raise where there is an entry of 1."""
        if bool(torch.any(inputs[0] == 1)):
            raise KeyError("mine")
        return super().value(op, inputs, attrs)


def test_an_exception_of_the_backend_stays_its_own() -> None:
    found = run_row(Raising(), ROW, counted=8, seed=0, findings=())
    crashes = [failure for failure in found.failures if failure.kind != "wrong"]
    assert crashes and all(failure.kind == "crash" for failure in crashes)
