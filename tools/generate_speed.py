"""Writes the README's table of training steps from a file that `python -m benchmarks engines` left.

Numbers are ratios to torch eager with its fused AdamW, of the run whose file is committed. A target
that is missed is shown beside the number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from tools.generated import between, write_or_check
from tools.tree import ROOT

README = ROOT / "README.md"
MEASURED = ROOT / "benchmarks" / "results" / "engines.json"


def table(measured: Mapping[str, Any]) -> str:
    """Return the table, and a line that says what was measured where."""
    rows: list[Mapping[str, Any]] = measured["rows"]
    works = list(dict.fromkeys(row["work"] for row in rows))
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    found = {(row["engine"], row["work"]): row for row in rows}
    lines = [f"| a whole step | {' | '.join(works)} |", "|---|" + "--:|" * len(works)]
    lines += [
        f"| {engine} | {' | '.join(cell(found.get((engine, work))) for work in works)} |"
        for engine in engines
    ]
    sizes = measured["updates"]
    lines += [
        "",
        f"| an update alone | {' | '.join(row['work'] for row in sizes)} |",
        "|---|" + "--:|" * len(sizes),
        f"| fast.torch.AdamW | {' | '.join(map(cell, sizes))} |",
    ]
    return "\n".join([*lines, "", where(measured["environment"])])


def cell(row: Mapping[str, Any] | None) -> str:
    """Return a ratio, with the target that it misses."""
    if row is None:
        return "-"
    target = row["target"]
    missed = target is not None and row["ratio"] > target
    return f"{row['ratio']:.2f} (target {target:.2f})" if missed else f"{row['ratio']:.2f}"


def where(about: Mapping[str, Any]) -> str:
    """Say on what, with what and when it was measured."""
    return (
        "Times of torch eager with its fused AdamW are 1. One thread of "
        f"{about['processor']}, torch\n"
        f"{about['versions']['torch']}, JAX {about['jax']}, {about['date'][:10]}, commit "
        f"{about['commit'][:7]}; medians of five runs, whose spread\n"
        "is in [the file](benchmarks/results/engines.json)."
    )


def main() -> int:
    """Write the table, or with --check compare it."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    text = between(README.read_text(encoding="utf-8"), "speed", table(measured))
    return write_or_check(README, text, "tools.generate_speed")


if __name__ == "__main__":
    sys.exit(main())
