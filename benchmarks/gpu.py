"""What one machine with a GPU can say in nine minutes, saved stage by stage.

The cases were recorded elsewhere with their exact values, so no oracle is needed here: they are
replayed through every kernel, some ops at a time in processes of their own, and beside them a
sample runs under the memory checker, where there is one. Then, with the machine to itself, steps
are captured as graphs and compared with replays, and kernels are timed beside torch's. Nothing is
installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.alone import Alone
from benchmarks.report import ROOT, Row, environment, save, show

PORTION = 6
WORKERS = 4
"""How many processes replay a portion: most of their time they compile kernels."""

REPLAYING = 0.6
"""The share of the time that replays and the memory checker may take together."""

STATUSES = {0: "conformant", 1: "nonconformant", 2: "usage", 4: "vacuous", None: "too late"}
SAMPLE = ("add", "sum", "take", "matmul", "softmax", "layer_norm", "cross_entropy")
RESULTS = ROOT / "benchmarks" / "results"


class Clock:
    """How much of the time for everything is left."""

    def __init__(self, seconds: float) -> None:
        self.end = monotonic() + seconds

    def left(self, share: float = 1.0) -> float:
        """The seconds that a stage may take, at least one."""
        return max(1.0, (self.end - monotonic()) * share)


def main(path: Path | None, cases: Path, seconds: float, commit: str | None, dry_run: bool) -> int:
    """Run the stages, save after each, and return 0 when all that ran was in order."""
    import torch

    if not torch.cuda.is_available() and not dry_run:
        print(
            "benchmarks: torch sees no CUDA device here; run this on a machine with a GPU, "
            "or add --dry-run to go through the motions on a CPU",
            file=sys.stderr,
        )
        return 2
    if not cases.is_dir():
        print(
            f"benchmarks: there are no recorded cases in {cases}; make them on a machine with the "
            "extra [check] (make gpu-cases), and bring the folder here",
            file=sys.stderr,
        )
        return 2
    device = "cpu (dry run)" if dry_run else torch.cuda.get_device_name()
    path = path or (ROOT / "build" / "gpu-dry-run.json" if dry_run else results_file(device))
    clock = Clock(seconds)
    results: dict[str, Any] = {"schema": 1, "environment": environment(device, commit)}
    if not dry_run:
        results["environment"]["cuda"] = torch.version.cuda
        results["environment"]["capability"] = "{}.{}".format(*torch.cuda.get_device_capability())
    save(path, results)
    results["replay"] = []
    suite = Suite("fast-triton-interpreted" if dry_run else "fast-triton", cases.resolve())
    for kind, part in replayed(suite, clock):
        if kind == "replay":
            results[kind].append(part)
        else:
            results[kind] = part
        save(path, results)
    results["products"] = product_rows(dry_run)
    save(path, results)
    results["graphs"] = []
    for row in graph_rows(dry_run, clock):
        results["graphs"].append(row)
        save(path, results)
    results["kernels"] = []
    for row in kernel_rows(dry_run, clock):
        results["kernels"].append(row)
        save(path, results)
    print(f"benchmarks: results in {path}")
    return 0 if in_order(results) else 1


def results_file(device: str) -> Path:
    """The file of this device and day; a second run of the day replaces the first."""
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return RESULTS / f"gpu-{slug}-{datetime.now(UTC):%Y-%m-%d}.json"


def in_order(results: dict[str, Any]) -> bool:
    """Whether every replay was conformant, the rest equal and the memory checker silent."""
    replays = all(part["status"] == "conformant" for part in results["replay"])
    rows = [*results["products"], *results["graphs"]]
    equal = all(row["status"] == "equal" for row in rows)
    return replays and equal and results["memory_check"]["status"] in ("clean", "absent")


def portions() -> Iterator[list[str]]:
    """All ops and optimizers, a few at a time: what one portion breaks, the next does not feel."""
    from fast.ops import OPS
    from fast.optim import OPTIMIZERS

    names = [*OPS, *OPTIMIZERS]
    for start in range(0, len(names), PORTION):
        yield names[start : start + PORTION]


def replayed(suite: Suite, clock: Clock) -> Iterator[tuple[str, Row]]:
    """Replay all portions, some at once, beside the memory checker; yield each as it ends.

    All must end in time. A portion that hangs keeps its place till then, and the others go on.
    """
    end = Clock(clock.left(REPLAYING))
    at_once = max(1, (os.cpu_count() or 1) // WORKERS)
    with ThreadPoolExecutor(at_once + 1) as pool:
        checked: Future[Row] = pool.submit(suite.memory_check, end.left)
        parts = [pool.submit(suite.replay, ops, end.left) for ops in portions()]
        for done in as_completed([checked, *parts]):
            yield "memory_check" if done is checked else "replay", done.result()


def attempt(command: list[str], limit: float) -> tuple[int | None, str]:
    """Run a command in the repository; return its exit code, None for too late, and its end.

    It runs in a session of its own, so that being too late ends its workers with it.
    """
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output[-2000:]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output[-2000:]


@dataclass(frozen=True)
class Suite:
    """The conformance suite as this machine runs it: a backend, and cases that were recorded."""

    backend: str
    cases: Path

    def command(self, *more: str) -> list[str]:
        """The command that replays the recorded cases."""
        start = [sys.executable, "-m", "equivalence", "run", "--backend", self.backend]
        return [*start, "--replay", str(self.cases), *more]

    def replay(self, ops: Sequence[str], left: Callable[[], float]) -> Row:
        """Judge some ops on the recorded cases in the time left; the rows are the suite's own."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "rows.json"
            more = ("--jobs", str(WORKERS), "--json", str(report), "--ops", *ops)
            code, end = attempt(self.command(*more), left())
            rows = json.loads(report.read_text())["rows"] if report.exists() else []
        status = STATUSES.get(code, "crash") if rows or code is None else "crash"
        print(f"replay: {status}, {len(rows)} rows of {', '.join(ops)}", flush=True)
        part: Row = {"backend": self.backend, "ops": ops, "status": status, "rows": rows}
        return part if status == "conformant" else {**part, "end": end}

    def memory_check(self, left: Callable[[], float]) -> Row:
        """Run a sample of the cases under the vendor's memory checker, if it is on this machine."""
        checker = shutil.which("compute-sanitizer")
        if checker is None:
            return {"status": "absent"}
        sample = self.command("--jobs", "0", "--ops", *SAMPLE)
        code, end = attempt(
            [checker, "--tool", "memcheck", "--error-exitcode", "86", *sample], left()
        )
        status = {0: "clean", 86: "errors found", None: "too late"}.get(code, "could not run")
        print(f"memory check: {status}", flush=True)
        return {"status": status, "ops": list(SAMPLE), "end": end}


def product_rows(dry_run: bool) -> list[Row]:
    """Compare the large tiles of products with exact numbers."""
    from benchmarks import products

    with Alone() as alone:
        found = alone.rows("products", products.rows, dry_run)
    wrong = [row["name"] for row in found if row["status"] != "equal"]
    print(f"products: {len(found) - len(wrong)} of {len(found)} equal {wrong}", flush=True)
    return found


def graph_rows(dry_run: bool, clock: Clock) -> Iterator[Row]:
    """Compare and time steps that are captured as one graph, while there is time."""
    from benchmarks import graphs

    with Alone() as alone:
        for name, call, given in graphs.calls(dry_run):
            if clock.left() < 30:
                print(f"no time left for {name}", flush=True)
                continue
            for row in alone.rows(name, call, *given):
                print(f"{row['name']}: {row['status']} {row.get('error', '')}".rstrip(), flush=True)
                if "ratio" in row:
                    show(row)
                yield row


def kernel_rows(dry_run: bool, clock: Clock) -> Iterator[Row]:
    """Time each op's kernels against torch's, value and VJP, while there is time."""
    from benchmarks import kernels
    from fast import OPS

    with Alone() as alone:
        for op in OPS:
            if clock.left() < 10:
                print(f"no time left for {op}", flush=True)
                continue
            for row in alone.rows(op, kernels.rows, op, dry_run):
                if "ratio" in row:
                    show(row)
                yield row
