"""The command line: ``python -m equivalence run|list|replay-case|judge|machine``.

Exit codes: 0 conformant, 1 not conformant, 2 usage, 3 a crash, 4 vacuous.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equivalence.runs.results import (
    CONFORMANT,
    CRASH,
    NONCONFORMANT,
    USAGE,
    Row,
    RowResult,
    document,
    exit_code,
)
from fast import Interpreted


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="python -m equivalence",
        description="Judge backends against the reference: every element, by derived budgets.",
        epilog="Exit codes: 0 conformant, 1 not conformant, 2 usage, 3 crash, 4 vacuous.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _run_parser(commands.add_parser("run", help="run the suite on a backend"))
    commands.add_parser("list", help="list backends, operations, optimizers and profiles")
    replay = commands.add_parser("replay-case", help="run one case, as a failure prints it")
    replay.add_argument("case", help="the case, as one line of JSON")
    replay.add_argument("--backend", required=True, help=BACKEND_HELP)
    judge = commands.add_parser("judge", help="judge the recorded steps of a training run")
    judge.add_argument("run", type=Path, help="the folder that the training command wrote")
    judge.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    judge.add_argument("--json", type=Path, metavar="FILE", help="also write the verdict as JSON")
    _machine_parser(commands.add_parser("machine", help="drive lives of a session, in any order"))
    return top


BACKEND_HELP = "a built-in backend (see list), or module:attribute"


def _run_parser(run: argparse.ArgumentParser) -> None:
    """Add the options of the command run."""
    run.add_argument("--backend", required=True, help=BACKEND_HELP)
    run.add_argument("--ops", nargs="+", metavar="OP", help="operations and optimizers (all)")
    run.add_argument(
        "--profile",
        default="ci",
        help="quick, ci or thorough: 8, 30 or 500 counted cases in every row (ci)",
    )
    run.add_argument("--seed", type=int, help="draw other cases (thorough: a fresh seed, printed)")
    run.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    run.add_argument("--json", type=Path, metavar="FILE", help="also write the result as JSON")
    store = run.add_mutually_exclusive_group()
    store.add_argument(
        "--record", type=Path, metavar="DIR", help="also write inputs, exact values and budgets"
    )
    store.add_argument(
        "--replay", type=Path, metavar="DIR", help="judge by recorded values, without an oracle"
    )
    run.add_argument(
        "--ring",
        choices=("host", "interpreted", "device"),
        help="with --record: write the budgets of another ring, without running the backend",
    )


def _machine_parser(machine: argparse.ArgumentParser) -> None:
    """Add the options of the command machine."""
    machine.add_argument(
        "--profile",
        default="ci",
        help="quick, ci or thorough: 8, 30 or 500 lives at every configuration (ci)",
    )
    machine.add_argument(
        "--seed", type=int, help="drive other lives (thorough: a fresh seed, printed)"
    )
    machine.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    machine.add_argument(
        "--shrink", action="store_true", help="shorten the program that fails, for some minutes"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    chosen = parser().parse_args(arguments)
    # Here the interpreter is a ring that is named and reported.
    warnings.filterwarnings("ignore", category=Interpreted)
    try:
        return _COMMANDS[chosen.command](chosen)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE


class UsageError(ValueError):
    """The command line asks for what does not exist; the message says what does."""


def _load(name: str) -> Any:
    """Load a backend, or refuse with the names that exist."""
    from equivalence.backends import UnknownBackend, load

    try:
        return load(name)
    except UnknownBackend as error:
        raise UsageError(str(error)) from error


def _command_run(chosen: argparse.Namespace) -> int:
    """Run the suite and report."""
    from equivalence.runs.run import Request, Unusable, perform

    _load(chosen.backend)
    if chosen.ring is not None and chosen.record is None:
        raise UsageError("--ring says for which ring to record; it needs --record DIR")
    request = Request(
        backend=chosen.backend,
        ops=chosen.ops,
        profile=chosen.profile,
        seed=chosen.seed,
        jobs=chosen.jobs,
        record=chosen.record,
        replay=chosen.replay,
        ring=chosen.ring,
    )
    try:
        done = perform(request, progress=_progress)
    except Unusable as error:
        raise UsageError(str(error)) from error
    return _finish(chosen, done.results, done.environment)


def _finish(
    chosen: argparse.Namespace, results: Sequence[RowResult], environment: dict[str, Any]
) -> int:
    """Write the reports and return the exit code."""
    from equivalence.runs.report import print_report, summary

    if chosen.json is not None:
        plain = document(chosen.backend, environment, results)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    print_report(results)
    print(f"\n{chosen.backend}: {summary(results)} (seed {environment['seed']})")
    if chosen.ring is not None:
        print(f"recorded in {chosen.record} for the ring {chosen.ring}; nothing was judged")
    return exit_code(results)


def _progress(result: RowResult, done: int, total: int) -> None:
    """Show how far a run is, on a terminal only."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r[{done}/{total}] {result.row!s:40}", end=end, file=sys.stderr, flush=True)


def _command_list(chosen: argparse.Namespace) -> int:
    """List what there is to choose from."""
    del chosen
    from equivalence.backends import BUILT_IN
    from equivalence.runs.runner import PROFILES
    from spec.ops import OPS
    from spec.optim import OPTIMIZERS

    print("backends:  ", ", ".join((*BUILT_IN, "module:attribute")))
    print("operations:", ", ".join(OPS))
    print("optimizers:", ", ".join(OPTIMIZERS))
    print("profiles:  ", ", ".join(f"{name} ({n} cases)" for name, n in PROFILES.items()))
    return CONFORMANT


def _command_replay(chosen: argparse.Namespace) -> int:
    """Run one case and show its worst element."""
    from equivalence.runs.kinds import kind_of, read_case
    from equivalence.runs.report import show_fraction

    backend = _load(chosen.backend)
    try:
        row, case = read_case(chosen.case)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"this is no case: {error}") from error
    kind = kind_of(row)
    outcome = kind.measure(backend, case, backend.capabilities().contract(row.op, row.dtype))
    print(f"{kind.describe(case)} on {backend.name}: {outcome.judged} elements judged")
    for line in (outcome.crash, outcome.problem, outcome.detail and outcome.detail.line()):
        if line:
            print(f"  {line}")
    print(f"worst fraction of budget {show_fraction(outcome.fraction)}")
    if outcome.crash:
        return CRASH
    return NONCONFORMANT if outcome.failed else CONFORMANT


def _command_judge(chosen: argparse.Namespace) -> int:
    """Judge recorded training steps."""
    from equivalence.training.judge import judge_run, report_steps
    from equivalence.training.record import NoRecord

    try:
        judged = judge_run(chosen.run, jobs=chosen.jobs)
    except NoRecord as error:
        raise UsageError(str(error)) from error
    return report_steps(judged, chosen.run, chosen.json)


def _command_machine(chosen: argparse.Namespace) -> int:
    """Drive whole lives of a session, and print the program of one that broke a promise."""
    from equivalence.lives.drive import drive, report
    from equivalence.runs.run import chosen_seed
    from equivalence.runs.runner import PROFILES

    if chosen.profile not in PROFILES:
        raise UsageError(f"unknown profile {chosen.profile!r}; there are {', '.join(PROFILES)}")
    seed = chosen_seed(chosen.profile, chosen.seed)
    print(f"seed {seed}")
    kept = [report(run) for run in drive(chosen.profile, seed, chosen.jobs, chosen.shrink)]
    return CONFORMANT if all(kept) else NONCONFORMANT


_COMMANDS = {
    "run": _command_run,
    "list": _command_list,
    "replay-case": _command_replay,
    "judge": _command_judge,
    "machine": _command_machine,
}

__all__ = ["Row", "main", "parser"]
