"""The runner: right backends pass, wrong ones are caught, and a failure is small and replayable."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from equivalence.budgets.findings import parse
from equivalence.runs.choice import kind_of, read_case
from equivalence.runs.failure import Failure
from equivalence.runs.results import (
    CONFORMANT,
    CRASH,
    NONCONFORMANT,
    VACUOUS,
    Row,
    RowResult,
    exit_code,
    status_of,
)
from equivalence.runs.row.proposals import _toml
from equivalence.runs.row.tally import MOST_FAILURES, Tally
from equivalence.runs.runner import run_row
from equivalence.workers import notes
from equivalence.workers.executor import MOST_ENDED, MOST_IN_ALL
from tests.equivalence.backends import fakes

QUICK: dict[str, Any] = {"counted": 8, "seed": 0, "findings": ()}


def run(backend: object, op: str = "mul", direction: str = "value") -> RowResult:
    return run_row(backend, Row(op, direction, "fp32"), **QUICK)


@pytest.mark.parametrize("op", ["mul", "square"])
@pytest.mark.parametrize("direction", ["value", "vjp", "jvp"])
def test_a_right_backend_is_conformant(op: str, direction: str) -> None:
    result = run(fakes.RightForward(), op, direction)
    assert result.failures == ()
    assert result.status == "conformant"
    assert result.cases >= 8
    assert result.worst_fraction is not None and 0 < result.worst_fraction <= 1
    assert result.inferred == "ieee-f32"
    assert result.ring == "host"


def test_nothing_is_drawn_where_the_fixed_cases_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(*_: object) -> None:
        raise AssertionError("cases were drawn")

    monkeypatch.setattr("equivalence.cases.strategies.draw_many", draw)
    assert run(fakes.Right()).cases >= QUICK["counted"]
    found = run_row(fakes.Right(), Row("mul", "value", "fp32"), counted=100, seed=0, findings=())
    (fault,) = found.failures
    assert fault.kind == "fault" and "cases were drawn" in fault.details[0]


@pytest.mark.parametrize(
    ("backend", "direction", "said"),
    [
        (fakes.OneOff, "value", "budget"),
        (fakes.Overwriting, "value", "input 0: .* elements of its own memory overwritten"),
        (fakes.Unwritten, "value", "got nan"),
        (fakes.Flattening, "value", "expected shape"),
        (fakes.WrongForward, "jvp", "budget"),
        (fakes.Broadcasting, "value", "accepts mul.* breaking C1"),
    ],
)
def test_a_wrong_backend_is_caught(backend: type, direction: str, said: str) -> None:
    result = run(backend(), direction=direction)
    assert result.status == "nonconformant"
    text = "\n".join(line for failure in result.failures for line in failure.lines())
    assert re.search(said, text), text


def test_a_failure_is_small_and_its_line_replays_it() -> None:
    result = run(fakes.OneOff(), op="square")
    failure = result.failures[0]
    assert failure.replay is not None
    text = failure.replay.split("'")[1]
    row, case = read_case(text)
    assert case.shapes == ((5,),)
    assert case.recipes[0].layout == "contiguous"
    contract = fakes.OneOff().capabilities().contract("square", "fp32")
    assert kind_of(row).measure(fakes.OneOff(), case, contract).failed
    assert not kind_of(row).measure(fakes.Right(), case, contract).failed
    assert "result[4]: got" in "\n".join(failure.lines())


def test_a_raising_backend_is_an_error() -> None:
    result = run(fakes.Raising())
    assert result.status == "error"
    assert "RuntimeError: out of order" in "\n".join(result.failures[0].lines())


def test_what_is_not_offered_is_unsupported() -> None:
    assert run(fakes.Right(), op="add").status == "unsupported"
    assert run_row(fakes.Right(), Row("sgd", "update", "fp32"), **QUICK).status == "unsupported"


def test_rows_do_not_depend_on_what_ran_before() -> None:
    alone = run(fakes.Right())
    run(fakes.Right(), op="square")
    assert run(fakes.Right()) == alone


def test_near_misses_and_crashes_take_no_room_of_values() -> None:
    result = run(fakes.Lenient())
    said = [failure.title for failure in result.failures]
    assert sum("accepts mul" in title for title in said) >= 2
    assert any("result[" in line for failure in result.failures for line in failure.details), said
    assert result.cases > 0 and result.worst_fraction is not None and result.worst_fraction > 1


@pytest.mark.parametrize(
    ("backend", "beside"), [(fakes.Hollow, "nonconformant"), (fakes.Fastidious, "conformant")]
)
def test_a_crash_names_its_case_and_leaves_the_others_judged(backend: type, beside: str) -> None:
    result = run(backend(), op="square")
    assert (result.status, result.beside) == ("error", beside)
    assert result.verdict == f"error, else {beside}" and exit_code([result]) == CRASH
    crashes = [failure for failure in result.failures if failure.crash]
    assert "nothing to do" in crashes[0].details[0] and "replay-case" in (crashes[0].replay or "")
    assert result.cases > 0 and result.judged > 0 and result.worst_fraction is not None
    assert (result.worst_fraction > 1) == (beside == "nonconformant")


def test_what_a_slot_has_no_room_for_is_counted() -> None:
    tally = Tally()
    for number in range(MOST_FAILURES + 2):
        tally.fail("values", Failure(str(number)))
        tally.fail("extras", Failure(str(number), kind="crash"))
    assert [failure.title for failure in tally.shown()] == [
        *("0", "1", "2", "2 more crashes: extras"),
        *("0", "1", "2", "2 more failures: values"),
    ]


class Mortality(dict[str, Any]):
    """The notes of a task whose processes ended at questions about some cases."""

    def __init__(self, late: bool, deadly: Callable[[tuple[int, ...]], bool]) -> None:
        self.how, self.deadly = notes.Ended("was ended", late), deadly
        self.met: list[str] = []

    def __contains__(self, question: object) -> bool:
        text = str(question)
        if not text.startswith("{"):
            return False
        _, case = read_case(text.rpartition("}")[0] + "}")
        return self.deadly(case.shapes[0])

    def __getitem__(self, question: str) -> notes.Ended:
        self.met.append(question)
        return self.how


def test_a_row_ends_with_what_it_has_where_too_many_calls_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mortality = Mortality(late=True, deadly=lambda shape: math.prod(shape) > 20)
    monkeypatch.setattr(notes, "answers", lambda: mortality)
    result = run(fakes.OneOff(), op="square")
    assert len(set(mortality.met)) == MOST_ENDED
    assert (result.status, result.beside) == ("error", "nonconformant")
    crashes = [failure for failure in result.failures if failure.crash]
    assert [failure.kind for failure in crashes[:3]] == ["late"] * 3
    assert "the call was ended" in crashes[0].details[0]
    told = [failure.title for failure in result.failures]
    assert told[-1] == "nothing more was asked, as 3 processes have ended"


def test_cases_unlike_those_at_which_processes_ended_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mortality = Mortality(late=False, deadly=lambda shape: len(shape) > 2)
    monkeypatch.setattr(notes, "answers", lambda: mortality)
    result = run(fakes.Right(), op="square")
    assert MOST_ENDED <= len(set(mortality.met)) < MOST_IN_ALL
    assert (result.status, result.beside) == ("error", "conformant")
    assert result.cases >= QUICK["counted"]
    crashes = [failure for failure in result.failures if failure.crash]
    assert crashes[0].kind == "died" and "the process was ended" in crashes[0].details[0]
    assert all("nothing more was asked" not in failure.title for failure in result.failures)
    left = r"\d+ cases of rank \d and an extent of .*, at one of which a process ended"
    assert any(re.fullmatch(left, said) for said in result.left_out), result.left_out


def case_of(regime: str, second: str = "", size: int = 5, seeds: tuple[int, int] = (0, 1)) -> str:
    """Write a case of products, of numbers of one regime or of two."""
    recipes = (
        f'[["{regime}",{seeds[0]},"contiguous"],["{second or regime}",{seeds[1]},"contiguous"]]'
    )
    shapes = f'"shapes":[[{size}],[{size}]]'
    return f'{{"op":"mul","direction":"value","dtype":"fp32",{shapes},"recipes":{recipes}}}'


def declared(regime: str, **fields: object) -> str:
    """Write a finding about products, with a case of one regime."""
    lines = [f"{name} = {_toml(value)}" for name, value in fields.items()]
    named = "kind = 'case'\nbackend = 'right'\nop = 'mul'\ndirection = 'value'\n"
    told = f"[[finding]]\n{named}reason = 'known'\ncase = '{case_of(regime)}'\n"
    return told + "\n".join(lines) + "\n"


def judged_with(text: str, backend: object) -> RowResult:
    options = {"counted": 8, "seed": 0, "findings": parse(text)}
    return run_row(backend, Row("mul", "value", "fp32"), **options)


EVERYWHERE = ["integers", "normal", "mixed", "offset", "zeros", "ties", "kinks", "constant"]
EVERYWHERE += ["logits", "tiny"]


NARROW: dict[str, object] = {"regimes": EVERYWHERE, "got": ["finite"], "ratio": 32.0}
EXACT = declared("integers", regimes=EVERYWHERE, got=["finite"], error=2.0**-19)
"""What declares the elements of OneOff that should be exact; NARROW is for the others."""

SUBNORMAL = case_of("kinks", "tiny", 7, (3, 0))
SMALL = declared("tiny", regimes=["tiny"], got=["subnormal"], exact=["subnormal"], ratio=8.0)
SMALL = SMALL.replace(case_of("tiny"), SUBNORMAL)
"""What declares its elements that are subnormal."""


def test_a_finding_excuses_what_it_names_and_the_row_is_declared() -> None:
    text = declared("normal", **NARROW) + EXACT + SMALL
    result = judged_with(text, fakes.OneOff())
    assert (result.status, result.failures) == ("declared", ()), result.failures
    assert result.declared[0]["reason"] == "known" and exit_code([result]) == CONFORMANT
    assert result.worst_fraction is not None and result.worst_fraction > 1


@pytest.mark.parametrize(
    ("backend", "changed", "said"),
    [
        (fakes.Doubled, {}, "budget"),
        (fakes.Unwritten, {}, "got nan"),
        (fakes.OneOff, {"regimes": ["normal"]}, "budget"),
        (fakes.OneOff, {"regimes": {"input 1": ["normal"]}}, "budget"),
        (fakes.OneOff, {"ratio": 2.0}, "budget"),
        (fakes.OneOff, {"ratio": 2.0**10}, "too wide: .*\n.* reaches 1[0-9.]* of the ratio 1.02e"),
        (
            fakes.OneOff,
            {"got": ["finite", "nan"]},
            "too wide: .*\n.* no element that got calls nan",
        ),
        (fakes.OneOff, {"got": ["zero"]}, "budget"),
        (fakes.OneOff, {"exact": ["zero"]}, "budget"),
        (fakes.OneOff, {"results": ["tangent"]}, "budget"),
        (fakes.Overwriting, {}, "of its own memory"),
        (fakes.Flattening, {}, "expected shape"),
        (fakes.Right, {}, "declared finding passes"),
    ],
)
def test_anything_worse_or_elsewhere_fails(
    backend: type, changed: dict[str, object], said: str
) -> None:
    text = declared("normal", **{**NARROW, **changed}) + EXACT
    result = judged_with(text, backend())
    assert result.status == "nonconformant" and exit_code([result]) == NONCONFORMANT
    text = "\n".join(line for failure in result.failures for line in failure.lines())
    assert re.search(said, text), text


def test_what_fails_is_proposed_as_findings_that_declare_it() -> None:
    row, options = Row("mul", "value", "fp32"), {"counted": 8, "seed": 0}
    found = run_row(fakes.Lenient(), row, **options, findings=(), declare=True)
    assert found.status == "nonconformant" and len(found.proposed) >= 2
    text = "\n\n".join(found.proposed)
    with pytest.raises(ValueError, match="has no reason: write in"):
        parse(text)
    findings = parse(text.replace('reason = ""', 'reason = "known"'))
    assert {finding.kind for finding in findings} == {"case", "near-miss"}
    again = run_row(fakes.Lenient(), row, **options, findings=findings)
    assert (again.status, again.failures) == ("declared", ())
    assert exit_code([again]) == CONFORMANT


def test_the_time_of_a_row_is_told_apart() -> None:
    spent = run(fakes.Right()).spent
    assert 0 < spent.backend < spent.oracle < spent.whole
    assert spent.oracle + spent.backend <= spent.whole


def test_statuses() -> None:
    plain = {"failed": False, "crashed": False, "counted": 8, "wanted": 8, "judged": 95}
    assert status_of(**plain, unconstrained=5) == "conformant"
    assert status_of(**plain, unconstrained=6) == "ambiguous"
    assert status_of(**{**plain, "counted": 7}, unconstrained=0) == "vacuous"
    assert status_of(**plain, unconstrained=5, declared=True) == "declared"
    assert status_of(**plain, unconstrained=6, declared=True) == "ambiguous"
    assert status_of(**{**plain, "failed": True, "counted": 0}, unconstrained=9) == "nonconformant"
    assert status_of(**{**plain, "failed": True, "crashed": True}, unconstrained=9) == "error"


def test_exit_codes() -> None:
    def rows(*statuses: str) -> list[RowResult]:
        return [RowResult(Row("mul", "value", "fp32"), status) for status in statuses]

    assert exit_code(rows("conformant", "unsupported")) == CONFORMANT
    assert exit_code(rows("declared", "recorded")) == CONFORMANT
    assert exit_code(rows("conformant", "nonconformant", "vacuous")) == NONCONFORMANT
    assert exit_code(rows("ambiguous")) == NONCONFORMANT
    assert exit_code(rows("conformant", "vacuous")) == VACUOUS
    assert exit_code(rows("unsupported")) == VACUOUS
    assert exit_code([]) == VACUOUS
    assert exit_code(rows("nonconformant", "error")) == CRASH
