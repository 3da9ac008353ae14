"""The command that watches kernels for races and wrong addresses."""

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
    """Plant every fault, watch every op that was asked for, and say what was found."""
    chosen, _ = filled(chosen)
    require("torch", "hypothesis")
    from equivalence.races.detector import Missing
    from equivalence.races.detector import require as require_ttsem
    from equivalence.races.examine import examine, plant
    from equivalence.races.planted import PLANTED
    from fast.binaries import driving

    known = driving.names()
    for name in chosen.ops or ():
        if name not in known:
            raise UsageError(
                f"--ops: nothing here is called {name!r}; there are {', '.join(known)}"
            )
    try:
        require_ttsem()
    except Missing as error:
        raise UsageError(str(error)) from error
    with _compile_only():
        tried = _spread(plant, [(number,) for number in range(len(PLANTED))], chosen.jobs)
        found = _spread(examine, [(name,) for name in chosen.ops or known], chosen.jobs)
    return summary(tried, found)


def summary(tried: list[Tried], found: list[Examined]) -> int:
    """Print what was planted, watched and found, and return the exit code."""
    import triton

    from equivalence.races.detector import TTSEM

    missed = [one for one in tried if not one.caught]
    for one in missed:
        print(f"races: planted {one.planted.name!r}, a {one.planted.kind}, and found {one.found}")
    faults = [(what, fault) for one in found for what, fault in one.faults]
    for what, fault in faults:
        print(f"races: {what}: {fault}")
    idle = [one.name for one in found if not one.launches]
    if idle:
        print(f"races: nothing was launched for {', '.join(idle)}")
    print(
        f"races: {len(found)} ops and optimizers, {sum(one.launches for one in found)} launches, "
        f"{sum(one.several for one in found)} of several program instances, {len(faults)} faults; "
        f"{len(tried) - len(missed)} of {len(tried)} planted faults found; "
        f"ttsem {TTSEM}, triton {triton.__version__}"
    )
    return NONCONFORMANT if missed or faults or idle else CONFORMANT


@contextmanager
def _compile_only() -> Iterator[None]:
    """Let worker processes that start meanwhile compile kernels instead of interpreting them."""
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
    """Run tasks in workers, telling of each as it ends, and return their results in order."""
    from equivalence.workers.pool import Died, spread

    results: dict[int, Any] = {}
    for number, result in spread(task, calls, max(jobs, 1)):
        if isinstance(result, Died):
            raise RuntimeError(f"races: watching {calls[number]} {result.how}")
        results[number] = result
        print(f"{result.line()}", flush=True)
    return [results[number] for number in range(len(calls))]
