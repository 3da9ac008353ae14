"""What a run finds: rows, failures, statuses, exit codes and the JSON that carries them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from equivalence.budgets.outcome import too_open

SCHEMA = 1

STATUSES = ("conformant", "nonconformant", "ambiguous", "vacuous", "unsupported", "error")

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


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that went wrong, in words, with the line that replays it where there is one."""

    title: str
    details: tuple[str, ...] = ()
    replay: str | None = None
    crash: bool = False

    def lines(self) -> list[str]:
        """Return the failure as text."""
        replay = [f"  replay: {self.replay}"] if self.replay else []
        return [self.title, *(f"  {line}" for line in self.details), *replay]


@dataclass(frozen=True, slots=True)
class RowResult:
    """What a run found about one row."""

    row: Row
    status: str
    cases: int = 0
    worst_fraction: float | None = None
    contract: str = ""
    inferred: str = ""
    ring: str = ""
    judged: int = 0
    unconstrained: int = 0
    failures: tuple[Failure, ...] = ()
    declared: tuple[dict[str, str], ...] = ()
    excused: bool = False
    left_out: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as schema 1 has it; `read_row` makes the same row of it again."""
        return {
            "op": self.row.op,
            "direction": self.row.direction,
            "dtype": self.row.dtype,
            "cases": self.cases,
            "worst_fraction": plain_fraction(self.worst_fraction),
            "contract": self.contract,
            "ring": self.ring,
            "status": self.status,
            "inferred": self.inferred,
            "judged": self.judged,
            "unconstrained": self.unconstrained,
            "excused": self.excused,
            "left_out": list(self.left_out),
            "failures": [asdict(failure) for failure in self.failures],
            "declared": [dict(finding) for finding in self.declared],
        }


def read_row(plain: Mapping[str, Any]) -> RowResult:
    """Return the row that `RowResult.to_dict` wrote; any error says that it did not."""
    row = Row(*(str(plain[key]) for key in ("op", "direction", "dtype")))
    failures = [
        Failure(**{**failure, "details": tuple(failure["details"])})
        for failure in plain["failures"]
    ]
    if plain["status"] not in STATUSES:
        raise ValueError(f"unknown status {plain['status']!r}")
    fraction = plain["worst_fraction"]
    return RowResult(
        row=row,
        status=plain["status"],
        worst_fraction=None if fraction is None else float(fraction),
        failures=tuple(failures),
        declared=tuple(plain["declared"]),
        left_out=tuple(plain.get("left_out", ())),
        **{key: plain[key] for key in KEPT},
    )


KEPT = ("cases", "contract", "ring", "inferred", "judged", "unconstrained", "excused")
"""Fields of a row that JSON carries as they are."""


def plain_fraction(fraction: float | None) -> float | str | None:
    """Return a fraction as JSON carries it: null where nothing was judged, "inf" for infinity."""
    return "inf" if fraction is not None and math.isinf(fraction) else fraction


def document(
    backend: str,
    environment: Mapping[str, Any],
    results: Sequence[RowResult],
    missing: Sequence[Row] = (),
) -> dict[str, Any]:
    """Return a run as schema 1 has it; it is complete unless rows are missing."""
    return {
        "schema": SCHEMA,
        "backend": backend,
        "complete": not missing,
        "environment": dict(environment),
        "rows": [result.to_dict() for result in results],
        "missing": [str(row) for row in missing],
    }


def status_of(
    *, failed: bool, crashed: bool, counted: int, wanted: int, judged: int, unconstrained: int
) -> str:
    """Decide a row's status; what is worse comes first."""
    if crashed:
        return "error"
    if failed:
        return "nonconformant"
    if counted < wanted:
        return "vacuous"
    if too_open(judged, unconstrained):
        return "ambiguous"
    return "conformant"


def exit_code(results: Sequence[RowResult]) -> int:
    """Decide the exit code of a run: crashes first, then failures, then emptiness.

    A row whose every failure is a declared finding does not fail the run.
    """
    statuses = [result.status for result in results if not result.excused]
    if "error" in statuses:
        return CRASH
    if "nonconformant" in statuses or "ambiguous" in statuses:
        return NONCONFORMANT
    ran = [result for result in results if result.status != "unsupported"]
    if "vacuous" in statuses or not ran:
        return VACUOUS
    return CONFORMANT
