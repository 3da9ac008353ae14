"""Keeps what is known of each row's bound, in docs/bounds.json.

    python -m tools.record_bounds                       measure all rows anew, on two processes
    python -m tools.record_bounds --ops softmax,gelu    measure the rows of some ops
    python -m tools.record_bounds --check               say which rows have no such bound (exit 1)

A row has a case with a bound that says something, two errors that were planted in it, and the
hypotheses of the budget that were met (`equivalence.bounds`). `tools.generate_bounds` writes
the table from it. Cases are drawn by Hypothesis, which also draws from the constants of modules
that are imported, so another run may find another case of a row.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tools.tree import ROOT

RECORD = ROOT / "docs" / "bounds.json"
SCHEMA = 1

NO_NUMBERS = "no result holds numbers"
"""Why a row has no bound."""

Rows = Mapping[str, Any]


def recorded() -> dict[str, Any]:
    """Return what was recorded, by row; nothing was where there is no file."""
    if not RECORD.exists():
        return {}
    rows: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    return rows


def rows(ops: Sequence[str] | None = None) -> list[str]:
    """Return the rows that have bounds: every op, direction and dtype of the provider `aten`.

    In the place of a direction, an optimizer has each tensor that a step leaves.
    """
    from equivalence.backends import load
    from equivalence.bounds.updates import tensors
    from equivalence.runs.rows import rows_of

    found = rows_of(load("fast-aten").capabilities(), ops)
    return [
        f"{row.op} {result} {row.dtype}"
        for row in found
        for result in (tensors(row.op) if row.direction == "update" else (row.direction,))
    ]


def measured(name: str) -> dict[str, Any]:
    """Return what is known of a row's bound, as plain data."""
    import torch

    from equivalence.bounds.found import found
    from equivalence.bounds.updates import left
    from equivalence.registry import OPTIMIZERS
    from equivalence.runs.results import Row

    torch.set_num_threads(1)
    of, result, dtype = name.split(" ")
    bound = left(of, dtype)[result] if of in OPTIMIZERS else found(Row(of, result, dtype))
    if bound is None:
        return {"none": NO_NUMBERS}
    shares = (float(f"{share:.3g}") for share in bound.planted)
    return {
        "case": bound.case,
        **dict(zip(bound.planted._fields, map(_plain, shares), strict=True)),
        "met": [*bound.met],
        "elsewhere": dict(sorted(bound.elsewhere.items())),
    }


def _plain(share: float) -> float | str:
    """Return a fraction as JSON holds it."""
    return "inf" if share == float("inf") else share


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure rows, and write them down or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ops", help="only the rows of these, with commas between")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(arguments)
    names = rows(chosen.ops.split(",") if chosen.ops else None)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        found = dict(zip(names, pool.map(measured, names, chunksize=8), strict=True))
    known, every = recorded(), rows()
    if chosen.check:
        wide = [name for name in names if "none" in found[name] and "none" not in known[name]]
        print("\n".join(wide) or f"{len(names)} rows have a bound that says something")
        return int(bool(wide))
    kept = {name: found.get(name, known.get(name)) for name in every}
    written = {name: row for name, row in kept.items() if row is not None}
    text = json.dumps({"schema": SCHEMA, "rows": written}, indent=1)
    RECORD.write_text(f"{text}\n", encoding="utf-8")
    print(f"wrote the bounds of {len(found)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
