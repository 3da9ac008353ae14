"""Backends of a part of an op: right ones are partial, wrong ones caught, hiding a failure."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends.protocol import Capabilities
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.declared.plain import signature
from equivalence.cases.sizes import SizedCase
from equivalence.cli import main
from equivalence.runs.recorded.recorder import record_row
from equivalence.runs.recorded.replay import replay_row
from equivalence.runs.results import (
    CONFORMANT,
    NONCONFORMANT,
    VACUOUS,
    Note,
    Partial,
    Row,
    RowResult,
    exit_code,
    read_row,
)
from equivalence.runs.runner import run_row
from tests.equivalence.backends.parts import RIGHT, WHOLE, WRONG, Partly, softmax


def judged(member: Any, direction: str = "value") -> RowResult:
    """Judge one row of a backend by the cases of single levels."""
    way = "update" if isinstance(getattr(member, "call", None), type) else direction
    return run_row(member, Row(member.op, way, member.dtypes[0]), counted=1, seed=0, findings=())


@pytest.mark.parametrize("member", RIGHT, ids=lambda m: m.name)
def test_a_right_part_is_judged_on_what_it_does(member: Partly) -> None:
    found = judged(member)
    assert found.status == ("conformant" if member.name in WHOLE else "partial"), found.failures
    assert found.judged > 0 and exit_code([found]) == CONFORMANT
    assert exit_code([found], whole=True) == (CONFORMANT if found.partial is None else 1)
    assert read_row(found.to_dict()) == found


@pytest.mark.parametrize("member", WRONG, ids=lambda m: m.name)
def test_a_wrong_part_is_caught(member: Partly) -> None:
    found = judged(member)
    assert found.status == "nonconformant", found
    assert not any("raised" in line for f in found.failures for line in f.lines()), found.failures


def test_the_levels_without_a_judged_case_are_named() -> None:
    member = next(m for m in RIGHT if m.name == "short, unsaid")
    found = judged(member)
    assert found.partial is not None
    assert found.partial.missing == {"extent": ("513", "1025")}
    met, every = found.partial.levels
    assert every - met == 2
    assert found.partial.line() == (
        f"{met} of {every} levels judged, 2 of {found.partial.cases[1]} cases left out; "
        "no judged case: extent 513, 1025"
    )


def test_gradients_are_judged_on_the_part_too() -> None:
    member = next(m for m in RIGHT if m.name == "2-D, last, contiguous, no empties")
    found = judged(member, "vjp")
    assert found.status == "partial" and found.partial is not None
    assert "layout of the seed" in found.partial.missing


class Hiding(Partly):
    """Softmax that refuses what it is told to refuse by the numbers or the count of calls."""

    calls = 0

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        self.calls += 1
        if self.hides(inputs[0]):
            raise NotImplementedError("not now")
        return super().value(op, inputs, attrs)

    def hides(self, x: Tensor) -> bool:
        raise AssertionError


class OnNan(Hiding):
    def hides(self, x: Tensor) -> bool:
        return bool(x.isnan().any())


class OnTies(Hiding):
    def hides(self, x: Tensor) -> bool:
        return x.numel() > 8 and len(x.unique()) < x.numel()


class EverySecond(Hiding):
    def hides(self, x: Tensor) -> bool:
        return self.calls % 2 == 0


class TheFirst(Hiding):
    def hides(self, x: Tensor) -> bool:
        return self.calls == 1


@pytest.mark.parametrize("kind", [OnNan, OnTies, EverySecond, TheFirst])
def test_what_no_declaration_could_say_is_no_reason_to_refuse(kind: type[Hiding]) -> None:
    found = judged(kind("hiding", "softmax", softmax))
    assert found.status == "nonconformant", found.partial
    assert any("refused for its numbers or its turn" in f.title for f in found.failures)


def test_what_is_declared_may_not_be_refused() -> None:
    class Refusing(Partly):
        def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
            if inputs[0].dim() > 2:
                raise NotImplementedError("three axes")
            return super().value(op, inputs, attrs)

    found = judged(Refusing("refusing", "softmax", softmax, {"axes": (-1,)}))
    assert found.status == "nonconformant"
    said = [f for f in found.failures if f.title.startswith("declared, then refused: softmax(")]
    assert said and said[0].details[0] == "NotImplementedError: three axes" and said[0].replay


def test_who_does_nothing_is_vacuous() -> None:
    found = judged(Partly("nothing", "square", torch.square, None, lambda *given: False))
    assert found.status == "vacuous" and exit_code([found]) == VACUOUS
    nothing = judged(Partly("nothing", "square", torch.square, lambda call: False))
    assert nothing.status == "vacuous"


COUNT = itertools.count()


@pytest.mark.parametrize(
    ("takes", "says"),
    [
        (lambda call: call.inputs[0].shape[5] > 0, "raised IndexError"),
        (lambda call: next(COUNT) % 3 > 0, "of one call"),
        (lambda call: next(COUNT) < 400, "of one call"),
    ],
    ids=["raises", "fickle", "changes its mind"],
)
def test_a_faulty_predicate_is_a_fault_of_the_backend(takes: Any, says: str) -> None:
    found = judged(Partly("faulty", "square", torch.square, takes))
    assert found.status == "nonconformant" and exit_code([found]) == NONCONFORMANT
    assert any(says in failure.title for failure in found.failures)


class Accepting(Partly):
    """A product that broadcasts, and a gather that wraps indices."""

    more: Mapping[str, Any] = {}

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), **self.more)


def product(more: Mapping[str, Any]) -> Accepting:
    member = Accepting("broadcasting", "mul", torch.mul)
    member.more = more
    return member


def test_what_a_backend_accepts_beyond_the_page_is_a_note() -> None:
    found = judged(product({}))
    assert found.status == "conformant" and not found.failures
    (note,) = found.notes
    assert "accepts mul(" in note.text and "the page says: mul C1: " in note.text
    strict = judged(product({"checks_constraints": True}))
    assert strict.status == "nonconformant" and not strict.notes
    assert any("mul C1: " in line for f in strict.failures for line in f.lines())


def taken(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    flat = x.index_select(axis, indices.reshape(-1) % max(x.shape[axis], 1))
    at = axis % x.dim()
    return flat.reshape((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def test_an_index_out_of_range_is_a_failure_or_is_never_passed() -> None:
    seen: list[bool] = []

    def value(x: Tensor, indices: Tensor, axis: int) -> Tensor:
        n = x.shape[axis]
        seen.append(bool(((indices < 0) | (indices >= n)).any()))
        return taken(x, indices, axis)

    member = Accepting("wrapping", "take", value)
    assert judged(member).status == "nonconformant" and any(seen)
    seen.clear()
    member.more = {"unchecked_indices": True}
    found = judged(member)
    assert found.status == "conformant" and not any(seen), found.failures
    assert [note.loud for note in found.notes if "unchecked" in note.text] == [True]


@pytest.mark.parametrize("refuses", [True, False])
def test_an_invalid_call_may_not_write_to_its_inputs(refuses: bool) -> None:
    def value(x: Tensor, y: Tensor) -> Tensor:
        if x.shape != y.shape:
            x.view(-1)[:1] += 1
            if refuses:
                raise ValueError("shapes differ")
        return x * y

    found = judged(Partly("writing", "mul", value))
    assert found.status == "nonconformant"
    assert any("elements of its own memory overwritten" in f.title for f in found.failures)


def test_a_signature_is_what_a_declaration_could_say() -> None:
    def case(regime: str, seed: int, layout: str = "contiguous") -> CaseSpec:
        return CaseSpec("square", "value", "fp32", ((3, 4),), (Recipe(regime, seed, layout),))

    plain = signature(case("normal", 3))
    assert plain == signature(case("special_alone", 4))
    assert plain != signature(case("normal", 3, "transposed"))
    assert signature(SizedCase(case("normal", 3), "reals")) == plain


def test_partial_rows_are_counted_and_carried() -> None:
    partial = Partial({"rank": ("1", "3")}, (40, 42), (20, 23), 1)
    row = RowResult(Row("square", "value", "fp32"), "partial", 20, partial=partial,
                    notes=(Note("said", True),))  # fmt: skip
    assert read_row(row.to_dict()) == row
    assert exit_code([row]) == CONFORMANT and exit_code([row], whole=True) == NONCONFORMANT


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a backend be loaded that refuses long rows as not implemented, and return its name."""
    module = ModuleType("part_backends")
    vars(module)["SHORT"] = next(m for m in RIGHT if m.name == "short, unsaid")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return "part_backends:SHORT"


def test_a_run_counts_its_partial_rows(
    short: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    asked = ["run", "--backend", short, "--ops", "softmax", "--profile", "quick", "--jobs", "0"]
    assert main([*asked, "--json", str(path)]) == CONFORMANT
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "2 of 2 rows partial"
    assert "no judged case: extent 513, 1025" in said
    rows = {(row["direction"], row["dtype"]): row for row in json.loads(path.read_text())["rows"]}
    assert rows["value", "fp32"]["partial"]["missing"] == {"extent": ["513", "1025"]}
    assert main(["run", "--resume", str(path)]) == CONFORMANT
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 2 rows partial"
    plain = json.loads(path.read_text())
    plain["request"]["whole"] = True
    path.write_text(json.dumps(plain))
    assert main(["run", "--resume", str(path)]) == NONCONFORMANT


def test_a_refused_case_is_replayed_as_one(short: str, capsys: pytest.CaptureFixture[str]) -> None:
    case = CaseSpec("softmax", "value", "fp32", ((2, 600),), (Recipe("normal"),)).to_json()
    assert main(["replay-case", case, "--backend", short, "--jobs", "0"]) == NONCONFORMANT
    assert "refused: NotImplementedError: a part that this kernel has not" in (
        capsys.readouterr().out
    )


def test_a_recording_of_a_part_is_replayed_as_one(tmp_path: Path) -> None:
    member = next(m for m in RIGHT if m.name == "no empties")
    row, known = Row("square", "value", "fp32"), {"findings": (), "folder": tmp_path}
    recorded = record_row(member, row, counted=1, seed=0, **known)
    replayed = replay_row(member, row, **known)
    for found in (recorded, replayed):
        assert found.status == "partial" and found.partial is not None
        assert set(found.partial.missing) == {"few elements"}
    whole = replay_row(replace(member, takes=None, fits=lambda *given: True), row, **known)
    assert whole.status == "conformant", "all that was recorded was judged"
