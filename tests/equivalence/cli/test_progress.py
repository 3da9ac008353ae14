"""Progress: a line for each row in a pipe, a bar on a terminal, and a word before the first row."""

from __future__ import annotations

import io
import time

import pytest

from equivalence.cli import progress
from equivalence.cli.progress import Progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_a_line_for_each_row_and_a_word_before_the_first() -> None:
    out = io.StringIO()
    with Progress("torch", 2, stream=out) as shown:
        assert out.getvalue() == "torch: 0 of 2 done\n"
        shown.started("add value fp32")
        assert out.getvalue().endswith("running add value fp32 ...\n")
        shown.finished("add value fp32", "conformant")
        shown.started("mul value fp32")
        shown.finished("mul value fp32", "error")
    lines = out.getvalue().splitlines()
    assert lines[2:] == [
        "[1/2] add value fp32: conformant, 0.0 s",
        "[2/2] mul value fp32: error, 0.0 s",
    ]


def test_a_pipe_hears_nothing_of_what_is_not_supported() -> None:
    out = io.StringIO()
    with Progress("torch", 2, stream=out) as shown:
        shown.started("add value fp32")
        shown.finished("add value fp32", "unsupported")
        shown.started("mul value fp32")
        shown.finished("mul value fp32", "conformant")
    assert [text.split(":")[0] for text in out.getvalue().splitlines()] == [
        "torch",
        "running add value fp32 ...",
        "[2/2] mul value fp32",
    ]


def test_a_pipe_is_told_what_is_still_in_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.5)
    out = io.StringIO()
    with Progress("torch", 1, stream=out) as shown:
        shown.started("add value fp32")
        until = time.monotonic() + 20
        while "still running" not in out.getvalue() and time.monotonic() < until:
            time.sleep(0.1)
    assert "[0/1] still running add value fp32 (" in out.getvalue()


def test_a_terminal_gets_a_bar_with_the_row_in_work() -> None:
    pytest.importorskip("rich")
    out = Terminal()
    with Progress("torch", 3, done=1, stream=out) as shown:
        shown.started("add value fp32")
        shown.started("mul value fp32")
        shown._bar.refresh()
        assert "add value fp32 and 1 more" in out.getvalue() and "1/3" in out.getvalue()
        shown.finished("add value fp32", "conformant")
        shown._bar.refresh()
        assert "2/3" in out.getvalue()
