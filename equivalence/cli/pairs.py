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
    from equivalence.sessions.rows import COMMANDS, Task, judge_row

    require_profile(chosen.profile)
    seed = chosen_seed(chosen.profile, chosen.seed)
    task = Task(chosen.profile, seed, chosen.shrink, *sizes(chosen))
    rows = rows_of(COMMANDS[chosen.command], chosen, task)
    judge = partial(judge_row, chosen.command, task)
    environment = {**machine(), "profile": chosen.profile, "seed": seed}
    book = Book(chosen, chosen.command, asked_for(chosen, rows), environment)

    def run(missing: Sequence[Row]) -> object:
        return run_rows(judge, missing, chosen.jobs, book)

    return carry_out(book, run, earlier, COLUMNS)


def sizes(chosen: argparse.Namespace) -> tuple[int | None, int | None]:
    """Return how many random programs are asked for, and of how many nodes; refuse what is none."""
    found = getattr(chosen, "cases", None), getattr(chosen, "nodes", None)
    for name, number in zip(("cases", "nodes"), found, strict=True):
        if number is not None and number < 1:
            raise UsageError(f"--{name} is a number of at least 1; got {number}")
    return found


def rows_of(command: Any, chosen: argparse.Namespace, task: Any) -> Sequence[Row]:
    """Return the rows of a command, or those of the engine that --engine names."""
    engine = getattr(chosen, "engine", None)
    if engine is None:
        rows: Sequence[Row] = command.rows(task)
        return rows
    if engine not in command.engines:
        known = ", ".join(command.engines)
        raise UsageError(f"unknown engine {engine!r}; there are {known}")
    found: Sequence[Row] = command.engines[engine](task)
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
