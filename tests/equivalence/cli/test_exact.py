"""The command `exact`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ.setdefault("TRITON_INTERPRET", "1")

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence import Capabilities, declared
from equivalence.cases.call import CaseSpec
from equivalence.cli import main
from equivalence.exact import operations
from equivalence.exact.points import Verdict
from equivalence.runs.results import CONFORMANT, NONCONFORMANT, USAGE


def test_it_says_what_was_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "exact.json"
    asked = ["exact", "--ops", "relu,sgd", "--points", "1", "--jobs", "0", "--json", str(path)]
    assert main(asked) == CONFORMANT
    said = capsys.readouterr().out
    assert (
        "relu vjp" in said
        and "2^-96" in said
        and "sgd clipped" in said
        and "sgd extras" in said
        and "no bound" in said
    )
    assert "5 rows, 0 differ; 5 points" in said
    assert [row["status"] for row in json.loads(path.read_text())["rows"]] == ["equal"] * 5


def test_a_row_that_differs_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Verdict(elements=1, differences=("entry 0 is 1, and the page says 2",))
    monkeypatch.setattr(operations, "judged", lambda case, seed, backend=None: wrong)
    assert main(["exact", "--ops", "detach", "--points", "1", "--jobs", "0"]) == NONCONFORMANT
    assert "entry 0 is 1, and the page says 2" in capsys.readouterr().out


@pytest.mark.parametrize(("read", "code"), [(["detach"], CONFORMANT), ([], NONCONFORMANT)])
def test_a_row_that_cannot_be_read_is_counted(
    read: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is neither equal nor different; it fails where nothing at all could be read."""

    def judged(case: CaseSpec, seed: int, backend: object = None) -> Verdict:
        equal = case.op in read
        return Verdict(elements=1) if equal else Verdict(unread=("NotImplementedError: rank 3",))

    monkeypatch.setattr(operations, "judged", judged)
    assert main(["exact", "--ops", "detach,argmax", "--points", "1", "--jobs", "0"]) == code
    said = capsys.readouterr().out
    assert "argmax value cannot be read\n  NotImplementedError: rank 3" in said
    assert "0 differ" in said and f"{1 if read else 3} rows cannot be read, 0 refused" in said
    assert "holds for the shapes and attributes that were tried" in said


class Partial:
    """A backend that takes one rank of exp, no square at all, and calls erfcx for a tanh."""

    name = "partial"

    def capabilities(self) -> Capabilities:
        return Capabilities(dict.fromkeys(("exp", "square", "tanh"), ("fp32",)), declared("torch"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if op == "square" or (op == "exp" and inputs[0].ndim > 1):
            raise NotImplementedError(f"no {op} of rank {inputs[0].ndim}")
        return torch.exp(inputs[0]) if op == "exp" else torch.special.erfcx(inputs[0])

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> list[Tensor]:
        return [cotangents[0] * self.value(op, inputs, attrs)]


def test_what_a_backend_refuses_differs_from_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, path = "tests.equivalence.cli.test_exact:Partial", tmp_path / "exact.json"
    asked = ["exact", "--backend", name, "--points", "3", "--jobs", "0", "--json", str(path)]
    assert main(asked) == CONFORMANT
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert (plain["schema"], plain["command"], plain["complete"]) == (1, "exact", True)
    statuses = {row["row"]: row["status"] for row in plain["rows"]}
    assert statuses == {
        **dict.fromkeys(("exp value", "exp vjp"), "equal"),
        **dict.fromkeys(("square value", "square vjp"), "refused"),
        **dict.fromkeys(("tanh value", "tanh vjp"), "cannot be read"),
    }
    said = capsys.readouterr().out
    assert "NotImplementedError: no square of rank" in said and "test_exact.py:" in said
    assert "of 3 points refused" in said and "special_erfcx" in said
    assert "6 rows, 0 differ" in said and "2 rows cannot be read, 2 refused" in said


def test_a_backend_is_compared_in_what_it_offers(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["exact", "--backend", "torch", "--ops", "linear", "--points", "2", "--jobs", "0"]
    assert main(asked) == CONFORMANT
    said = capsys.readouterr().out
    assert "linear vjp" in said and "2 rows, 0 differ; 4 points" in said
    assert "kernels" not in said
    assert main(["exact", "--backend", "torch", "--ops", "dropout"]) == USAGE
    assert "unknown name 'dropout'" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [["--ops", "nothing"], ["--ops", "add", "--points", "0"]])
def test_what_cannot_be_is_refused(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exact", *asked]) == USAGE
    assert "error: --" in capsys.readouterr().err
