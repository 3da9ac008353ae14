"""The matrix in words: a line for each member, and counts by judge and by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from population.matrix import JUDGES, Verdicts, right_of
from population.record import KINDS, Member

WORDS = {
    (False, True): "caught",
    (False, False): "missed",
    (True, True): "passed",
    (True, False): "refused",
}
"""By whether a member is right, and whether the judge was right about it."""


def word(judge: str, member: Member, verdicts: Mapping[str, Verdicts]) -> str:
    """Return what a judge made of a member in a word; a dash where it was not asked."""
    fine = right_of(judge, member, verdicts)
    return "-" if fine is None else WORDS[member.right, fine]


def asked(members: Sequence[Member], verdicts: Mapping[str, Verdicts]) -> list[str]:
    """Return the judges that were asked about anybody."""
    return [
        judge
        for judge in JUDGES
        if any(right_of(judge, member, verdicts) is not None for member in members)
    ]


def count(judge: str, members: Sequence[Member], verdicts: Mapping[str, Verdicts]) -> str:
    """Return of how many members a judge was right, of those that it was asked about."""
    said = [fine for m in members if (fine := right_of(judge, m, verdicts)) is not None]
    return f"{sum(said)} of {len(said)}" if said else "-"


def summary(
    members: Sequence[Member], verdicts: Mapping[str, Verdicts]
) -> Iterator[tuple[str, ...]]:
    """Yield the counts: wrong ones caught and right ones passed, then the wrong ones by kind."""
    judges = asked(members, verdicts)
    wrong = [m for m in members if not m.right]
    right = [m for m in members if m.right]
    yield ("", *judges)
    yield ("wrong, caught", *(count(j, wrong, verdicts) for j in judges))
    yield ("right, passed", *(count(j, right, verdicts) for j in judges))
    for kind in KINDS:
        of_kind = [m for m in wrong if m.kind == kind]
        if of_kind:
            yield (f"{kind}, caught", *(count(j, of_kind, verdicts) for j in judges))


def lines(members: Sequence[Member], verdicts: Mapping[str, Verdicts]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each member, after the heading."""
    judges = asked(members, verdicts)
    yield ("member", "kind", *judges)
    for member in members:
        yield (member.name, member.kind, *(word(j, member, verdicts) for j in judges))


def marked(table: Iterator[tuple[str, ...]]) -> str:
    """Set a table in Markdown."""
    heading, *rows = table
    rule = ("---",) * len(heading)
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, rule, *rows))
