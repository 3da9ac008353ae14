"""The command that says what the cases of a row meet: `coverage`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from equivalence.cli.options import UsageError, filled, request, write
from equivalence.cli.suite import bring_pages
from equivalence.cli.work import require, require_profile
from equivalence.runs.results import CONFORMANT, INTERRUPTED

if TYPE_CHECKING:
    from equivalence.runs.met.row import Coverage

SCHEMA = 1
"""The number of the JSON format of `coverage`."""


def command_coverage(chosen: argparse.Namespace) -> int:
    """Print what the fixed cases of each requested row meet, row by row."""
    chosen, _ = filled(chosen)
    require("torch", "flint", "hypothesis")
    from equivalence.runs.met.row import coverage, directions_of
    from equivalence.runs.runner import STRENGTHS

    require_profile(chosen.profile)
    if chosen.profile not in STRENGTHS:
        raise UsageError(
            f"--profile {chosen.profile} has no design of small cases; there are "
            f"{', '.join(STRENGTHS)}"
        )
    bring_pages(chosen.pages)
    found: list[Coverage] = []
    complete = False
    try:
        for name in _names(chosen.ops):
            for direction in directions_of(name):
                found.append(coverage(name, direction, STRENGTHS[chosen.profile]))
                print(*found[-1].lines(), sep="\n", flush=True)
        complete = True
    except KeyboardInterrupt:
        print(f"interrupted after {len(found)} rows")
    if chosen.json is not None:
        write(
            chosen.json,
            {
                "schema": SCHEMA,
                "command": "coverage",
                "request": request(chosen),
                "complete": complete,
                "rows": [row.to_dict() for row in found],
            },
        )
    return CONFORMANT if complete else INTERRUPTED


def _names(ops: Sequence[str] | None) -> list[str]:
    """Return the requested ops and optimizers, or all; an unknown name is refused."""
    from equivalence.registry import OPS, OPTIMIZERS

    known = [*OPS, *OPTIMIZERS]
    for name in ops or ():
        if name not in known:
            raise UsageError(f"--ops: unknown name {name!r}; there are {', '.join(known)}")
    return list(known if ops is None else ops)
