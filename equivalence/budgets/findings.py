"""Declared findings: known differences of a backend from the reference, each with its minimal case.

`findings.toml` holds one table per finding.  A finding covers failures of one kind (a case, an edge
row, a near-miss) of some operations, directions, dtypes and backends (shell patterns), and is
strict: every run replays its minimal case, and one that no longer fails is itself a failure.
So no declaration outlives the defect that it declares.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("findings.toml")

KINDS = ("case", "edge", "near-miss", "update")

_KEYS = {
    "kind",
    "backend",
    "op",
    "direction",
    "dtype",
    "reason",
    "case",
    "edge",
    "label",
    "regimes",
    "got",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One declared difference.

    case is the minimal failing case (a JSON line); edge is the reason text of an edge row; label is
    the constraint whose near-misses are accepted.
    regimes, where given, restricts the finding to cases that use one of them, and got to failures
    whose worst element is this one ("nan").
    """

    kind: str
    backend: str
    op: str
    reason: str
    direction: str = "*"
    dtype: str = "*"
    case: str | None = None
    edge: str | None = None
    label: str | None = None
    regimes: tuple[str, ...] = ()
    got: str | None = None

    def applies(self, backend: str, op: str, direction: str, dtype: str) -> bool:
        """Say whether the finding speaks of a row."""
        pairs = (
            (backend, self.backend),
            (op, self.op),
            (direction, self.direction),
            (dtype, self.dtype),
        )
        return all(fnmatchcase(name, pattern) for name, pattern in pairs)

    def covers(self, regimes: Sequence[str], got: str | None) -> bool:
        """Say whether a failing case of such a row is one that the finding declares."""
        used = not self.regimes or any(name in self.regimes for name in regimes)
        return used and self.got in (None, got)

    def to_dict(self) -> dict[str, str]:
        """Return what a report says about the finding."""
        return {
            "op": self.op,
            "direction": self.direction,
            "dtype": self.dtype,
            "kind": self.kind,
            "reason": self.reason,
        }


def parse(text: str) -> tuple[Finding, ...]:
    """Read findings from TOML; ValueError says which one is wrong and how."""
    tables = tomllib.loads(text).get("finding", [])
    return tuple(_finding(number, table) for number, table in enumerate(tables, 1))


def _finding(number: int, table: Mapping[str, Any]) -> Finding:
    """Read one table, strictly."""
    unknown = sorted(set(table) - _KEYS)
    missing = [key for key in ("kind", "backend", "op", "reason") if not table.get(key)]
    if unknown or missing:
        raise ValueError(f"finding {number}: unknown keys {unknown}, missing keys {missing}")
    needed = {"case": "case", "edge": "edge", "near-miss": "label", "update": "case"}
    kind = table["kind"]
    if kind not in KINDS:
        raise ValueError(f"finding {number}: kind {kind!r}; there are {', '.join(KINDS)}")
    if needed[kind] not in table:
        raise ValueError(f"finding {number}: a finding of kind {kind!r} needs {needed[kind]!r}")
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    return Finding(**fields)


@cache
def shipped() -> tuple[Finding, ...]:
    """Return the findings that ship with the suite."""
    return parse(FILE.read_text(encoding="utf-8"))


def for_row(
    findings: Sequence[Finding], backend: str, op: str, direction: str, dtype: str
) -> tuple[Finding, ...]:
    """Return the findings that speak of a row."""
    return tuple(f for f in findings if f.applies(backend, op, direction, dtype))
