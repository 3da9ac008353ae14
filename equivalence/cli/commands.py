"""All commands: their parser, and the way from a command line to an exit code."""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from equivalence.cli.coverage import command_coverage
from equivalence.cli.exact import command_exact
from equivalence.cli.leave import leave
from equivalence.cli.options import UsageError, add
from equivalence.cli.pairs import command_pairs
from equivalence.cli.races import command_races
from equivalence.cli.suite import command_list, command_replay, command_run
from equivalence.cli.training import command_judge
from equivalence.cli.work import ended

PAIRS = {
    "programs": "judge whole programs on both sides: written, designed and random ones",
    "trainers": "judge the steps of trainers on both sides, with drawn losses and optimizers",
    "curvature": "judge Hessians of drawn programs, and their products with vectors",
    "machine": "run stateful tests of a session, with rules in any order",
}
"""Commands without a backend, with their help texts."""

ENGINED = ("programs", "trainers", "machine")
"""Those of them that judge engines, too."""

MOVED = {"matrix": "python -m population, in a checkout of the repository"}
"""Commands that have moved, with the new command line."""


def parser(name: str = "python -m equivalence") -> argparse.ArgumentParser:
    """Return the parser of all commands. Its help calls the program by the given name."""
    top = argparse.ArgumentParser(
        prog=name,
        description="Judge backends by the reference: each element has a derived error bound.",
        epilog="Exit codes: 0 conformant, 1 not conformant, 2 an impossible request, 3 a crash, "
        "4 vacuous, 130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"{name} {_version()}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, what: str, *options: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        add(made, *options)
        return made

    work = ("jobs", "json", "resume")
    judged = ("profile", "seed")
    asked = ("backend", "ops", "pages")
    stored = ("record", "replay", "ring")
    own = ("findings", "declare", "fence", "whole", "call_limit")
    command(
        "run",
        "run the suite on a backend",
        "backend",
        "ops",
        "pages",
        *judged,
        *own,
        *stored,
        *work,
    )
    for name, what in PAIRS.items():
        engine = ("engine",) if name in ENGINED else ()
        sized = ("cases", "nodes") if name == "programs" else ()
        command(name, what, "provider", "only", *engine, *judged, *sized, "shrink", *work)
    command(
        "races",
        "check our kernels, or those of a backend, for races and wrong addresses without a GPU",
        *("backend", "ops", "pages", "jobs", "json"),
    )
    command(
        "exact",
        "run our kernels or a backend on exact numbers, and compare with the pages by ==",
        *(*asked, "points", "seed", "jobs", "json"),
    )
    judge = command("judge", "judge the recorded steps of a training run", "jobs", "json")
    judge.add_argument("run", type=Path, help="the folder that the training command wrote")
    judge.add_argument(
        "--engine",
        help="refuse a run whose steps another engine has taken: eager, replay or inductor "
        "(default: judge what is recorded)",
    )
    command(
        "coverage",
        "say which special numbers, extents and squares the fixed cases of rows meet",
        *("ops", "pages", "profile", "json"),
    )
    command("list", "list backends, operations, optimizers and profiles", "pages", "json")
    replay = command(
        "replay-case",
        "run one case that a failure has printed",
        *("backend", "fence", "call_limit", "jobs"),
    )
    replay.add_argument("case", help="the case, as one line of JSON")
    for name in MOVED:
        commands.add_parser(name, add_help=False)
    return top


def _version() -> str:
    """Return the version of the installed package."""
    try:
        return importlib.metadata.version("twingrad")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout that is not installed"


def _of_command(top: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    """Return the parser of one command, whose usage its user needs."""
    (commands,) = (
        action
        for action in top._actions  # argparse has no other way to its commands
        if isinstance(action, argparse._SubParsersAction)
    )
    found: argparse.ArgumentParser = commands.choices[command]
    return found


def _moved(chosen: argparse.Namespace) -> int:
    """Refuse a command that has moved, and name the new one."""
    raise UsageError(f"{chosen.command} has moved: use {MOVED[chosen.command]}")


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": command_run,
    "list": command_list,
    "replay-case": command_replay,
    "judge": command_judge,
    "exact": command_exact,
    "coverage": command_coverage,
    "races": command_races,
    **dict.fromkeys(PAIRS, command_pairs),
    **dict.fromkeys(MOVED, _moved),
}


def main(arguments: Sequence[str] | None = None, name: str = "python -m equivalence") -> int:
    """Run a command and return its exit code."""
    top = parser(name)
    chosen, rest = top.parse_known_args(arguments)
    if rest and chosen.command not in MOVED:
        _of_command(top, chosen.command).error(f"unrecognized arguments: {' '.join(rest)}")
    return ended(_COMMANDS[chosen.command], chosen)


def script() -> NoReturn:
    """Run as the console script. It finds modules in the working directory, as `python -m` does.

    So both find a backend beside the caller, such as mine.py.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    leave(lambda: main(name="twingrad-judge"))
