"""The matrix: what the suite says of planted members, its exit codes, its file and its table.

What is said can be asked again: of the members that an interrupted run left, and of one case.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from equivalence.backends import UnknownBackend, load
from equivalence.runs.report import aligned
from population import matrix, registry
from population.command import main
from population.judged.verdicts import Verdict, judged
from population.record import Member, right, wrong
from population.table import lines, marked, summary
from tools.tree import ROOT


@wrong("tanh value", "value")
def zero(x: Tensor) -> Tensor:
    """It is always zero."""
    return torch.zeros_like(x)


@wrong("tanh value", "value")
def hidden(x: Tensor) -> Tensor:
    """It is wrong nowhere, so that nobody can catch it."""
    return torch.tanh(x)


@right("tanh value", "precision")
def doubly(x: Tensor) -> Tensor:
    """It computes in double."""
    return torch.tanh(x.double()).to(x.dtype)


@right("tanh value", "precision")
def accused(x: Tensor) -> Tensor:
    """It is called right and is not."""
    return torch.tanh(x) + 1


def test_the_suite_tells_them_apart() -> None:
    assert judged(zero, "quick").accepted is False
    assert "tanh value fp32" in judged(zero, "quick").says
    assert judged(doubly, "quick", seeds=2).accepted is True


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ([zero, doubly], 0),
        ([zero, hidden], 1),
        ([doubly, accused], 1),
        ([replace(hidden, indistinguishable="it is torch's own tanh")], 0),
    ],
    ids=["all as they should be", "one passes", "one is refused", "nothing could show it"],
)
def test_exit_codes(
    members: list[Member], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "everyone", lambda: tuple(members))
    path = tmp_path / "matrix.json"
    asked = ["--profile", "quick", "--jobs", "0", "--no-rivals", "--json", str(path)]
    assert main(asked) == code
    runs, verdicts = matrix.read(path)
    assert list(runs) == ["quick"] and list(verdicts) == [m.name for m in members]


def test_who_asks_for_nobody_is_told() -> None:
    assert main(["--only", "nobody"]) == 2
    assert main(["--seeds", "0"]) == 2
    assert main(["--profile", "never"]) == 2


def test_a_file_collects_judges(tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    for profile, said in (("quick", True), ("ci", False)):
        verdicts = {zero.name: {profile: Verdict(said, "words", 1.0)}}
        matrix.write(path, matrix.to_plain(profile, [zero], verdicts, 2.0, 1))
    runs, verdicts = matrix.read(path)
    assert list(runs) == ["quick", "ci"]
    assert {j: v.accepted for j, v in verdicts[zero.name].items()} == {"quick": True, "ci": False}


def test_a_file_of_another_format_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    path.write_text('{"schema": 2, "runs": {}, "members": {}}', encoding="utf-8")
    asked = ["--profile", "quick", "--jobs", "0", "--no-rivals", "--only", zero.name]
    assert main([*asked, "--json", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == '{"schema": 2, "runs": {}, "members": {}}'


def test_the_table_counts_by_judge_and_by_kind() -> None:
    members = [zero, hidden, doubly]
    verdicts = {
        zero.name: {"ci": Verdict(False), "fuzzed": Verdict(False)},
        hidden.name: {"ci": Verdict(True), "fuzzed": Verdict(None)},
        doubly.name: {"ci": Verdict(False), "fuzzed": Verdict(True)},
    }
    assert list(lines(members, verdicts))[1:] == [
        (zero.name, "value", "caught", "caught"),
        (hidden.name, "value", "missed", "-"),
        (doubly.name, "precision", "refused", "passed"),
    ]
    assert list(summary(members, verdicts)) == [
        ("", "ci", "fuzzed"),
        ("wrong, caught", "1 of 2", "1 of 1"),
        ("right, passed", "0 of 1", "1 of 1"),
        ("value, caught", "1 of 2", "1 of 1"),
    ]
    assert marked(summary(members, verdicts)).splitlines()[1] == "| --- | --- | --- |"
    assert aligned(iter([("a", "b"), ("ccc", "d")])) == "a    b\nccc  d"


def test_an_interrupted_run_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "everyone", lambda: (zero, doubly, accused))

    def cut(member: Member, profile: str, seeds: int) -> Verdict:
        if member is doubly:
            raise KeyboardInterrupt
        return judged(member, profile, seeds)

    path = tmp_path / "matrix.json"
    with monkeypatch.context() as patch:
        patch.setattr(matrix, "judged", cut)
        asked = ["--profile", "quick", "--seeds", "2", "--no-rivals", "--json", str(path)]
        assert main([*asked, "--jobs", "0"]) == 130
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last[0] == "interrupted with 1 of 3 members done; go on with"
    on = shlex.split(last[1])
    assert on[:3] == ["python", "-m", "population"] and zero.name not in last[1]
    assert main([*on[3:], "--jobs", "0"]) == 1, "one that is called right is not"
    assert "refused at quick: tanh: accused" in capsys.readouterr().out
    runs, verdicts = matrix.read(path)
    assert runs["quick"]["seeds"] == 2
    assert list(verdicts) == [zero.name, doubly.name, accused.name]


def ran(line: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line that begins with `python` in a fresh process, by what is installed alone."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *line[1:]],
        cwd=folder,
        env=bare,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.full
def test_it_is_found_without_a_path(tmp_path: Path) -> None:
    """By the command and its workers, and by the line that replays what a member was caught by."""
    line = ["python", "-m", "population", "--profile", "quick", "--jobs", "2", "--no-rivals"]
    for folder in (ROOT, tmp_path):
        done = ran([*line, "--only", "tanh: by *", "softmax: maximum forgotten"], folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "4 members at quick" in done.stdout
    caught = judged(registry.named("softmax: maximum forgotten"), "quick")
    again = shlex.split(caught.replay)
    assert again[-1] == "population:softmax: maximum forgotten"
    for folder in (ROOT, tmp_path):
        done = ran(again, folder)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "on population softmax: maximum forgotten" in done.stdout


def test_who_is_no_backend_is_refused() -> None:
    for name in ("tanh: nobody", "session: versions never rise"):
        with pytest.raises(UnknownBackend, match=f"has no attribute '{name}'"):
            load(f"population:{name}")


def test_a_judge_that_was_not_asked_is_no_success() -> None:
    assert matrix.exit_code("ci", [zero], {zero.name: {}}) == 3
