"""The command that judges the judge: the population, and who catches what."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.cli.options import Names, UsageError, add, filled, request, words
from equivalence.cli.work import ended, require, require_profile
from equivalence.runs.results import INTERRUPTED

if TYPE_CHECKING:
    from population.matrix import Verdicts
    from population.record import Member

NAME = "python -m population"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    made = argparse.ArgumentParser(
        prog=NAME,
        description="Judge implementations that are known to be wrong or right, and count who "
        "catches what.",
        epilog="Exit codes: 0 all as they should be, 1 the suite is wrong about a member, 2 asked "
        "for what cannot be, 3 a crash, 130 interrupted.",
    )
    made.add_argument(
        "--only",
        nargs="+",
        action=Names,
        metavar="MEMBER",
        help="only these members, by their names: 'softmax: maximum forgotten', 'adam: *' (all)",
    )
    made.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="how many seeds to judge by, from 0 on (1)",
    )
    made.add_argument(
        "--rivals",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also ask other people's checks (--no-rivals: not)",
    )
    add(made, "profile", "jobs", "json")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return ended(command, parser().parse_args(arguments))


def command(chosen: argparse.Namespace) -> int:
    """Examine the members that were asked for, print the matrix, and report mistakes."""
    chosen, _ = filled(chosen)
    require("torch", "flint", "hypothesis")
    from population import matrix

    members = _members(chosen)
    if chosen.json is not None:
        _require_readable(chosen.json)
    start = time.perf_counter()
    found: dict[str, Verdicts] = {}
    try:
        _examine(chosen, members, found)
    except KeyboardInterrupt:
        if not found:
            raise
    seconds = time.perf_counter() - start
    done = [member for member in members if member.name in found]
    if chosen.json is not None:
        plain = matrix.to_plain(chosen.profile, done, found, seconds, chosen.seeds)
        matrix.write(chosen.json, plain)
    _report(chosen.profile, done, found, seconds)
    missing = [member.name for member in members if member.name not in found]
    if missing:
        print(f"interrupted with {len(done)} of {len(members)} members done; go on with")
        print(f"    {_way_on(chosen, missing)}")
        return INTERRUPTED
    return matrix.exit_code(chosen.profile, members, found)


def _members(chosen: argparse.Namespace) -> list[Member]:
    """Return the members that were asked for, or refuse what cannot be."""
    from population.registry import chosen as members_of

    require_profile(chosen.profile)
    members = members_of(chosen.only)
    if not members:
        raise UsageError("--only leaves no member; a name reads as 'softmax: maximum forgotten'")
    if chosen.seeds < 1:
        raise UsageError(f"--seeds is a number of seeds, at least 1; got {chosen.seeds}")
    return members


def _require_readable(path: Path) -> None:
    """Refuse a file that verdicts cannot be added to, before any is found."""
    from population.matrix import plain_of

    try:
        plain_of(path)
    except ValueError as error:
        raise UsageError(f"--json {error}") from error


def _examine(
    chosen: argparse.Namespace, members: Sequence[Member], found: dict[str, Verdicts]
) -> None:
    """Examine members, and keep and tell the verdicts of each as soon as there are any."""
    from population import matrix, table

    def told(member: Member, verdicts: Verdicts) -> None:
        found[member.name] = verdicts
        said = table.word(chosen.profile, member, found)
        taken = sum(verdict.seconds for verdict in verdicts.values())
        print(f"{said:8} {taken:6.1f} s  {member.name}", flush=True)

    matrix.matrix(
        members,
        chosen.profile,
        seeds=chosen.seeds,
        rivals=chosen.rivals,
        jobs=chosen.jobs,
        told=told,
    )


def _way_on(chosen: argparse.Namespace, missing: list[str]) -> str:
    """Return the command line that examines the members that are missing."""
    asked: dict[str, Any] = {**request(chosen), "seeds": chosen.seeds, "only": missing}
    if not chosen.rivals:
        asked["no_rivals"] = True
    if chosen.json is not None:
        asked["json"] = str(chosen.json)
    return f"{NAME} {shlex.join(words(asked))}"


def _report(
    profile: str, members: Sequence[Member], verdicts: Mapping[str, Verdicts], seconds: float
) -> None:
    """Print the table, the counts, and whom the suite is wrong about."""
    from equivalence.runs.report import aligned
    from population.matrix import mistakes
    from population.table import lines, summary, word

    print("", aligned(lines(members, verdicts)), sep="\n")
    print("", aligned(summary(members, verdicts)), sep="\n")
    for member in mistakes(profile, members, verdicts):
        said = verdicts[member.name][profile]
        print(f"\n{word(profile, member, verdicts)} at {profile}: {member.name}")
        print(*(f"  {line}" for line in (member.about, said.says, said.replay) if line), sep="\n")
    print(f"\n{len(members)} members at {profile} in {seconds:.0f} s")
