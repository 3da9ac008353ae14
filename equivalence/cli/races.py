"""The command that checks kernels for races and wrong addresses."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from equivalence.cli.options import UsageError, filled
from equivalence.cli.work import require
from equivalence.runs.results import CONFORMANT, NONCONFORMANT

if TYPE_CHECKING:
    from equivalence.races.examine import Examined, Tried


def command_races(chosen: argparse.Namespace) -> int:
    """Plant every fault of the catalogue, check every requested op, and print the faults."""
    chosen, _ = filled(chosen)
    require("torch", "hypothesis")
    from equivalence.races.detector import require as require_ttsem
    from equivalence.races.examine import examine, plant
    from equivalence.races.planted import PLANTED
    from fast.binaries import driving

    known = driving.names()
    for name in chosen.ops or ():
        if name not in known:
            raise UsageError(f"--ops: unknown name {name!r}; there are {', '.join(known)}")
    require_ttsem()
    with _compile_only():
        tried = _spread(plant, [(number,) for number in range(len(PLANTED))], chosen.jobs)
        found = _spread(examine, [(name,) for name in chosen.ops or known], chosen.jobs)
    return summary(tried, found)


def summary(tried: list[Tried], found: list[Examined]) -> int:
    """Print the planted faults and the found ones, and return the exit code."""
    import triton

    from equivalence.races.detector import TTSEM

    missed = [one for one in tried if not one.caught]
    for one in missed:
        print(f"races: planted {one.planted.name!r}, a {one.planted.kind}, but found {one.found}")
    faults = [(launch, fault) for one in found for launch, fault in one.faults]
    for launch, fault in faults:
        print(f"races: {launch}: {fault}")
    idle = [one.name for one in found if not one.launches]
    if idle:
        print(f"races: no kernel was launched for {', '.join(idle)}")
    print(
        f"races: {len(found)} ops and optimizers, {sum(one.launches for one in found)} launches, "
        f"{sum(one.several for one in found)} of several program instances, {len(faults)} faults; "
        f"{len(tried) - len(missed)} of {len(tried)} planted faults found; "
        f"ttsem {TTSEM}, triton {triton.__version__}"
    )
    return NONCONFORMANT if missed or faults or idle else CONFORMANT


@contextmanager
def _compile_only() -> Iterator[None]:
    """Make workers that start in the block compile kernels instead of interpreting them."""
    from equivalence.races.examine import TARGET
    from fast.device.mode import COMPILE_TARGET, INTERPRET

    before = {name: os.environ.pop(name, None) for name in (COMPILE_TARGET, INTERPRET)}
    os.environ[COMPILE_TARGET] = TARGET
    try:
        yield
    finally:
        os.environ.pop(COMPILE_TARGET)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _spread(task: Any, calls: list[tuple[Any, ...]], jobs: int) -> list[Any]:
    """Run tasks in workers, print a line when each ends, and return the results in order."""
    from equivalence.workers.pool import Died, spread

    results: dict[int, Any] = {}
    for number, result in spread(task, calls, max(jobs, 1)):
        if isinstance(result, Died):
            raise RuntimeError(f"races: watching {calls[number]} {result.how}")
        results[number] = result
        print(f"{result.line()}", flush=True)
    return [results[number] for number in range(len(calls))]
