"""What one's own Python calls: an assertion, a case once more, a page's checks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import equivalence
from equivalence import (
    Capabilities,
    Unusable,
    assert_conforms,
    check_call,
    declared,
    registered,
    replay_case,
)
from equivalence.cli import main
from equivalence.direct.replay import NoCase
from equivalence.runs.results import CONFORMANT, CRASH, NONCONFORMANT, USAGE
from spec.composite import composite
from spec.op import Type, refuse
from spec.ops import OPS

CASE = (
    '{"op":"square","direction":"value","dtype":"fp32","shapes":[[]],'
    '"recipes":[["integers",1,"contiguous"]]}'
)
MODULE = "tests.equivalence.direct.test_direct"


class Squares:
    name = "squares"

    def capabilities(self) -> Capabilities:
        return Capabilities({"square": ("fp32",)}, declared("torch"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return inputs[0] * inputs[0]

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> list[Tensor]:
        return [2 * inputs[0] * cotangents[0]]


class Wrong(Squares):
    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return inputs[0] * inputs[0] * 1.001


class Raising(Squares):
    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        raise KeyError("no kernel")


class Hanging(Squares):
    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        time.sleep(600)
        return inputs[0]


class Dying(Squares):
    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        os.kill(os.getpid(), 11)
        return inputs[0]


def test_a_right_backend_passes_and_its_rows_come_back() -> None:
    results = assert_conforms(Squares(), ops=["square"])
    statuses = {str(result.row): result.status for result in results}
    assert statuses["square value fp32"] == statuses["square vjp fp32"] == "conformant"


def test_an_object_of_a_test_function_is_judged_here() -> None:
    class Counted(Squares):
        asked = 0

        def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
            Counted.asked += 1
            return inputs[0] * inputs[0]

    assert_conforms(Counted, "square")
    assert Counted.asked > 8


def test_a_wrong_backend_fails_with_the_report() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_conforms(Wrong(), ops=["square"])
    said = str(failed.value)
    assert said.startswith("squares: 1 nonconformant, 1 conformant")
    assert "result[]: got 1.001" in said and "replay: python -m equivalence replay-case" in said


def test_nothing_judged_is_no_pass_and_an_unknown_name_no_failure() -> None:
    with pytest.raises(AssertionError, match="unsupported by the backend: 6 rows of exp"):
        assert_conforms(Squares(), ops=["exp"])
    with pytest.raises(Unusable, match=r"unknown operation 'squre'.*--pages MODULE"):
        assert_conforms(Squares(), ops=["squre"])


@pytest.mark.parametrize(
    ("backend", "kind", "code", "said"),
    [
        ("Squares", "", CONFORMANT, "1 elements judged"),
        ("Wrong", "wrong", NONCONFORMANT, "result[]: got 1.001"),
        ("Raising", "crash", CRASH, "squares raised KeyError: 'no kernel'"),
    ],
)
def test_a_case_is_replayed_here(backend: str, kind: str, code: int, said: str) -> None:
    found = replay_case(CASE, getattr(sys.modules[__name__], backend)())
    assert (found.kind, found.failed, found.code) == (kind, bool(kind), code)
    assert said in "\n".join(found.lines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "said"),
    [("Hanging", "the call took longer than 0.5 s"), ("Dying", "process was ended by SIGSEGV")],
)
def test_a_case_that_hangs_or_dies_costs_its_own_process(
    backend: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{MODULE}:{backend}"
    assert main(["replay-case", CASE, "--backend", name, "--call-limit", "0.5"]) == CRASH
    assert said in capsys.readouterr().out


def test_without_processes_a_case_runs_in_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module, seen = ModuleType("here_only"), list[int]()

    class Here(Squares):
        def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
            seen.append(os.getpid())
            return inputs[0] * inputs[0]

    module.Here = Here  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "here_only", module)
    assert replay_case(CASE, "here_only:Here", jobs=0).code == CONFORMANT
    assert seen == [os.getpid()]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"op": "square"}', CASE.replace("square", "x")])
def test_a_text_that_is_no_case_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoCase, match="this is not a case: "):
        replay_case(text, Squares())
    assert main(["replay-case", text, "--backend", f"{MODULE}:Squares"]) == USAGE
    assert capsys.readouterr().err.startswith("error: this is not a case: ")


def test_a_call_is_refused_as_the_page_refuses_it() -> None:
    inputs, attributes = check_call("softmax", [torch.ones(2, 3)], {})
    assert inputs[0].shape == (2, 3) and attributes == {"axis": -1}
    with pytest.raises(ValueError, match=r"^softmax C1: .* got 5"):
        check_call("softmax", [torch.ones(2, 3)], {"axis": 5})
    with pytest.raises(ValueError, match=r"^matmul C2: "):
        check_call("matmul", [torch.ones(2, 3), torch.ones(4, 2)], {})


def test_a_call_of_a_registered_page_is_refused_as_that_page_does() -> None:
    def twice(x: Any, *, times: int = 2) -> Any:
        return OPS["scale"].value(x, c=times)

    def rule(x: Type, *, times: int = 2) -> Type:
        if times < 1:
            raise refuse("twice C1", "times is at least 1", times)
        return x

    page = composite("twice", rule, twice, (OPS["scale"],))
    with registered(page):
        assert check_call("twice", [torch.ones(2)], {})[1] == {"times": 2}
        with pytest.raises(ValueError, match="twice C1: times is at least 1; got 0"):
            check_call("twice", [torch.ones(2)], {"times": 0})


def test_answers_kept_for_the_next_backend_change_no_verdict() -> None:
    def told(kept: equivalence.Kept | None) -> list[str]:
        def judged(backend: Squares) -> str:
            return str(assert_or_text(backend))

        if kept is None:
            return [judged(Squares()), judged(Wrong())]
        with equivalence.keeping(kept):
            return [judged(Squares()), judged(Wrong())]

    kept = equivalence.Kept()
    assert told(kept) == told(None)
    assert kept.answers


def assert_or_text(backend: Squares) -> object:
    try:
        return [
            (str(r.row), r.status, r.worst_fraction) for r in assert_conforms(backend, "square")
        ]
    except AssertionError as failed:
        return str(failed).partition(";")[0]


def test_the_command_line_of_a_file_of_cases(tmp_path: Path) -> None:
    """A case that was kept in a file is a regression test of one line."""
    path = tmp_path / "case.json"
    path.write_text(CASE, encoding="utf-8")
    assert not replay_case(path.read_text(encoding="utf-8"), Squares()).failed
