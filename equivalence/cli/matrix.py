"""The command that judges the suite itself: the population, and who catches what."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from equivalence.cli.options import UsageError, filled
from equivalence.cli.work import require, require_profile

if TYPE_CHECKING:
    from equivalence.population.matrix import Verdicts
    from equivalence.population.record import Member


def command_matrix(chosen: argparse.Namespace) -> int:
    """Examine the members that were asked for, print the matrix, and report mistakes."""
    chosen, _ = filled(chosen)
    require("torch", "flint", "hypothesis")
    from equivalence.population import matrix, table
    from equivalence.population.registry import chosen as members_of

    require_profile(chosen.profile)
    members = members_of(chosen.only)
    if not members:
        raise UsageError("--only leaves no member; a name reads as 'softmax: maximum forgotten'")
    if chosen.seeds < 1:
        raise UsageError(f"--seeds is a number of seeds, at least 1; got {chosen.seeds}")
    start = time.perf_counter()

    def told(member: Member, verdicts: Verdicts) -> None:
        said = table.word(chosen.profile, member, {member.name: verdicts})
        taken = sum(verdict.seconds for verdict in verdicts.values())
        print(f"{said:8} {taken:6.1f} s  {member.name}", flush=True)

    verdicts = matrix.matrix(
        members,
        chosen.profile,
        seeds=chosen.seeds,
        rivals=chosen.rivals,
        jobs=chosen.jobs,
        told=told,
    )
    seconds = time.perf_counter() - start
    if chosen.json is not None:
        plain = matrix.to_plain(chosen.profile, members, verdicts, seconds, chosen.seeds)
        matrix.write(chosen.json, plain)
    _report(chosen.profile, members, verdicts, seconds)
    return matrix.exit_code(chosen.profile, members, verdicts)


def _report(
    profile: str, members: Sequence[Member], verdicts: Mapping[str, Verdicts], seconds: float
) -> None:
    """Print the table, the counts, and whom the suite is wrong about."""
    from equivalence.population.matrix import mistakes
    from equivalence.population.table import lines, summary, word
    from equivalence.runs.report import aligned

    print("", aligned(lines(members, verdicts)), sep="\n")
    print("", aligned(summary(members, verdicts)), sep="\n")
    for member in mistakes(profile, members, verdicts):
        said = verdicts[member.name][profile]
        print(f"\n{word(profile, member, verdicts)} at {profile}: {member.name}")
        print(f"  {member.about}" + (f"\n  {said.says}" if said.says else ""))
    print(f"\n{len(members)} members at {profile} in {seconds:.0f} s")
