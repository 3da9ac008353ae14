"""This tree beside an older commit: both take the same step in turn, each in a process of its own.

The older tree is unpacked under build/, and its own `benchmarks.cpu.our_step` is what its process
runs. Torch's step is timed in turn with both, so that a slow moment of the machine hits all three.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.report import ROOT, Row, environment, fails, git, save, show
from benchmarks.targets import AGAINST, EAGER, EAGER_AS_IT_IS, held

CALLS = 200
"""How many steps are timed at once: some tens of milliseconds."""

SERVER = """
import sys, torch
from time import perf_counter
from benchmarks import cpu

torch.set_num_threads(1)
step = getattr(cpu, sys.argv[1])()
for line in sys.stdin:
    start = perf_counter()
    for _ in range(int(line)):
        step()
    print(perf_counter() - start, flush=True)
"""
"""Times so many steps whenever it is asked; an older tree need not know of it."""


class Missing(ValueError):
    """There is no such commit here; the message says what git was asked."""


class Stepper:
    """A process that takes the steps of one tree, and says how long they took."""

    def __init__(self, tree: Path, step: str) -> None:
        """Start the process; nothing is timed yet."""
        environ = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, step],
            cwd=tree,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, calls: int) -> float:
        """Return the mean time of a step, over so many."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that takes steps ended with {self.process.wait()}")
        return float(line) / calls

    def end(self) -> None:
        """End the process, and close the pipes to it."""
        self.process.kill()
        self.process.communicate()


def unpacked(commit: str) -> Path:
    """Unpack a commit under build/, once; Missing says that git does not know it."""
    name = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    if not name:
        raise Missing(f"git knows no commit {commit!r} in this checkout")
    tree = ROOT / "build" / "against" / name
    if not tree.exists():
        packed = subprocess.run(
            ["git", "archive", name], cwd=ROOT, capture_output=True, check=True
        ).stdout
        half = tree.with_name(f"{name}.part")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(half, filter="data")
        half.rename(tree)
    return tree


@contextmanager
def steppers(tree: Path) -> Iterator[tuple[Stepper, Stepper, Stepper]]:
    """Start this tree's step, that of an older tree, and torch's."""
    started: list[Stepper] = []
    try:
        for where, step in ((ROOT, "our_step"), (tree, "our_step"), (ROOT, "their_step")):
            started.append(Stepper(where, step))
        ours, older, theirs = started
        yield ours, older, theirs
    finally:
        for stepper in started:
            stepper.end()


def run(tree: Path, pairs: int, calls: int = CALLS) -> tuple[float, float, float]:
    """Return the median times of a step, ours, the older tree's and torch's, of one run."""
    found: list[tuple[float, ...]] = []
    with steppers(tree) as every:
        for stepper in every:
            stepper.seconds(calls)
        for turn in range(pairs):
            order = every[::-1] if turn % 2 else every
            times = {stepper: stepper.seconds(calls) for stepper in order}
            found.append(tuple(times[stepper] for stepper in every))
    ours, older, theirs = (median(column) for column in zip(*found, strict=True))
    return ours, older, theirs


def rows(commit: str, runs: int, pairs: int, calls: int = CALLS) -> list[Row]:
    """Measure some runs; return a row for each ratio, which is the median of the runs'."""
    tree = unpacked(commit)
    times = [run(tree, pairs, calls) for _ in range(runs)]

    def row(name: str, target: float | None, above: int, below: int) -> Row:
        ratios = [found[above] / found[below] for found in times]
        return {"name": name, "ratio": median(ratios), "target": target, "runs": ratios}

    theirs = row("digits training step, this tree / torch eager", EAGER, 0, 2)
    return [
        row(f"digits training step, this tree / {commit}", AGAINST, 0, 1),
        {**theirs, **held(EAGER_AS_IT_IS)},
        row(f"digits training step, {commit} / torch eager", None, 1, 2),
    ]


def main(commit: str, path: Path | None, runs: int, pairs: int) -> int:
    """Measure, print and, if asked, save; a row that fails is exit code 1, a missing commit 2."""
    try:
        found = rows(commit, runs, pairs)
    except Missing as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for row in found:
        show(row)
    if path is not None:
        save(path, {"schema": 1, "environment": environment("cpu"), "rows": found})
    return int(any(map(fails, found)))
