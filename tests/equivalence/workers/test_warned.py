"""Warnings of workers are told once, with their number, and a worker without a caller is quiet."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import pytest

from equivalence.workers import pool, warned
from equivalence.workers.pool import spread
from fast import Unmoved


def noisy(number: int) -> int:
    warnings.warn_explicit(f"tile of {number % 2}", UserWarning, "kernel.py", 7)
    warnings.warn_explicit(f"step {number}: no parameter was updated", Unmoved, "kernel.py", 8)
    return number


@pytest.mark.slow
def test_warnings_of_workers_are_told_after_the_results(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert dict(spread(noisy, [(n,) for n in range(4)], 2)) == {n: n for n in range(4)}
    said = capfd.readouterr().err.splitlines()
    assert sorted(said) == [
        "warning (2 times): UserWarning: tile of 0 (at kernel.py:7)",
        "warning (2 times): UserWarning: tile of 1 (at kernel.py:7)",
    ]


def test_many_warnings_are_counted_and_lines_of_others_left_out(tmp_path: Path) -> None:
    path, out = tmp_path / "warnings", io.StringIO()
    with warnings.catch_warnings():
        warned.collect(path)
        warnings.simplefilter("always")
        for number in range(warned.MOST + 3):
            warnings.warn(f"number {number}", stacklevel=1)
    with path.open("a", encoding="utf-8") as file:
        file.write('no JSON\n[]\n{"warning": "half"}\n')
    warned.tell(path, out)
    lines = out.getvalue().splitlines()
    assert len(lines) == warned.MOST + 1 and lines[-1] == "and 3 other warnings"
    warned.tell(tmp_path / "none", out)
    assert out.getvalue().splitlines() == lines


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError, ConnectionResetError])
def test_a_worker_without_a_caller_says_nothing(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Multiprocessing prints `Process SpawnProcess-1:` and a traceback of what leaves it."""

    def cut(*given: object) -> None:
        raise error

    monkeypatch.setattr(pool, "_serve", cut)
    pool._work(None, None, {})  # type: ignore[arg-type]
