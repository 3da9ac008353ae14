"""What tests of every room share: when two results are the same, and two runs."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from equivalence.workers.born import context, started


def same(one: Any, two: Any) -> bool:
    """Say whether results are equal: NaN is NaN, dtypes and shapes count; lists go item by item."""
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        if one.dtype is not two.dtype or one.shape != two.shape:
            return False
        return bool(((one == two) | (one.isnan() & two.isnan())).all())
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and bool(one == two)


def same_where_it_fits(found: Tensor, truth: Tensor) -> bool:
    """Compare where the true number fits the dtype that was found, which some of them must."""
    fits = truth.to(found.dtype).to(truth.dtype) == truth
    assert truth.numel() == 0 or fits.any()
    return found.shape == truth.shape and same(found[fits].to(truth.dtype), truth[fits])


def judge(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the judge in a folder, as its user would.

    Where forks are safe, its process has torch imported: that takes longer than most commands.
    """
    with tempfile.TemporaryDirectory() as written:
        made = context().Process(target=_command, args=(folder, written, arguments))
        with started():
            made.start()
        made.join()
        out, err = ((Path(written) / name).read_text("utf-8") for name in ("out", "err"))
    return subprocess.CompletedProcess(arguments, made.exitcode or 0, out, err)


def _command(folder: Path, written: str, arguments: Sequence[str]) -> None:
    """Become the command, in a process of its own."""
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        with (Path(written) / name).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path.insert(0, str(folder))
    sys.argv = ["equivalence", *arguments]
    runpy.run_module("equivalence", run_name="__main__", alter_sys=True)


def untimed(plain: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a run, as its file has them, without the time that they took."""
    return [{key: v for key, v in row.items() if key != "seconds"} for row in plain["rows"]]
