"""The commands that judge a backend: `run`, `replay-case` and `list`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equivalence.cli.options import Earlier, UsageError, filled, write
from equivalence.cli.work import Book, carry_out, require
from equivalence.runs.results import CONFORMANT, Row, RowResult

LIST_SCHEMA = 1
"""The number of the JSON format of `list`."""


def bring_pages(modules: Sequence[str] | None) -> None:
    """Import the modules that register pages, or refuse them with the reason."""
    from equivalence.registry import Unregistered, bring

    try:
        for module in modules or ():
            bring(module)
    except Unregistered as error:
        raise UsageError(f"--pages {error}") from error


def command_run(chosen: argparse.Namespace) -> int:
    """Run the suite on a backend and report."""
    chosen, earlier = filled(chosen)
    if chosen.backend is None:
        raise UsageError("--backend is missing: give a name that list prints, or module:attribute")
    if chosen.record is not None and chosen.replay is not None:
        raise UsageError("--record and --replay exclude each other: name one folder")
    if chosen.ring is not None and chosen.record is None:
        raise UsageError("--ring names the ring to record for; it needs --record DIR")
    if chosen.declare is not None and (chosen.record or chosen.replay) is not None:
        raise UsageError("--declare needs a live run: leave out --record and --replay")
    require("torch", *(() if chosen.replay is not None else ("flint", "hypothesis")))
    code, results = _run(chosen, earlier)
    if chosen.declare is not None:
        _propose(chosen.declare, results)
    if chosen.ring is not None:
        print(f"recorded in {chosen.record} for the ring {chosen.ring}; nothing was judged")
    return code


def _propose(path: Path, results: Sequence[RowResult]) -> None:
    """Write findings that would declare the failures."""
    from equivalence.budgets.findings import written

    tables = list(dict.fromkeys(table for result in results for table in result.proposed))
    path.write_text(written(tables), encoding="utf-8")
    print(
        f"{len(tables)} findings in {path}; add a reason to each, and pass the file as --findings"
    )
    crashes = sum(failure.crash for result in results for failure in result.failures)
    if crashes:
        print(f"{crashes} failures without a result are in none of them: a crash is never excused")


def _run(chosen: argparse.Namespace, earlier: Earlier) -> tuple[int, Sequence[RowResult]]:
    """Plan the run, refuse an impossible request, and carry out the plan."""
    from equivalence.runs.run import Request, Shelved, planned
    from equivalence.runs.work import run_rows

    asked = Request(
        backend=chosen.backend,
        ops=chosen.ops,
        profile=chosen.profile,
        seed=chosen.seed,
        record=chosen.record,
        replay=chosen.replay,
        ring=chosen.ring,
        findings=_findings(chosen),
        limit=chosen.call_limit,
        fence=chosen.fence,
        declare=chosen.declare is not None,
        pages=chosen.pages or (),
        jobs=chosen.jobs,
    )
    plan = planned(asked)
    book = Book(chosen, chosen.backend, plan.rows, plan.environment, plan.unsupported)
    watch = Shelved(chosen.record, book)

    def run(rows: Sequence[Row]) -> object:
        return run_rows(plan.run, rows, chosen.jobs, watch, asked.limit)

    return carry_out(book, run, earlier), book.results


def _findings(chosen: argparse.Namespace) -> tuple[Any, ...]:
    """Read the caller's own findings."""
    from equivalence.budgets.findings import read

    if chosen.findings is None:
        return ()
    try:
        return read(chosen.findings)
    except OSError as error:
        raise UsageError(f"--findings cannot read {chosen.findings}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--findings {error}") from error


def command_list(chosen: argparse.Namespace) -> int:
    """List the backends, operations, optimizers and profiles."""
    chosen, _ = filled(chosen)
    require("torch")
    from equivalence.backends import BUILT_IN
    from equivalence.registry import BOOK, OPS, OPTIMIZERS
    from equivalence.runs.runner import PROFILES, SIZES

    bring_pages(chosen.pages)
    if chosen.json is not None:
        write(
            chosen.json,
            {
                "schema": LIST_SCHEMA,
                "command": "list",
                "backends": list(BUILT_IN),
                "operations": {owner: list(names) for owner, names in OPS.by_owner().items()},
                "optimizers": {o: list(names) for o, names in OPTIMIZERS.by_owner().items()},
                "profiles": {**PROFILES, SIZES: None},
            },
        )
    print("backends:  ", ", ".join((*BUILT_IN, "module:attribute")))
    for pages in (OPS, OPTIMIZERS):
        for owner, names in pages.by_owner().items():
            print(f"{pages.what}s{'' if owner == BOOK else f' of {owner}'}:", ", ".join(names))
    print(
        "profiles:  ", ", ".join((*(f"{name} ({n} cases)" for name, n in PROFILES.items()), SIZES))
    )
    return CONFORMANT


def command_replay(chosen: argparse.Namespace) -> int:
    """Run one case in a process of its own, and show its failure or its worst element."""
    chosen, _ = filled(chosen)
    if chosen.backend is None:
        raise UsageError("--backend is missing: give a name that list prints, or module:attribute")
    require("torch", "flint")
    from equivalence.direct.replay import replay_case

    found = replay_case(
        chosen.case,
        chosen.backend,
        fence=chosen.fence,
        limit=chosen.call_limit,
        jobs=chosen.jobs,
    )
    print("\n".join(found.lines()))
    return found.code
