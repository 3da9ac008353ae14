"""What tests of every room share: when two results are the same, and two runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from torch import Tensor


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
    """Run a command of the judge in a folder, as its user would."""
    return subprocess.run(
        [sys.executable, "-m", "equivalence", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


def untimed(plain: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a run, as its file has them, without the time that they took."""
    return [{key: v for key, v in row.items() if key != "seconds"} for row in plain["rows"]]
