"""The commands that judge sessions and trainers of `fast` by those of `spec`.

`programs`, `trainers` and `curvature` run one program on both sides. `machine` runs stateful tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from equivalence.cli.options import UsageError, filled
from equivalence.cli.work import Book, carry_out, require, require_profile
from equivalence.runs.results import Row

COLUMNS = ("row", "provider", "precision", "cases", "worst", "", "", "", "ring", "status")


def command_pairs(chosen: argparse.Namespace) -> int:
    """Judge the requested rows of a command, and report the results."""
    chosen, earlier = filled(chosen)
    require("torch", "flint", "hypothesis")
    from equivalence.runs.run import chosen_seed, machine
    from equivalence.runs.work import run_rows
    from equivalence.sessions.rows import COMMANDS, judge_row

    require_profile(chosen.profile)
    seed = chosen_seed(chosen.profile, chosen.seed)
    rows = rows_of(COMMANDS[chosen.command], chosen)
    judge = partial(judge_row, chosen.command, chosen.profile, seed, chosen.shrink)
    environment = {**machine(), "profile": chosen.profile, "seed": seed}
    book = Book(chosen, chosen.command, asked_for(chosen, rows), environment)

    def run(missing: Sequence[Row]) -> object:
        return run_rows(judge, missing, chosen.jobs, book)

    return carry_out(book, run, earlier, COLUMNS)


def rows_of(command: Any, chosen: argparse.Namespace) -> Sequence[Row]:
    """Return the rows of a command, or those of the engine that --engine names."""
    engine = getattr(chosen, "engine", None)
    if engine is None:
        rows: Sequence[Row] = command.rows(chosen.profile)
        return rows
    if engine not in command.engines:
        known = ", ".join(command.engines)
        raise UsageError(f"unknown engine {engine!r}; there are {known}")
    found: Sequence[Row] = command.engines[engine]
    return found


def asked_for(chosen: argparse.Namespace, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that match --provider and --only. Refuse a name that matches none."""
    providers = sorted({row.direction for row in rows})
    for name in chosen.provider or ():
        if name not in providers:
            raise UsageError(f"unknown provider {name!r}; there are {', '.join(providers)}")
    for pattern in chosen.only or ():
        if not any(fnmatchcase(str(row), pattern) for row in rows):
            raise UsageError(
                f"--only {pattern!r} matches no row of {chosen.command}; "
                f"there are {', '.join(map(str, rows))}"
            )
    found = [
        row
        for row in rows
        if (not chosen.provider or row.direction in chosen.provider)
        and (not chosen.only or any(fnmatchcase(str(row), p) for p in chosen.only))
    ]
    if not found:
        raise UsageError("no row matches both --provider and --only")
    return found
