"""Keeps how much of its budgets each built-in backend used, in docs/fractions.json.

    python -m equivalence run --backend torch --profile ci --json build/torch.json
    python -m tools.record_fractions build/torch.json [...]

A report replaces what was recorded of its backend, op by op if it has not every row. Exit code 1,
with nothing written, if a report is of a run that did not end or that has a row which failed: its
numbers would not be those of this tree.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.tree import ROOT

RECORD = ROOT / "docs" / "fractions.json"
GOOD = ("conformant", "declared", "unsupported")
"""The statuses of rows whose fractions may be quoted."""

DECLARED = "declared"

Runs = Mapping[str, Any]
"""By backend: the profile and the seed of its run, and for each op the worst fraction of its rows
that need no finding, or null, and whether others do."""


def recorded() -> Runs:
    """Return what was recorded; nothing was where there is no file."""
    runs: Runs = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return runs


def shown(op: Mapping[str, Any] | None) -> str:
    """Write a fraction with two digits, and as 0 only if it is, and whether rows are declared."""
    if op is None:
        return "-"
    fraction = op["fraction"]
    if fraction is None:
        return DECLARED
    digits = f"{fraction:.2f}" if fraction >= 0.01 else "< 0.01" if fraction else "0"
    return f"{digits}, {DECLARED}" if op[DECLARED] else digits


def worst(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what is recorded of each op; raises ValueError if the run failed or did not end."""
    rows = report["rows"]
    failed = [row for row in rows if row["status"] not in GOOD]
    if failed or not report["complete"]:
        first = _named(failed[0]) if failed else "it did not end"
        raise ValueError(
            f"only a run whose rows all pass is recorded; {report['backend']}: {first}"
        )
    ops: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["worst_fraction"] is not None:
            _count(ops.setdefault(row["op"], {"fraction": None, DECLARED: False}), row)
    return ops


def _count(op: dict[str, Any], row: Mapping[str, Any]) -> None:
    """Take a row into what is recorded of its op."""
    if DECLARED in (row["status"], row["beside"]):
        op[DECLARED] = True
    else:
        op["fraction"] = max(op["fraction"] or 0.0, row["worst_fraction"])


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['op']} {row['direction']} {row['dtype']} is {row['status']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Record reports, of which each must be sound before any is written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path, help="what runs wrote by --json")
    runs = {name: dict(run) for name, run in recorded().items()}
    for path in parser.parse_args(arguments).reports:
        report = json.loads(path.read_text(encoding="utf-8"))
        try:
            found = worst(report)
        except ValueError as refusal:
            print(f"{path}: {refusal}", file=sys.stderr)
            return 1
        environment = report["environment"]
        before = runs.get(report["backend"], {}).get("worst", {})
        runs[report["backend"]] = {
            "profile": environment["profile"],
            "seed": environment["seed"],
            "worst": {**before, **found},
        }
    RECORD.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
