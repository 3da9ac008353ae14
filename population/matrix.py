"""The matrix: which judge catches which member, counted by judge and by kind, kept as JSON.

A judge is this suite at a profile, or one of other people's policies. A file collects several
runs: what one judge said stays until the same judge is asked again about the same member.
"""

from __future__ import annotations

import datetime
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from equivalence.measure.kept import Kept, keeping
from equivalence.runs.results import CONFORMANT, CRASH, NONCONFORMANT
from equivalence.runs.runner import PROFILES
from equivalence.workers.pool import Died, spread
from population.judged.verdicts import Verdict, judged
from population.record import Member
from population.registry import named
from population.rivals.policies import POLICIES, accepts

SCHEMA = 1
"""The number of the file's format. A file without one is older, and has the same format."""

JUDGES = (*PROFILES, *POLICIES)
"""The columns of the matrix."""

Verdicts = dict[str, Verdict]
"""By judge: what it said about one member."""

KEPT = Kept()
"""What the oracle said of the op whose members this process was at last."""


def examined(name: str, profile: str, seeds: int, rivals: bool) -> Verdicts:
    """Ask the suite about one member, and the rivals where they are wanted."""
    member = named(name)
    with keeping(KEPT):
        found = {profile: judged(member, profile, seeds)}
    if rivals:
        for policy in POLICIES:
            start = time.perf_counter()
            said = accepts(policy, member)
            found[policy] = Verdict(said, seconds=time.perf_counter() - start)
    return found


def matrix(
    members: Sequence[Member],
    profile: str,
    *,
    seeds: int = 1,
    rivals: bool = True,
    jobs: int = 1,
    told: Callable[[Member, Verdicts], None] = lambda member, verdicts: None,
) -> dict[str, Verdicts]:
    """Examine members, each in a process of the pool, and return the verdicts by name.

    A member that takes its process down has been caught, and is no member that may be called right.
    Members of one op meet the same cases, of which the oracle is asked once by each process.
    """
    calls = [(member.name, profile, seeds, rivals) for member in members]
    found: dict[str, Verdicts] = {}
    for number, result in spread(examined, calls, jobs, alike=lambda n: members[n].of):
        member = members[number]
        if isinstance(result, Died):
            result = {profile: Verdict(False, f"the process {result.how} at {result.at}")}
        found[member.name] = result
        told(member, result)
    return {member.name: found[member.name] for member in members}


def right_of(judge: str, member: Member, verdicts: Mapping[str, Verdicts]) -> bool | None:
    """Say whether a judge was right about a member; None where it was not asked."""
    verdict = verdicts.get(member.name, {}).get(judge)
    if verdict is None or verdict.accepted is None:
        return None
    return verdict.accepted is member.right


def mistakes(
    profile: str, members: Iterable[Member], verdicts: Mapping[str, Verdicts]
) -> list[Member]:
    """Return those that the suite is wrong about, and that could be told apart."""
    return [
        member
        for member in members
        if not right_of(profile, member, verdicts) and not member.indistinguishable
    ]


def exit_code(profile: str, members: Sequence[Member], verdicts: Mapping[str, Verdicts]) -> int:
    """Decide the exit code: 1 where the suite is wrong about a member, 3 where it is not sound."""
    lacking = [m for m in members if right_of(profile, m, verdicts) is None]
    if lacking:
        return CRASH
    return NONCONFORMANT if mistakes(profile, members, verdicts) else CONFORMANT


def to_plain(
    profile: str,
    members: Sequence[Member],
    verdicts: Mapping[str, Verdicts],
    seconds: float,
    seeds: int,
) -> dict[str, Any]:
    """Return a run as JSON carries it."""
    run = {
        "date": datetime.date.today().isoformat(),
        "seconds": round(seconds),
        "seeds": seeds,
        "python": platform.python_version(),
    }
    return {
        "runs": {profile: run},
        "members": {
            member.name: {
                "right": member.right,
                "kind": member.kind,
                "verdicts": {j: v.to_dict() for j, v in verdicts[member.name].items()},
            }
            for member in members
        },
    }


def write(path: Path, plain: Mapping[str, Any]) -> None:
    """Write a run to a file, beside what other judges said there."""
    before = plain_of(path)
    members = before["members"]
    for name, entry in plain["members"].items():
        old = members.get(name, {}).get("verdicts", {})
        members[name] = {**entry, "verdicts": {**old, **entry["verdicts"]}}
    whole = {"schema": SCHEMA, "runs": {**before["runs"], **plain["runs"]}, "members": members}
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> tuple[dict[str, Any], dict[str, Verdicts]]:
    """Read a file back: its runs, and the verdicts by name."""
    plain = plain_of(path)
    verdicts = {
        name: {judge: Verdict(**said) for judge, said in entry["verdicts"].items()}
        for name, entry in plain["members"].items()
    }
    return plain["runs"], verdicts


def plain_of(path: Path) -> dict[str, Any]:
    """Read a file as it is, empty where there is none; ValueError refuses an unknown format."""
    if not path.exists():
        return {"runs": {}, "members": {}}
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if plain.get("schema", SCHEMA) != SCHEMA:
        raise ValueError(
            f"{path} is of schema {plain['schema']!r}; read are {SCHEMA} and files without one"
        )
    return plain
