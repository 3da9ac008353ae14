"""Ctrl-C: what is finished is told and written, the line that goes on works, no worker stays."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from equivalence.cli import commands
from equivalence.cli.commands import main
from equivalence.runs import run
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import run_row
from equivalence.sessions.seen import Seen
from equivalence.sessions.stateful import machine
from tests.support import untimed
from tools.tree import ROOT

pytestmark = pytest.mark.slow

BACKEND = ["--backend", "torch", "--profile", "quick", "--ops", "relu", "reshape"]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, wanted: Row) -> None:
    """Let Ctrl-C come while a row is run."""

    def cut(backend: object, row: Row, **options: object) -> RowResult:
        if row == wanted:
            raise KeyboardInterrupt
        return run_row(backend, row, **options)

    monkeypatch.setattr(run, "run_row", cut)


def test_an_interrupted_run_reports_and_its_line_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole, path = tmp_path / "whole.json", tmp_path / "cut.json"
    assert main(["run", *BACKEND, "--jobs", "0", "--json", str(whole)]) == 0
    with monkeypatch.context() as patch:
        interrupt_at(patch, Row("relu", "value", "bf16"))
        assert main(["run", *BACKEND, "--jobs", "0", "--json", str(path)]) == 130
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert plain["complete"] is False and plain["missing"][0] == "relu value bf16"
    shown = capsys.readouterr().out
    assert "interrupted with 2 of 16 rows done" in shown
    on = shlex.split(shown.splitlines()[-1])
    assert on == ["python", "-m", "equivalence", "run", "--resume", str(path)]
    assert main([*on[3:], "--jobs", "0"]) == 0
    told = capsys.readouterr()
    assert "torch: 2 of 16 done" in told.err and "12 conformant, 4 declared" in told.out
    again, once = (json.loads(p.read_text(encoding="utf-8")) for p in (path, whole))
    assert untimed(again) == untimed(once) and again["complete"] is True


def test_without_a_file_the_line_names_what_remains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_at(monkeypatch, Row("reshape", "value", "fp32"))
    assert main(["run", *BACKEND, "--jobs", "0"]) == 130
    on = capsys.readouterr().out.splitlines()[-1].strip()
    assert on == (
        "python -m equivalence run --backend torch --ops reshape --profile quick --seed 0"
    )


def test_an_interrupted_machine_goes_on_with_the_same_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, int]] = []

    def driven(provider: str, precision: str, number: int, *more: int) -> Seen:
        asked.append((f"{provider} {precision}", more[1]))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return Seen(cases=number, judged=1)

    monkeypatch.setattr(machine, "run_machine", driven)
    assert main(["machine", "--profile", "quick", "--seed", "4", "--jobs", "0"]) == 130
    on = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert on[3] == "machine" and "lives aten fp32" not in on[-1]
    assert main([*on[3:], "--jobs", "0"]) == 0
    first, cut, again = asked[:3]
    assert cut == again and first not in asked[1:]
    assert "3 conformant" in capsys.readouterr().out


def test_an_interrupt_before_any_work_is_told_shortly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(chosen: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(commands._COMMANDS, "list", cut)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "interrupted before anything was finished\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_signal_ends_the_run_and_its_workers(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "equivalence", "run", "--backend", "torch"]
    process = subprocess.Popen(
        [*command, "--profile", "ci", "--jobs", "2", "--json", str(tmp_path / "x.json")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )
    assert process.stderr is not None
    for told in process.stderr:
        if told.startswith("running "):
            break
    # As a terminal does: every process of the group hears it.
    os.killpg(process.pid, number) if number is signal.SIGINT else process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert re.search(r"interrupted with \d+ of \d+ rows done; go on with", out)
    until = time.monotonic() + 10
    while group_lives(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not group_lives(process.pid)


def hear_interrupts() -> None:
    """Hear Ctrl-C as under a terminal: what a shell starts in the background does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def group_lives(group: int) -> bool:
    """Say whether any process of a group is there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
