"""What a run finds: rows, failures, statuses, exit codes and the JSON that carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from equivalence.budgets.outcome import too_open, too_wide
from equivalence.measure.spent import Spent
from equivalence.runs.failure import Failure, plain_fraction, read_failure

SCHEMA = 2

STATUSES = (
    "conformant",
    "declared",
    "partial",
    "nonconformant",
    "ambiguous",
    "vacuous",
    "unsupported",
    "recorded",
    "error",
)
"""What a row may come to: declared, where all that fails is a declared finding; recorded, where it
was written for another ring and not judged. docs/backends.md explains the others."""

CONFORMANT, NONCONFORMANT, USAGE, CRASH, VACUOUS, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes of every command."""


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One line of a report: an operation (or optimizer), a direction and a dtype."""

    op: str
    direction: str
    dtype: str

    def __str__(self) -> str:
        """Show as ``softmax vjp bf16``."""
        return f"{self.op} {self.direction} {self.dtype}"


DECLARE = "Capabilities.takes can say which part it is: cases are then drawn inside it"
"""What somebody can do whose backend refused most of its cases."""


@dataclass(frozen=True, slots=True)
class Partial:
    """How much of a page's design a row judged.

    missing  the levels without a judged case, by their factors
    levels   how many levels have one, and how many there are
    cases    how many cases were answered, and how many were asked
    edges    how many edges were left out
    """

    missing: Mapping[str, tuple[str, ...]]
    levels: tuple[int, int]
    cases: tuple[int, int]
    edges: int = 0

    def line(self) -> str:
        """Say it in a line; of many levels of a factor, the first few are named."""
        share = f"{self.levels[0]} of {self.levels[1]} levels judged"
        answered, asked = self.cases
        left = f", {asked - answered} of {asked} cases left out" if asked > answered else ""
        left += f", {self.edges} edges left out" if self.edges else ""
        parts = [f"{name} {_few(levels)}" for name, levels in self.missing.items()]
        found = f"{share}{left}" + (f"; no judged case: {'; '.join(parts)}" if parts else "")
        return f"{found}; {DECLARE}" if 2 * answered < asked else found


def _few(levels: Sequence[str], most: int = 6) -> str:
    more = f" and {len(levels) - most} more" if len(levels) > most else ""
    return ", ".join(levels[:most]) + more


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader of a row has to know, and is no failure; loud, where it must not be missed."""

    text: str
    loud: bool = False


@dataclass(frozen=True, slots=True)
class RowResult:
    """What a run found about one row.

    beside is what an error's judged cases come to; proposed holds the text of findings that would
    declare what failed, where they were asked for. discarded counts the drawn calls that the page
    refuses. granted says what the contract of a stranger takes over from a library.
    """

    row: Row
    status: str
    cases: int = 0
    worst_fraction: float | None = None
    page_fraction: float | None = None
    contract: str = ""
    freedom: str = ""
    inferred: str = ""
    ring: str = ""
    judged: int = 0
    unconstrained: int = 0
    wide: int = 0
    failures: tuple[Failure, ...] = ()
    declared: tuple[dict[str, str], ...] = ()
    beside: str = ""
    proposed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()
    discarded: int = 0
    partial: Partial | None = None
    notes: tuple[Note, ...] = ()
    spent: Spent = field(default=Spent(), compare=False)

    @property
    def verdict(self) -> str:
        """The status in words: of an error also what its judged cases come to."""
        return f"{self.status}, else {self.beside}" if self.beside else self.status

    @property
    def under(self) -> str:
        """Say under what a row without failures passed: its page alone, or the freedom too."""
        if self.worst_fraction is None or not self.worst_fraction <= 1:
            return ""
        own = self.page_fraction is None or self.page_fraction <= 1
        return "page" if own else self.freedom

    def to_dict(self) -> dict[str, Any]:
        """Return the row as the schema has it; `read_row` makes the same row of it again."""
        return {
            "op": self.row.op,
            "direction": self.row.direction,
            "dtype": self.row.dtype,
            "cases": self.cases,
            "worst_fraction": plain_fraction(self.worst_fraction),
            "page_fraction": plain_fraction(self.page_fraction),
            "contract": self.contract,
            "freedom": self.freedom,
            "under": self.under,
            "ring": self.ring,
            "status": self.status,
            "beside": self.beside,
            "inferred": self.inferred,
            "judged": self.judged,
            "unconstrained": self.unconstrained,
            "wide": self.wide,
            "left_out": list(self.left_out),
            "failures": [failure.to_dict() for failure in self.failures],
            "declared": [dict(finding) for finding in self.declared],
            "proposed": list(self.proposed),
            "seconds": asdict(self.spent),
            **({"discarded": self.discarded} if self.discarded else {}),
            **({"partial": asdict(self.partial)} if self.partial else {}),
            **({"notes": [asdict(note) for note in self.notes]} if self.notes else {}),
            **({"granted": list(self.granted)} if self.granted else {}),
        }


def read_row(plain: Mapping[str, Any]) -> RowResult:
    """Return the row that `RowResult.to_dict` wrote; any error says that it did not."""
    row = Row(*(str(plain[key]) for key in ("op", "direction", "dtype")))
    failures = [read_failure(failure) for failure in plain["failures"]]
    if plain["status"] not in STATUSES:
        raise ValueError(f"unknown status {plain['status']!r}")
    return RowResult(
        row=row,
        status=plain["status"],
        worst_fraction=_fraction(plain["worst_fraction"]),
        page_fraction=_fraction(plain["page_fraction"]),
        failures=tuple(failures),
        declared=tuple(plain["declared"]),
        proposed=tuple(plain["proposed"]),
        spent=Spent(**plain["seconds"]),
        left_out=tuple(plain["left_out"]),
        discarded=int(plain.get("discarded", 0)),
        partial=_partial(plain.get("partial")),
        notes=tuple(Note(**note) for note in plain.get("notes", ())),
        granted=tuple(plain.get("granted", ())),
        **{key: plain[key] for key in KEPT},
    )


def _partial(plain: Mapping[str, Any] | None) -> Partial | None:
    if plain is None:
        return None
    missing = {str(name): tuple(levels) for name, levels in plain["missing"].items()}
    levels, cases = (tuple(map(int, plain[key])) for key in ("levels", "cases"))
    return Partial(missing, (levels[0], levels[1]), (cases[0], cases[1]), int(plain["edges"]))


def _fraction(plain: Any) -> float | None:
    return None if plain is None else float(plain)


KEPT = (
    *("cases", "contract", "freedom", "ring", "inferred"),
    *("judged", "unconstrained", "wide", "beside"),
)
"""Fields of a row that JSON carries as they are."""


def document(
    backend: str,
    environment: Mapping[str, Any],
    results: Sequence[RowResult],
    missing: Sequence[Row] = (),
) -> dict[str, Any]:
    """Return a run as the schema has it; it is complete unless rows are missing."""
    return {
        "schema": SCHEMA,
        "backend": backend,
        "complete": not missing,
        "environment": dict(environment),
        "rows": [result.to_dict() for result in results],
        "missing": [str(row) for row in missing],
    }


def status_of(
    *,
    failed: bool,
    crashed: bool,
    counted: int,
    wanted: int,
    judged: float,
    unconstrained: float,
    wide: float = 0,
    declared: bool = False,
    partial: bool = False,
) -> str:
    """Decide a row's status; what is worse comes first.

    judged, unconstrained and wide count elements, or cases of which parts are so.
    """
    if crashed:
        return "error"
    if failed:
        return "nonconformant"
    if counted < wanted:
        return "vacuous"
    if too_open(judged, unconstrained) or too_wide(judged, wide):
        return "ambiguous"
    return "partial" if partial else "declared" if declared else "conformant"


def exit_code(results: Sequence[RowResult], whole: bool = False) -> int:
    """Decide the exit code of a run: crashes first, then failures, then emptiness.

    A row whose every failure is a declared finding does not fail the run. A row of a part of an op
    fails it where the whole of every op is wanted.
    """
    statuses = [result.status for result in results]
    if "error" in statuses:
        return CRASH
    if "nonconformant" in statuses or "ambiguous" in statuses:
        return NONCONFORMANT
    if whole and "partial" in statuses:
        return NONCONFORMANT
    ran = [result for result in results if result.status != "unsupported"]
    if "vacuous" in statuses or not ran:
        return VACUOUS
    return CONFORMANT
