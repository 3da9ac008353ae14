"""Whether a session that lives long stays as small as it was: 10,000 steps of the digits program.

Every hundredth of the run four counts are taken: the bytes and the buffers that the library owns,
the objects that Python's collector knows, and the memory blocks of Python's allocator. A row is
missed if the most in the last tenth exceeds the most in the second; the first tenth is left to
whatever is made once.
"""

from __future__ import annotations

import gc
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import targets
from benchmarks.report import Row, environment, missed, save, show
from fast.commands.digits import batches, images
from fast.commands.job import Job
from fast.commands.loop import begin, take_step
from fast.device.counters import counters

SAMPLES = 100
BARS = "▁▂▃▄▅▆▇█"

COUNTS: dict[str, Callable[[], int]] = {
    "live bytes": lambda: counters.live_bytes,
    "live buffers": lambda: counters.live_buffers,
    "Python objects": lambda: len(gc.get_objects()) + gc.get_freeze_count(),
    "Python memory blocks": sys.getallocatedblocks,
}


def main(path: Path | None, steps: int) -> int:
    """Take the steps, draw the curves, print and, if asked, save every row."""
    if steps < SAMPLES or steps % SAMPLES:
        print(f"flat: the steps are a multiple of {SAMPLES}, got {steps}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    curves = measure(steps)
    results: dict[str, Any] = {"schema": 1, "environment": environment("cpu"), "rows": []}
    for name, curve in curves.items():
        print(f"{name:<22} {min(curve):>9} to {max(curve):>9}  {drawn(curve)}")
    for row in rows(curves, steps):
        show(row)
        results["rows"].append(row)
    if path is not None:
        save(path, results)
    return int(bool(missed(results["rows"])))


def measure(
    steps: int, step: Callable[[], object] | None = None, samples: int = SAMPLES
) -> dict[str, list[int]]:
    """Take so many steps and count, so many times on the way, after collecting garbage."""
    step = step or training_step()
    # Made before the first step, so that the measurement itself adds nothing to what it counts.
    curves = {name: array("q", bytes(8 * samples)) for name in COUNTS}
    gc.collect()
    gc.freeze()  # what is there already is counted, and not searched for garbage each time
    try:
        for sample in range(samples):
            for _ in range(steps // samples):
                step()
            gc.collect()
            for name, count in COUNTS.items():
                curves[name][sample] = count()
    finally:
        gc.unfreeze()
    return {name: curve.tolist() for name, curve in curves.items()}


def training_step() -> Callable[[], object]:
    """Begin the digits job; each call takes its next step, over and over the same images."""
    job = Job(provider="aten")
    session, params = begin(job)
    x, labels = images()

    def order() -> Iterator[Any]:
        while True:
            yield from batches(len(x), job.batch_size, 1, job.seed)

    draw = order()

    def step() -> None:
        rows = next(draw)
        take_step(session, params, job, x[rows], labels[rows], step=0)

    return step


def rows(curves: dict[str, list[int]], steps: int) -> Iterator[Row]:
    """Compare the last tenth of each curve to the second."""
    for name, curve in curves.items():
        tenth = len(curve) // 10
        second, last = max(curve[tenth : 2 * tenth]), max(curve[-tenth:])
        yield {
            "name": f"{name}, last tenth of {steps:,} steps / second tenth",
            "ratio": last / second,
            "target": targets.FLAT,
            "second": second,
            "last": last,
            "curve": curve,
        }


def drawn(curve: list[int]) -> str:
    """Draw a curve as bars, two samples each, from its least to its most; a flat one lies low."""
    least, most = min(curve), max(curve)
    span = max(most - least, 1)
    pairs = map(max, curve[::2], curve[1::2])
    return "".join(BARS[(value - least) * (len(BARS) - 1) // span] for value in pairs)
