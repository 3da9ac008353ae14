"""Options: names by spaces or commas, outputs checked first, and runs that go on from a file."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from equivalence.cli.commands import parser
from equivalence.cli.options import (
    OPTIONS,
    UsageError,
    check_output,
    filled,
    flag,
    line,
    remaining,
    request,
    write,
)
from equivalence.measure.spent import Spent
from equivalence.runs.failure import Failure
from equivalence.runs.results import Row, RowResult, document, read_row
from tests.support import untimed

RESULT = RowResult(
    Row("mul", "value", "fp32"),
    "nonconformant",
    cases=8,
    worst_fraction=float("inf"),
    contract="c",
    inferred="none",
    ring="host",
    judged=80,
    unconstrained=1,
    failures=(Failure("title", ("one", "two"), "replay", "late"),),
    declared=({"op": "mul", "reason": "known"},),
    beside="declared",
    proposed=("[[finding]]",),
    spent=Spent(3.0, 2.0, 1.0),
)


def chosen(*arguments: str) -> argparse.Namespace:
    return filled(parser().parse_args(arguments))[0]


def earlier(path: Path, command: str = "run", **asked: object) -> Path:
    """Write the file of a run that was cut short."""
    plain = document("torch", {"seed": 5}, [RESULT], [Row("add", "value", "fp32")])
    write(path, {**plain, "command": command, "request": asked})
    return path


@pytest.mark.parametrize("given", [["mul", "add"], ["mul,add"], ["mul,", "add"], ["mul", ",add,"]])
def test_names_come_by_spaces_or_commas(given: list[str]) -> None:
    assert chosen("run", "--backend", "torch", "--ops", *given).ops == ["mul", "add"]


def test_a_row_of_the_pairs_keeps_its_spaces() -> None:
    rows = chosen("programs", "--only", "moved aten fp32,* triton *", "clipped *").only
    assert rows == ["moved aten fp32", "* triton *", "clipped *"]


def test_defaults_are_filled_in_and_written_down() -> None:
    """A later default is not what the run was made with; so JSON says all that decided it."""
    options = chosen("run", "--backend", "torch")
    assert (options.profile, options.seed, options.ops) == ("ci", None, None)
    asked = request(options)
    assert set(asked) == {name for name in options.options if OPTIONS[name].asked}
    assert (asked["backend"], asked["profile"], asked["fence"]) == ("torch", "ci", False)
    assert line("run", asked) == "python -m equivalence run --backend torch"
    assert options.jobs == (os.cpu_count() or 1)


def test_a_number_of_processes_is_positive() -> None:
    with pytest.raises(UsageError, match="or 0 for this process; got -1"):
        chosen("programs", "--jobs", "-1")


def test_a_limit_is_positive() -> None:
    assert chosen("run", "--backend", "torch").call_limit == 60.0
    assert request(chosen("run", "--call-limit", "1.5"))["call_limit"] == 1.5
    assert line("run", {"call_limit": 1.5}) == "python -m equivalence run --call-limit 1.5"
    with pytest.raises(UsageError, match="--call-limit is a number of seconds above 0; got 0"):
        chosen("run", "--call-limit", "0")


def test_a_row_is_read_as_it_was_written() -> None:
    again = read_row(json.loads(json.dumps(RESULT.to_dict())))
    assert again == RESULT and again.spent == RESULT.spent


def test_a_file_of_an_older_schema_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = earlier(tmp_path / "x.json", backend="torch")
    plain = json.loads(path.read_text(encoding="utf-8"))
    row = untimed(plain)[0]
    write(path, {**plain, "schema": 1, "rows": [{**row, "excused": True}]})
    with pytest.raises(UsageError, match=r"has schema 1, and this suite continues schema 2"):
        chosen("run", "--resume", str(path))


def test_a_resumed_run_asks_for_the_same(tmp_path: Path) -> None:
    path = earlier(tmp_path / "x.json", backend="torch", ops=["mul", "add"], seed=5, record="/r")
    options, before = filled(parser().parse_args(["run", "--resume", str(path), "--jobs", "3"]))
    assert (options.backend, options.ops, options.seed) == ("torch", ["mul", "add"], 5)
    assert (options.record, options.json, options.jobs) == (Path("/r"), path, 3)
    assert options.profile == "ci" and before.results == (RESULT,)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--backend", "jax"], "with --backend torch, and --backend jax came: leave that out"),
        (["--seed", "6"], "with --seed 5, and --seed 6 came"),
        (["--ops", "add"], "with --ops mul, and --ops add came"),
        (["--profile", "quick"], "with --profile ci, and --profile quick came"),
        (["--fence"], "with no --fence, and --fence came"),
        (["--findings", "known.toml"], r"with no --findings, and --findings \S+/known.toml came"),
        (["--declare", "new.toml"], r"with no --declare, and --declare \S+/new.toml came"),
        (["--pages", "mine"], "with no --pages, and --pages mine came"),
        (["--call-limit", "5"], r"with --call-limit 60.0, and --call-limit 5.0 came"),
        (["--record", "r"], "with no --record, and --record"),
        (["--replay", "r"], "with no --replay, and --replay"),
        (["--ring", "host"], "with no --ring, and --ring host came"),
    ],
)
def test_a_resumed_run_asks_for_nothing_else(more: list[str], said: str, tmp_path: Path) -> None:
    path = earlier(tmp_path / "x.json", backend="torch", ops=["mul"], seed=5)
    assert filled(parser().parse_args(["run", "--resume", str(path), "--seed", "5"]))
    with pytest.raises(UsageError, match=said):
        filled(parser().parse_args(["run", "--resume", str(path), *more]))


def test_every_option_that_decides_a_run_was_tried_above() -> None:
    marks = test_a_resumed_run_asks_for_nothing_else.pytestmark  # type: ignore[attr-defined]
    tried = {more[0] for mark in marks for more, _ in mark.args[1]}
    assert tried == {flag(name) for name in chosen("run").options if OPTIONS[name].asked}


def test_the_same_names_in_another_order_ask_for_the_same(tmp_path: Path) -> None:
    path = earlier(tmp_path / "x.json", backend="torch", ops=["mul", "add"], seed=5)
    assert chosen("run", "--resume", str(path), "--ops", "add", "mul").ops == ["add", "mul"]


def test_a_run_is_resumed_by_what_its_own_file_says(tmp_path: Path) -> None:
    """All options go to the file and come back, a path among them."""
    asked = request(chosen("run", "--backend", "torch", "--fence", "--findings", "known.toml"))
    path = earlier(tmp_path / "x.json", **asked)
    options = chosen("run", "--resume", str(path), "--findings", "known.toml")
    assert options.fence is True and options.record is None
    assert request(options) == asked


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"command": "run", "rows": [{}]}'])
def test_a_file_that_no_run_wrote_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"x\.json was not written by --json of run"):
        chosen("run", "--resume", str(path))


def test_a_file_of_another_command_names_it(tmp_path: Path) -> None:
    path = earlier(tmp_path / "x.json", command="programs")
    with pytest.raises(UsageError, match=f"equivalence programs --resume {path}"):
        chosen("run", "--resume", str(path))
    with pytest.raises(UsageError, match="No such file"):
        chosen("run", "--resume", str(tmp_path / "none.json"))


def test_an_output_is_checked_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*deep; make it first"):
        check_output(tmp_path / "deep" / "x.json")
    with pytest.raises(UsageError, match="is a folder"):
        check_output(tmp_path)
    check_output(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--json /proc/x\.json cannot be written"):
        check_output(Path("/proc/x.json"))
    with pytest.raises(UsageError, match="'-' came: write /dev/stdout"):
        check_output(Path("-"))


def test_what_is_no_file_is_written_as_it_stands() -> None:
    check_output(Path(os.devnull))
    write(Path(os.devnull), {})
    assert not Path(os.devnull).is_file()


def test_the_line_that_goes_on() -> None:
    missing = [Row("add", "value", "fp32"), Row("add", "vjp", "fp32"), Row("exp", "vjp", "bf16")]
    asked = {"backend": "torch", "seed": 5}
    assert remaining("run", asked, missing) == (
        "python -m equivalence run --backend torch --seed 5 --ops add,exp"
    )
    rows = [Row("lives", "aten", "fp32"), Row("lives", "triton", "bf16")]
    assert remaining("machine", {"seed": 5, "shrink": True, "provider": ["aten"]}, rows) == (
        "python -m equivalence machine --seed 5 --shrink --only 'lives aten fp32,lives triton bf16'"
    )
    assert line("run", {"resume": "a b.json"}) == "python -m equivalence run --resume 'a b.json'"
