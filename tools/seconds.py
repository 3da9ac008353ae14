"""Say what a run of `make full` spent on each op, by report.

    python -m tools.seconds REPORT [REPORT ...]     print the ops that took longest, and the sums

A report is what `python -m equivalence run --json` or `exact --json` wrote; its name is that of its
file. A report that is not there is said to be missing: its step was shown, and not run again.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

MOST = 15
"""So many ops are named; the sums are of all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of seconds, an op a line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path, help="files that runs wrote by --json")
    reports: list[Path] = parser.parse_args(arguments).reports
    spent = {path.stem: seconds(path) for path in reports if path.exists()}
    for line in table(spent):
        print(line)
    missing = [path.stem for path in reports if not path.exists()]
    if missing:
        print(f"not run here: {', '.join(missing)}")
    return 0


def seconds(path: Path) -> Counter[str]:
    """Return the seconds of each op in a report."""
    found: Counter[str] = Counter()
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        spent = row["seconds"]
        # A run names the op of a row, and writes numbers; `exact` writes down what it prints.
        op = row["op"] if "op" in row else row["row"].split()[0]
        found[op] += float(spent["whole"] if isinstance(spent, Mapping) else spent)
    return found


def table(spent: Mapping[str, Counter[str]]) -> list[str]:
    """Lay out the ops that took longest, the first of them first, and a line of sums."""
    whole: Counter[str] = Counter()
    for each in spent.values():
        whole.update(each)
    names = [op for op, _ in whole.most_common(MOST)]
    lines = [["seconds by op", *spent, "all"]]
    lines += [_line(op, [each[op] for each in spent.values()]) for op in names]
    lines.append(_line(f"{len(whole)} ops", [sum(each.values()) for each in spent.values()]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.rjust(n) if k else cell.ljust(n)
                  for k, (cell, n) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]  # fmt: skip


def _line(name: str, numbers: Sequence[float]) -> list[str]:
    return [name, *(f"{number:.0f}" for number in numbers), f"{sum(numbers):.0f}"]


if __name__ == "__main__":
    raise SystemExit(main())
