"""Reports for readers: a table per run, a paragraph per failure.

Rich draws the table on a terminal. Elsewhere, or without rich, the table is plain text.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from equivalence.measure.spent import Spent
from equivalence.runs.failure import NEAR_MISSES, Failure
from equivalence.runs.results import Row, RowResult

COLUMNS = (
    *("op", "direction", "dtype", "cases", "worst", "page"),
    *("declared", "inferred", "ring", "status"),
)

_COLOURS = {
    "conformant": "green",
    "declared": "green",
    "partial": "green",
    "nonconformant": "red",
    "error": "red",
    "ambiguous": "yellow",
    "vacuous": "yellow",
    "unsupported": "dim",
    "recorded": "dim",
}


def show_fraction(fraction: float | None) -> str:
    """Return a fraction of a budget in three digits, or a dash if nothing was judged."""
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
    """Say whether to draw the table: on a terminal, if rich is installed."""
    return stream.isatty() and importlib.util.find_spec("rich") is not None


def print_report(
    results: Sequence[RowResult],
    stream: TextIO | None = None,
    columns: Sequence[str] = COLUMNS,
) -> None:
    """Print the table, then what was left out and noted, then declared findings, then failures,
    the worst first.

    Failures are read first, so they come last. A terminal shows the end of a long report, and a
    log that was cut still holds it. All unsupported rows share one line.
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
    for part in dict.fromkeys(part for result in results for part in result.left_out):
        rows_without = [str(result.row) for result in results if part in result.left_out]
        print(f"left out of cases of {', '.join(rows_without)}: {part}", file=out)
    for part in dict.fromkeys(part for result in results for part in result.granted):
        rows_with = [str(result.row) for result in results if part in result.granted]
        print(f"granted to {', '.join(rows_with)} by {part}", file=out)
    for result in results:
        if result.discarded:
            calls = f"{result.discarded} drawn calls of {result.row}"
            print(f"discarded: {calls}, since the page refuses them", file=out)
    for result in results:
        if result.partial is not None:
            print(f"partial: {result.row}: {result.partial.line()}", file=out)
    _print_notes(results, out)
    for result in results:
        for finding in result.declared:
            print(f"\ndeclared: {result.row} ({finding['kind']}): {finding['reason']}", file=out)
    for line in only_one_dtype(results):
        print(f"\n{line}", file=out)
    for row, failure in in_order(results):
        print(f"\n{row}", file=out)
        print("\n".join(f"  {line}" for line in failure.lines()), file=out)


def only_one_dtype(results: Sequence[RowResult]) -> Iterator[str]:
    """Say of which operations only one dtype fails, where others were judged and pass."""
    ways = dict.fromkeys((result.row.op, result.row.direction) for result in results)
    for way in ways:
        own = [result for result in results if (result.row.op, result.row.direction) == way]
        bad = [result.row.dtype for result in own if result.failures]
        good = [r.row.dtype for r in own if r.status in ("conformant", "declared")]
        if len(bad) == 1 and good:
            yield f"of {' '.join(way)}, only {bad[0]} fails; {' and '.join(good)} pass"


def in_order(results: Sequence[RowResult]) -> list[tuple[Row, Failure]]:
    """Return all failures with their rows: the row with the worst one first, near-misses last."""
    failing = [result for result in results if result.failures]
    failing.sort(key=lambda result: min(failure.severity for failure in result.failures))
    pairs = [(result.row, failure) for result in failing for failure in result.failures]
    return sorted(pairs, key=lambda pair: pair[1].source == NEAR_MISSES and not pair[1].crash)


def _print_notes(results: Sequence[RowResult], out: TextIO) -> None:
    """Print each note with the rows that it is about; a loud one begins in capitals."""
    notes = dict.fromkeys(note for result in results for note in result.notes)
    for note in sorted(notes, key=lambda note: not note.loud):
        rows = ", ".join(str(result.row) for result in results if note in result.notes)
        print(f"{'NOTE' if note.loud else 'note'}: {rows}: {note.text}", file=out)


def print_untried(untried: Mapping[str, str]) -> None:
    """Name each registered page that the laws could not test, with the reason."""
    for name, why in untried.items():
        print(f"the laws could not test the page {name} before it judged results: {why}")


def _print_plain(results: Sequence[RowResult], columns: Sequence[str], out: TextIO) -> None:
    """Print the table as text, with aligned columns."""
    print(aligned([columns, *(_cells(result) for result in results)]), file=out)


def aligned(table: Iterable[Sequence[str]]) -> str:
    """Align the columns of a table by spaces. The heading is its first row."""
    rows = list(table)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in rows
    )


def _print_rich(results: Sequence[RowResult], columns: Sequence[str], out: TextIO) -> None:
    """Draw the table with rich, and the statuses in colour."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for result in results:
        *cells, status = _cells(result)
        colour = _COLOURS[result.status]
        table.add_row(*cells, f"[{colour}]{status}[/{colour}]")
    Console(file=out, no_color=bool(os.environ.get("NO_COLOR"))).print(table)


def summary(results: Sequence[RowResult]) -> str:
    """Return the last line of a run. Its worst fraction leaves out declared rows."""
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


def parts_of_ops(results: Sequence[RowResult]) -> str:
    """Say how many rows judged a part of their op; empty where none did."""
    partial = sum(result.status == "partial" for result in results)
    ran = sum(result.status != "unsupported" for result in results)
    return f"{partial} of {ran} rows partial" if partial else ""


def shares(spent: Spent) -> str:
    """Return the shares of the oracle and of the backend in the time of a run, as text."""
    if not spent.oracle + spent.backend:
        return ""
    oracle, backend = (100 * part / spent.whole for part in (spent.oracle, spent.backend))
    return f"; {spent.whole:.0f} s of work, oracle {oracle:.0f} %, backend {backend:.0f} %"
