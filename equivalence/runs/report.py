"""Reports for readers: a table per run, a paragraph per failure.

Rich draws the table on a terminal; elsewhere, and where rich is not installed, it is plain text.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from equivalence.measure.spent import Spent
from equivalence.runs.results import RowResult

COLUMNS = (
    *("op", "direction", "dtype", "cases", "worst", "page"),
    *("declared", "inferred", "ring", "status"),
)

_COLOURS = {
    "conformant": "green",
    "declared": "green",
    "nonconformant": "red",
    "error": "red",
    "ambiguous": "yellow",
    "vacuous": "yellow",
    "unsupported": "dim",
    "recorded": "dim",
}


def show_fraction(fraction: float | None) -> str:
    """Return a fraction of a budget in three digits; a dash where nothing was judged."""
    if fraction is None:
        return "-"
    return "inf" if math.isinf(fraction) else f"{fraction:.3g}"


def _cells(result: RowResult) -> tuple[str, ...]:
    """Return the table cells of one row."""
    return (
        result.row.op,
        result.row.direction,
        result.row.dtype,
        str(result.cases),
        show_fraction(result.worst_fraction),
        show_fraction(result.page_fraction),
        result.contract,
        result.inferred,
        result.ring,
        result.verdict,
    )


def use_rich(stream: TextIO) -> bool:
    """Say whether to draw: on a terminal, where rich is installed."""
    return stream.isatty() and importlib.util.find_spec("rich") is not None


def print_report(
    results: Sequence[RowResult],
    stream: TextIO | None = None,
    columns: Sequence[str] = COLUMNS,
) -> None:
    """Print the table, then every declared finding, then every failure, which is read first.

    The end of a long report is what a terminal shows, and what a log that was cut still holds.
    What a backend does not support gets one line for all of it.
    """
    out = sys.stdout if stream is None else stream
    shown = [result for result in results if result.status != "unsupported"]
    if shown:
        (_print_rich if use_rich(out) else _print_plain)(shown, columns, out)
    absent = len(results) - len(shown)
    if absent:
        names = list(dict.fromkeys(r.row.op for r in results if r.status == "unsupported"))
        few = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        rows = "1 row" if absent == 1 else f"{absent} rows"
        print(f"unsupported by the backend: {rows} of {few}", file=out)
    for what in dict.fromkeys(what for result in results for what in result.left_out):
        those = [str(result.row) for result in results if what in result.left_out]
        print(f"left out of cases of {', '.join(those)}: {what}", file=out)
    for result in results:
        if result.discarded:
            print(f"discarded: {result.discarded} drawn calls of {result.row}", file=out)
    for result in results:
        for finding in result.declared:
            print(f"\ndeclared: {result.row} ({finding['kind']}): {finding['reason']}", file=out)
    for result in results:
        for failure in result.failures:
            print(f"\n{result.row}", file=out)
            print("\n".join(f"  {line}" for line in failure.lines()), file=out)


def print_untried(untried: Mapping[str, str]) -> None:
    """Say of each registered page that could not be tried what kept it from that."""
    for name, why in untried.items():
        print(f"the page {name} could not be tried by the laws before it judged: {why}")


def _print_plain(results: Sequence[RowResult], columns: Sequence[str], out: TextIO) -> None:
    """Print the table with columns aligned by spaces."""
    print(aligned([columns, *(_cells(result) for result in results)]), file=out)


def aligned(table: Iterable[Sequence[str]]) -> str:
    """Set a table, its heading first, in columns for a terminal."""
    rows = list(table)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in rows
    )


def _print_rich(results: Sequence[RowResult], columns: Sequence[str], out: TextIO) -> None:
    """Draw the table, statuses in colour."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for result in results:
        *cells, status = _cells(result)
        colour = _COLOURS[result.status]
        table.add_row(*cells, f"[{colour}]{status}[/{colour}]")
    Console(file=out, no_color=bool(os.environ.get("NO_COLOR"))).print(table)


def summary(results: Sequence[RowResult]) -> str:
    """Return the last line of a run; the worst fraction is of what is not declared."""
    counts: dict[str, int] = {}
    for result in results:
        counts[result.status] = counts.get(result.status, 0) + 1
    judged = [
        r.worst_fraction
        for r in results
        if r.worst_fraction is not None and "declared" not in (r.status, r.beside)
    ]
    worst = show_fraction(max(judged, default=None))
    parts = ", ".join(f"{number} {status}" for status, number in counts.items())
    cases = sum(result.cases for result in results)
    said = f"{parts or 'no rows'}; {cases} cases; worst fraction of budget {worst}"
    return said + shares(sum((result.spent for result in results), Spent()))


def shares(spent: Spent) -> str:
    """Say how much of the time was the oracle's, and how much the backend's."""
    if not spent.oracle + spent.backend:
        return ""
    oracle, backend = (100 * part / spent.whole for part in (spent.oracle, spent.backend))
    return f"; {spent.whole:.0f} s of work, oracle {oracle:.0f} %, backend {backend:.0f} %"
