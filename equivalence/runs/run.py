"""A run: from a request to the results of all its rows."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from equivalence import registry
from equivalence.backends import check, load
from equivalence.backends.fence import Fenced
from equivalence.backends.libraries import shipped
from equivalence.backends.protocol import Prepares
from equivalence.blame import Refused
from equivalence.budgets.findings import Finding
from equivalence.runs.address import address_of
from equivalence.runs.choice import has_sizes
from equivalence.runs.results import Row, RowResult
from equivalence.runs.rows import UnknownOperation, rows_of, supported
from equivalence.runs.runner import PROFILES, SIZES, STRENGTHS, run_row, run_sized_row
from equivalence.runs.work import RunRow, Unwatched, Watch, run_rows


class Unusable(Refused):
    """The request names what does not exist, or what cannot judge; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to run; `findings` are those to know of beside the shipped ones.

    pages     modules to import first, because they register pages
    jobs      how many worker processes; with none, all runs in this process, without a limit
    limit     for how many seconds a call of the backend may run in a worker
    fence     whether what the backend allocates through torch is fenced
    declare   whether rows go on past failures, and propose a finding for each kind of them
    """

    backend: str
    ops: Sequence[str] | None = None
    profile: str = "ci"
    seed: int | None = None
    jobs: int = 0
    record: Path | None = None
    replay: Path | None = None
    ring: str | None = None
    findings: Sequence[Finding] = ()
    limit: float | None = None
    fence: bool = False
    declare: bool = False
    pages: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a request comes to: rows, how to run one, the seed, and where it happens.

    unsupported are the rows that the backend does not offer.
    """

    rows: Sequence[Row]
    run: RunRow
    seed: int
    environment: Mapping[str, Any]
    unsupported: frozenset[Row] = frozenset()


@dataclass(frozen=True, slots=True)
class Done:
    """What was run, and where."""

    results: list[RowResult]
    environment: dict[str, Any]


def perform(request: Request, backend: Any | None = None, watch: Watch | None = None) -> Done:
    """Run a request; a backend object given here is run in this process."""
    plan = planned(request, backend)
    jobs = 0 if backend is not None else request.jobs
    watching = Shelved(request.record, watch)
    results = run_rows(plan.run, plan.rows, jobs, watching, request.limit)
    return Done(results, {**plan.environment, **known_findings(results)})


class Shelved:
    """A watch that enters every recorded row into its archive, and passes on what it hears."""

    def __init__(self, folder: Path | None, watch: Watch | None) -> None:
        """Enter rows into the archive in a folder, None where nothing is recorded."""
        self.folder = folder
        self.watch: Watch = Unwatched() if watch is None else watch

    def started(self, row: Row) -> None:
        """Pass it on."""
        self.watch.started(row)

    def finished(self, result: RowResult) -> None:
        """Enter the row, whose file is whole by now, and pass the result on."""
        if self.folder is not None:
            from equivalence.runs.recorded.archive import note_row

            note_row(self.folder, result.row)
        self.watch.finished(result)


def planned(request: Request, backend: Any | None = None) -> Plan:
    """Check a request before any row runs; what it asks for and does not exist is Unusable.

    A backend object given here is run as it is. Without one, every process loads the backend anew.
    """
    check_profile(request.profile)
    for module in request.pages:
        with usable():
            registry.bring(module)
    found = load(request.backend) if backend is None else check(request.backend, backend)
    address = address_of(request.backend, found)
    try:
        rows = rows_of(found.capabilities(), request.ops, hasattr(found, "jvp"))
    except UnknownOperation as error:
        raise Unusable(str(error)) from error
    if request.profile == SIZES:
        rows = [row for row in rows if has_sizes(row)]
    seed = chosen_seed(request.profile, request.seed)
    elsewhere = request.record is not None or (backend is None and request.jobs > 0)
    offered = _offered(rows, found)
    pages = _pages(offered, elsewhere)
    untried = {} if request.replay is not None else _tried(offered)
    run, options = _way(request, seed)
    options["address"] = f"{address} --fence" if address and request.fence else address
    if backend is None:
        named = (request.backend, request.fence, tuple(pages.values()))
        told = tuple(rows) if run is run_row and isinstance(found, Prepares) else ()
        way: RunRow = partial(_of_named, run, named, options, told)
    else:
        way = partial(_of_given, run, Fenced(found) if request.fence else found, options)
    own = {"pages": pages} if pages else {}
    own |= {"untried": untried} if untried else {}
    absent = frozenset(row for row in rows if not supported(found.capabilities(), row))
    return Plan(rows, way, seed, {**environment(found, request, seed), **own}, absent)


@contextmanager
def usable() -> Iterator[None]:
    """Let what cannot be registered, or found again, be Unusable."""
    try:
        yield
    except registry.Unregistered as error:
        raise Unusable(str(error)) from error


def _offered(rows: Sequence[Row], backend: Any) -> list[str]:
    """Return what a backend offers of the ops and optimizers that some rows are about."""
    offers = backend.capabilities()
    names = dict.fromkeys(row.op for row in rows)
    return [name for name in names if name in offers.ops or name in offers.optimizers]


def _pages(names: Sequence[str], elsewhere: bool) -> dict[str, str]:
    """Return where the registered pages among some are found by another process, by name.

    elsewhere says that one will ask for them: what it could not find is Unusable.
    """
    with usable():
        found = registry.addresses(names) if elsewhere else ()
    return {where.partition(":")[2]: where for where in found}


def _tried(names: Sequence[str]) -> dict[str, str]:
    """Try the registered pages among some before they judge; say why some could not be tried.

    A page that breaks a law is Unusable. A recording was made by pages that had been tried.
    """
    if not any(name in registry.ENTRIES for name in names):
        return {}
    from equivalence.trials.trial import BrokenPage, try_pages

    try:
        return try_pages(names)
    except BrokenPage as error:
        raise Unusable(str(error)) from error


def check_profile(profile: str) -> None:
    """Refuse a profile that does not exist."""
    if profile not in (*PROFILES, SIZES):
        raise Unusable(f"unknown profile {profile!r}; there are {', '.join((*PROFILES, SIZES))}")


def chosen_seed(profile: str, seed: int | None) -> int:
    """Return the seed: the one asked for, or a fixed one; the thorough profile draws one anew."""
    if seed is not None:
        return seed
    return random.SystemRandom().randrange(2**31) if profile == "thorough" else 0


def _way(request: Request, seed: int) -> tuple[Callable[..., RowResult], dict[str, Any]]:
    """Say how rows are run: live, recorded or by a recording, whose folder is checked first."""
    options: dict[str, Any] = {"findings": (*shipped(), *request.findings)}
    if request.replay is not None:
        from equivalence.runs.recorded.archive import open_archive
        from equivalence.runs.recorded.replay import replay_row

        open_archive(request.replay)
        return replay_row, {**options, "folder": request.replay}
    if request.profile == SIZES:
        if request.record is not None:
            raise Unusable("--profile sizes is judged live; --record is for the other profiles")
        options |= {"counted": 1, "seed": seed, "declare": request.declare}
        return run_sized_row, options
    options |= {"counted": PROFILES[request.profile], "seed": seed}
    options |= {"strength": STRENGTHS[request.profile]}
    if request.record is None:
        return run_row, {**options, "declare": request.declare, "probing": not request.declare}
    from equivalence.runs.recorded.archive import start_archive
    from equivalence.runs.recorded.recorder import record_row

    start_archive(request.record, request.profile, seed)
    return record_row, {**options, "folder": request.record, "ring": request.ring}


@cache
def _loaded(backend: str, fence: bool, pages: tuple[str, ...]) -> Any:
    """Load a backend, and the pages that its rows are about, once in a process."""
    for where in pages:
        registry.bring(where)
    found = load(backend)
    return Fenced(found) if fence else found


@cache
def _met(backend: str, fence: bool, pages: tuple[str, ...]) -> set[str]:
    """Return the ops of whose rows a backend has heard in this process: a set to be added to."""
    return set()


def _of_named(
    run: Callable[..., RowResult],
    backend: tuple[str, bool, tuple[str, ...]],
    options: Mapping[str, Any],
    told: Sequence[Row],
    row: Row,
) -> RowResult:
    """Run a row of the backend of a name.

    It hears of the calls of all rows of an op that are told before the first of them in a process.
    """
    found, met = _loaded(*backend), _met(*backend)
    if row not in told or row.op in met:
        return run(found, row, **options)
    met.add(row.op)
    offers = found.capabilities()
    together = [other for other in told if other.op == row.op and supported(offers, other)]
    return run(found, row, together=together, **options)


def _of_given(
    run: Callable[..., RowResult], backend: Any, options: Mapping[str, Any], row: Row
) -> RowResult:
    """Run a row of a backend that is there."""
    return run(backend, row, **options)


def environment(backend: Any, request: Request, seed: int) -> dict[str, Any]:
    """Describe where and how the run happens."""
    capabilities = backend.capabilities()
    return {
        **machine(),
        "device": _device_name(capabilities.device),
        "ring": capabilities.ring,
        "profile": request.profile,
        "seed": seed,
        "replayed": request.replay is not None,
        "fenced": request.fence,
    }


def machine() -> dict[str, Any]:
    """Describe this machine and what is installed on it."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "torch": _version("torch"),
        "triton": _version("triton"),
        "numpy": _version("numpy"),
    }


def known_findings(results: Sequence[RowResult]) -> dict[str, Any]:
    """Return the declared findings that the rows met, as the environment lists them."""
    met = [{**finding, "row": str(result.row)} for result in results for finding in result.declared]
    return {"declared_findings": met}


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
