"""The command that checks kernels for races and wrong addresses."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from equivalence.cli.options import UsageError, filled, request, write
from equivalence.cli.suite import bring_pages
from equivalence.cli.work import require
from equivalence.runs.results import CONFORMANT, NONCONFORMANT

if TYPE_CHECKING:
    from equivalence.races.examine import Examined, Tried


SCHEMA = 1
"""The number of the JSON format of `races`."""

OF_A_STRANGER = (1,)
"""The planted faults, by number, that are tried before a stranger's kernels: the plainest race."""


def command_races(chosen: argparse.Namespace) -> int:
    """Plant faults, check every requested op of our kernels or of a backend, and print the faults.

    Exit code 2 says that a backend launched no kernel at all, so that nothing is known.
    """
    chosen, _ = filled(chosen)
    require("torch", "hypothesis")
    from equivalence.races.detector import require as require_ttsem
    from equivalence.races.examine import examine, plant
    from equivalence.races.planted import PLANTED

    bring_pages(chosen.pages)
    backend = chosen.backend
    known = _known(backend)
    for name in chosen.ops or ():
        if name not in known:
            raise UsageError(f"--ops: unknown name {name!r}; there are {', '.join(known)}")
    require_ttsem()
    numbers = range(len(PLANTED)) if backend is None else OF_A_STRANGER
    names = chosen.ops or known
    with _compile_only():
        tried = _spread(plant, [(number,) for number in numbers], chosen.jobs)
        if backend is None:
            found = _spread(examine, [(name,) for name in names], chosen.jobs)
        else:
            found = _of_backend(backend, names, chosen.jobs)
    if chosen.json is not None:
        write(chosen.json, {**_document(tried, found), "request": request(chosen)})
    return summary(tried, found)


def _known(backend: str | None) -> list[str]:
    """Return the ops and optimizers of our kernels, or those of a backend."""
    if backend is None:
        from fast.binaries import driving

        return driving.names()
    from equivalence.backends import load
    from equivalence.races.backends import offered

    return offered(load(backend).capabilities())


def _of_backend(backend: str, names: Sequence[str], jobs: int) -> list[Examined]:
    """Watch the kernels of a backend. Refuse one that launches none, if no fault says why."""
    from equivalence.races.backends import examine_backend
    from equivalence.registry import addresses

    pages = addresses(names)
    found = _spread(examine_backend, [(backend, name, pages) for name in names], jobs)
    if not any(one.launches or one.faults for one in found):
        raise UsageError(
            f"races --backend {backend}: no launch of a Triton kernel was seen in any call of "
            f"{', '.join(names)}, so nothing is known of races; name a backend, or --ops, whose "
            "calls launch kernels"
        )
    return found


def _document(tried: Sequence[Tried], found: Sequence[Examined]) -> dict[str, Any]:
    """Return what was watched as plain data."""
    return {
        "schema": SCHEMA,
        "command": "races",
        "planted": [{"name": one.planted.name, "found": one.caught} for one in tried],
        "rows": [
            {
                "name": one.name,
                "launches": one.launches,
                "instances": one.instances,
                "kernels": list(one.kernels),
                "seconds": one.seconds,
                "faults": [
                    {
                        "launch": launch,
                        "kind": fault.kind,
                        "kernel": fault.kernel,
                        "place": str(fault.place),
                        "says": fault.says,
                    }
                    for launch, fault in one.faults
                ],
            }
            for one in found
        ],
    }


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
    from equivalence.races.launches import TARGET
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
