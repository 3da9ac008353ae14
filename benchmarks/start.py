"""From the start of a process to its first compiled step, with nothing, little or all on disk.

Each number is one fresh process, `benchmarks.first_step`, which this one waits for. Its home, its
temporary files, torch's cache and ours lie in a folder of its own. Times are seconds, not ratios;
beside them stands what the process, imports and compilers included, took of a processor.

* Never compiled: all of that is empty. The time is from the start of the process.
* Warm: torch's precompiled headers are there from the row before, and nothing else is. The time is
  from the start of the process.
* From the cache: our artifact is there from the row before, torch's cache is empty, and no program
  is on the PATH. The time is from the end of the imports and of drawing the data.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import time
from typing import Any

import torch

from benchmarks.engines import APART, eager, taken
from benchmarks.report import ROOT, Row, environment, save, show
from benchmarks.works import WORKS

WORK = WORKS[0]

NEVER, WARM, CACHED = "never compiled", "warm", "from the cache, no compiler"

TARGETS = {NEVER: 90.0, WARM: 25.0, CACHED: 0.2}
"""Seconds to the first step; the last one is counted from the end of the imports."""

HEADERS = "precompiled_headers"
"""What torch keeps of a compiler's work on its headers, among temporary files or in its cache."""


def main(path: Path | None, runs: int) -> int:
    """Time every start so often, print, and if asked save, each row; misses are shown."""
    torch.set_num_threads(1)
    about = environment("cpu")
    results: dict[str, Any] = {"schema": 1, "environment": about, "rows": []}
    for row in rows(runs):
        show(row)
        results["rows"].append(row)
        if path is not None:
            save(path, results)
    return 0


def rows(runs: int) -> Iterator[Row]:
    """One row for each way to start; the losses are compared with torch eager's."""
    known = taken(*eager(WORK), 1)
    found = [once(known) for _ in range(runs)]
    for name, target in TARGETS.items():
        seconds, spent = (sorted(column) for column in zip(*(f[name] for f in found), strict=True))
        yield {
            "name": f"{WORK.name}, first step: {name}",
            "seconds": median(seconds),
            "spread": [seconds[0], seconds[-1]],
            "processor_s": median(spent),
            "target": target,
            "runs": runs,
        }


def once(known: float) -> dict[str, tuple[float, float]]:
    """Start in each of the three ways in a new folder; return their seconds, and a processor's."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        never = started(place, known)
        inductor = place / "inductor"
        for left in [*inductor.iterdir()]:
            if left.name != HEADERS:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        shutil.rmtree(place / "twingrad")
        warm = started(place, known)
        shutil.rmtree(inductor)
        artifacts = sorted((place / "twingrad").rglob("*.artifact"))
        cached = started(place, known, PATH=str(place))
        if sorted((place / "twingrad").rglob("*.artifact")) != artifacts:
            raise RuntimeError("a start from the cache made an artifact")
        return {
            NEVER: (never["done"] - never["started"], never["spent"]),
            WARM: (warm["done"] - warm["started"], warm["spent"]),
            CACHED: (cached["done"] - cached["imported"], cached["spent"]),
        }


def started(place: Path, known: float, **more: str) -> dict[str, float]:
    """Start one process whose files all lie in a folder, and return what it said and when."""
    folders = {
        "HOME": "home",
        "TMPDIR": "tmp",
        "XDG_CACHE_HOME": "home/.cache",
        "TWINGRAD_CACHE": "twingrad",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
    }
    for folder in folders.values():
        (place / folder).mkdir(parents=True, exist_ok=True)
    inside = {name: str(place / folder) for name, folder in folders.items()}
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **inside, **more}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_step", WORK.name],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the process that takes a step ended with {done.stderr}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if abs(told["loss"] - known) > APART * abs(known):
        raise RuntimeError(f"{WORK.name}: the loss is {told['loss']}, and torch's {known}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**told, "started": begun, "spent": spent}
