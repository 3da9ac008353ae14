"""A failure: one thing that went wrong, in words, how much it weighs, and hints at its cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from equivalence.budgets.outcome import Detail

KINDS = ("wrong", "crash", "died", "late", "fault")
"""What a failure is: a wrong result, an exception, the end of the process, a call that took longer
than the limit, or an exception of this suite's own. All but the first make an error of a row."""

CRASHES = ("fault", "died", "late", "crash")
"""The kinds without a result, the worst first."""

NEAR_MISSES = "refusals"
"""The source of failures that are invalid calls which were accepted."""

UNASKED = "processes"
"""The source of the failure that nothing more was asked."""

GROSS = 1e3
"""A result that is this many budgets off is no worse than one that is further off."""

LAST = ("edges", "findings", UNASKED, NEAR_MISSES)
"""Sources whose failures come after those of cases, in this order."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that went wrong, in words, with the line that replays it where there is one.

    kind      one of KINDS
    source    which questions of the row it comes from, such as values, edges or refusals
    element   the worst element, as numbers in text; details say the same in lines
    """

    title: str
    details: tuple[str, ...] = ()
    replay: str | None = None
    kind: str = "wrong"
    source: str = ""
    element: Detail | None = None

    @property
    def crash(self) -> bool:
        """Whether there was nothing to judge."""
        return self.kind != "wrong"

    def lines(self) -> list[str]:
        """Return the failure as text."""
        replay = [f"  replay: {self.replay}"] if self.replay else []
        return [self.title, *(f"  {line}" for line in self.details), *replay]

    @property
    def same(self) -> tuple[str, str | None, str]:
        """What two reports of one failure have in common: what failed, and how."""
        beside = self.replay if self.replay is not None else "\n".join(self.details)
        return self.title, beside, self.kind

    @property
    def severity(self) -> tuple[int, float]:
        """What orders failures: the smaller comes first.

        First come ended processes, calls that took too long and exceptions; then wrong results,
        by the fraction of a budget, where all that are gross keep their order, as the first of
        them was made small; then edges, then findings that no longer hold; and at last invalid
        calls that were accepted.
        """
        if self.crash and self.source != UNASKED:
            return CRASHES.index(self.kind), 0.0
        after = LAST.index(self.source) + 1 if self.source in LAST else 0
        fraction = math.inf if self.element is None else self.element.fraction
        return len(CRASHES) + after, -min(fraction, GROSS)

    def to_dict(self) -> dict[str, Any]:
        """Return the failure as the schema has it; `read_failure` makes the same of it again."""
        plain = asdict(self)
        if self.element is not None:
            plain["element"]["fraction"] = plain_fraction(self.element.fraction)
            plain["element"]["inputs"] = dict(self.element.inputs)
        return plain


def read_failure(plain: Mapping[str, Any]) -> Failure:
    """Return the failure that `Failure.to_dict` wrote, or that an older version wrote."""
    given = {**plain, "details": tuple(plain["details"])}
    element = plain.get("element")
    if element is not None:
        given["element"] = Detail(
            **{
                **element,
                "index": tuple(map(int, element["index"])),
                "fraction": float(element["fraction"]),
                "inputs": tuple(element["inputs"].items()),
                "common": tuple(element["common"]),
            }
        )
    return Failure(**given)


def plain_fraction(fraction: float | None) -> float | str | None:
    """Return a fraction as JSON carries it: null where nothing was judged, "inf" for infinity."""
    return "inf" if fraction is not None and math.isinf(fraction) else fraction


@dataclass(frozen=True, slots=True)
class Hints:
    """What was found of the cause of a failure.

    cause    in which plain way its numbers pass; "" in none, and None where nobody asked
    origin   the larger case of which the shown one was made
    shared   what the wrong elements of that one have in common
    probed   what other calls have shown, in sentences
    history  that the failure takes earlier calls, in a sentence
    """

    cause: str | None = None
    origin: str = ""
    shared: tuple[str, ...] = ()
    probed: tuple[str, ...] = ()
    history: str = ""

    def lines(self) -> Iterator[str]:
        """Yield what was found, as lines of a failure."""
        if self.shared:
            yield f"it was made smaller from {self.origin}"
            yield from (f"of the wrong elements there: {said}" for said in self.shared)
        yield from self.probed
        if self.history:
            yield self.history
        if self.cause:
            yield f"the same numbers pass when {self.cause}"
