"""Writes docs/bounds.md: for ops and optimizers, cases whose bounds say something.

    python -m tools.generate_bounds            write the file
    python -m tools.generate_bounds --check    fail if the committed file is stale

What it reads, docs/bounds.json, is measured by `python -m tools.record_bounds`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from equivalence.budgets.outcome import WIDEST
from tools.generated import write_or_check
from tools.record_bounds import NO_NUMBERS, recorded
from tools.tree import ROOT

DOCUMENT = ROOT / "docs" / "bounds.md"

FRAME = """\
# What the bounds say

A derived bound may be so wide that any result passes, or may rest on a hypothesis that no case
meets. Here each row of the suite has a drawn case, all of whose bounds are below a {narrow} of the
largest entry. A row is an op in a direction and a dtype, or a tensor that a step of an optimizer
leaves, the parameter or a moment, in a dtype. At the element of the widest bound two errors
were planted: the number of the format nearest to half of the budget passes, and the first number
that is twice the budget away fails. The bounds are of the provider `aten` on a CPU; most are the
page's own. This file is generated (`python -m tools.generate_bounds`) from `docs/bounds.json`,
which `python -m tools.record_bounds` measures; `make bounds` looks for such cases again.

* **bound**: the budget of that element, as a part of the largest entry of the result. *equal*: one
  number alone is allowed, as where nothing is rounded, or once; then that number passes, and its
  neighbour fails.
* **passes**, **fails**: the fractions of the budget that both errors take.
* **met**: the hypotheses of the budget that the case relied on. *in range*: no step left the range
  of its format. *divisor not 0*, *sqrt defined*, *log defined*, *log1p defined*: the argument lies
  where the step is defined, whatever was rounded before. *comparison decided*: rounding cannot
  turn it. *sum exact*: no partial sum was rounded, in any order, so that a sum is held to
  equality. In brackets: met by another case of the row. Of a step these are the hypotheses of all
  that it does: a norm that is clipped has a divisor, and a root.

{count} rows; {narrow_count} with a bound above 0, {equal} held to equality. {none}

{tables}
"""


def generate() -> str:
    """Return the text of the file."""
    rows = recorded()
    none = [name for name, row in rows.items() if "none" in row]
    known = {name: row for name, row in rows.items() if "none" not in row}
    equal = sum(row["bound"] == 0 for row in known.values())
    return FRAME.format(
        narrow=f"{round(1 / WIDEST)}th",
        count=len(rows),
        narrow_count=len(known) - equal,
        equal=equal,
        none=f"Without one, since {NO_NUMBERS}: {', '.join(none)}." if none else "None is without.",
        tables="\n\n".join(tables(known)),
    )


def tables(rows: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table for each op and each optimizer."""
    by_op: dict[str, list[tuple[str, Any]]] = {}
    for name, row in rows.items():
        op, _, rest = name.partition(" ")
        by_op.setdefault(op, []).append((rest, row))
    for op, own in by_op.items():
        head = ["| row | bound | passes | fails | met | case |", "|---|---|---|---|---|---|"]
        yield "\n".join([f"## {op}", "", *head, *(_line(*each) for each in own)])


def _line(name: str, row: Mapping[str, Any]) -> str:
    met = [*row["met"], *(f"({other})" for other in row["elsewhere"])]
    bound = f"{row['bound']:.2g}" if row["bound"] else "equal"
    within, beyond = (f"{float(row[k]):.3g}" for k in ("within", "beyond"))
    said = ", ".join(met) or "-"
    return f"| {name} | {bound} | {within} | {beyond} | {said} | `{row['case']}` |"


if __name__ == "__main__":
    sys.exit(write_or_check(DOCUMENT, generate(), "tools.generate_bounds"))
