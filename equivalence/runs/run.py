"""A run: from a request to the results of all its rows."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equivalence.backends import load
from equivalence.budgets.findings import Finding, shipped
from equivalence.runs.pool import attempt_row, run_parallel
from equivalence.runs.results import Row, RowResult
from equivalence.runs.rows import UnknownOperation, rows_of
from equivalence.runs.runner import PROFILES, run_row

Report = Callable[[RowResult, int, int], None]


class Unusable(ValueError):
    """The request names something that does not exist; the message says what does."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to run."""

    backend: str
    ops: Sequence[str] | None = None
    profile: str = "ci"
    seed: int | None = None
    jobs: int = 1
    record: Path | None = None
    replay: Path | None = None
    ring: str | None = None
    findings: Sequence[Finding] | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What was run, and where."""

    results: list[RowResult]
    environment: dict[str, Any]


def perform(request: Request, backend: Any | None = None, progress: Report | None = None) -> Done:
    """Run a request; a backend object given here is run in this process."""
    if request.profile not in PROFILES:
        raise Unusable(f"unknown profile {request.profile!r}; there are {', '.join(PROFILES)}")
    found = load(request.backend) if backend is None else backend
    try:
        rows = rows_of(found.capabilities(), request.ops, hasattr(found, "jvp"))
    except UnknownOperation as error:
        raise Unusable(str(error)) from error
    seed = chosen_seed(request.profile, request.seed)
    findings = shipped() if request.findings is None else tuple(request.findings)
    options: dict[str, Any] = {
        "counted": PROFILES[request.profile],
        "seed": seed,
        "findings": findings,
    }
    jobs = 1 if backend is not None else request.jobs
    results = _execute(request, found, rows, options, jobs, progress)
    return Done(results, environment(found, request, seed, results))


def chosen_seed(profile: str, seed: int | None) -> int:
    """Return the seed: the one asked for, or a fixed one; the thorough profile draws one anew."""
    if seed is not None:
        return seed
    return random.SystemRandom().randrange(2**31) if profile == "thorough" else 0


def _execute(
    request: Request,
    backend: Any,
    rows: Sequence[Row],
    options: dict[str, Any],
    jobs: int,
    progress: Report | None,
) -> list[RowResult]:
    """Run the rows here or in worker processes, recording or replaying where asked."""
    run: Callable[..., RowResult] = run_row
    if request.record is not None:
        from equivalence.runs.archive import start_archive
        from equivalence.runs.recorder import record_row

        start_archive(request.record, request.profile, options["seed"])
        run, options = record_row, {**options, "folder": request.record, "ring": request.ring}
    elif request.replay is not None:
        from equivalence.runs.archive import replay_row

        if not (request.replay / "manifest.json").is_file():
            raise Unusable(f"{request.replay} is no archive: it has no manifest.json")

        run, options = replay_row, {"folder": request.replay, "findings": options["findings"]}
    seen = 0

    def note(result: RowResult) -> None:
        nonlocal seen
        seen += 1
        if progress is not None:
            progress(result, seen, len(rows))

    if jobs > 1 and len(rows) > 1:
        return run_parallel(run, request.backend, rows, options, jobs, note)
    results: list[RowResult] = []
    for row in rows:
        results.append(attempt_row(run, backend, row, options))
        note(results[-1])
    return results


def environment(
    backend: Any, request: Request, seed: int, results: Sequence[RowResult]
) -> dict[str, Any]:
    """Describe where and how the run happened."""
    capabilities = backend.capabilities()
    declared = [
        {**finding, "row": str(result.row)} for result in results for finding in result.declared
    ]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "torch": _version("torch"),
        "triton": _version("triton"),
        "numpy": _version("numpy"),
        "device": _device_name(capabilities.device),
        "ring": capabilities.ring,
        "profile": request.profile,
        "seed": seed,
        "replayed": request.replay is not None,
        "declared_findings": declared,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device_name(device: str) -> str:
    """Return the name of the device that inputs were placed on."""
    if not device.startswith("cuda"):
        return device
    import torch

    return torch.cuda.get_device_name(torch.device(device))
