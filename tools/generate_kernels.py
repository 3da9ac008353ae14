"""Writes docs/kernels.md: what the kernels' binaries say, from the facts in docs/kernels.json.

    python -m tools.generate_kernels            write the file
    python -m tools.generate_kernels --check    fail if the committed file is stale

The facts are written by `python -m fast kernels --facts --json docs/kernels.json`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fast.binaries.facts import MOST_REGISTERS, read
from tools.generated import write_or_check
from tools.tree import ROOT

FACTS = ROOT / "docs" / "kernels.json"
DOCUMENT = ROOT / "docs" / "kernels.md"
SHOWN = "sm_90"

Row = Mapping[str, Any]

FRAME = """\
# What the binaries say

{count} kernels, compiled by triton {triton} for {targets}, from the launches that the pages' own
hosts make for their examples. No GPU was asked. `make kernels` compiles them again and fails where
one has become worse than here: a load or a store that is no longer wide, a spill, tensor cores that
are not used any more, all registers in use, fewer warps at once.
This file is generated (`python -m tools.generate_kernels`) from `docs/kernels.json`.

How to read it:

* **loads**, **stores**: instructions that access global memory, by the bits that a thread moves:
  `4x128` is four of 128 bits. A kernel often has its work twice: wide for whole tiles, narrow and
  masked for the end of a tensor.
* **occupancy**: warps that live at once on a multiprocessor, of the most there can be, and what
  limits them. Low occupancy alone is no fault of a product on tensor cores.
* **bytes, of least**: bytes moved per element in the largest example, counted in the interpreter
  without caches, and their ratio to the least: each byte that is needed, once. In a product tiles
  share what they read, and caches take a part of what is moved twice.
* **H100, H200** (*estimate*): a static roofline from the vendor's data sheets. It says what would
  bound the kernel, and which share of the memory's rate it may reach, if every instruction of the
  binary ran once and nothing waited for anything. No time was measured, and none follows.

{outstanding}

## Kernels for {shown}

{tables}
"""


def generate() -> str:
    """Return the text of the file."""
    facts = read(FACTS)
    rows: list[Row] = facts["kernels"]
    shown = [row for row in rows if row["target"] == SHOWN]
    return FRAME.format(
        count=len(rows),
        triton=facts["triton"],
        targets=" and ".join(sorted({row["target"] for row in rows})),
        outstanding=outstanding(rows),
        shown=SHOWN,
        tables="\n\n".join(tables(shown)),
    )


def outstanding(rows: Sequence[Row]) -> str:
    """Count what a reader should know of, for each target."""
    lines = ["| | " + " | ".join(targets := sorted({row["target"] for row in rows})) + " |",
             "|---|" + "---|" * len(targets)]  # fmt: skip
    for what, holds in OUTSTANDING.items():
        counts = Counter(row["target"] for row in rows if holds(row))
        lines.append(f"| {what} | " + " | ".join(str(counts[t]) for t in targets) + " |")
    return "\n".join(lines)


OUTSTANDING = {
    "kernels": lambda row: True,
    "that spill": lambda row: row["spills"] > 0,
    f"with {MOST_REGISTERS} registers, the most there are": lambda row: (
        row["registers"] >= MOST_REGISTERS
    ),
    "with 128-bit loads": lambda row: "128" in row["loads"],
    "on tensor cores": lambda row: bool(row["tensor"]),
    "with an occupancy of an eighth or less": lambda row: row["occupancy"] <= 1 / 8,
}
"""What is counted: a name, and whether it holds of a kernel."""


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table for each op, under its name."""
    ops = dict.fromkeys(row["name"].partition(".")[0] for row in rows)
    head = (
        "| kernel | of | dtypes | tile | registers | shared | barriers | occupancy | loads "
        "| stores | instructions | bytes, of least | H100 | H200 |"
    )
    for op in ops:
        own = [line(row) for row in rows if row["name"].startswith(f"{op}.")]
        yield "\n".join([f"### {op}", "", head, "|---" * head.count(" | ") + "|---|", *own])


def line(row: Row) -> str:
    """Return a kernel as a line of a table."""
    config, traffic = row["config"], row["traffic"]
    tile = "x".join(str(v) for k, v in config.items() if k.startswith(("BLOCK", "ROWS")))
    mix = sorted(row["mix"].items(), key=lambda item: -item[1])[:3]
    cells = [
        f"`{row['name'].partition('.')[2]}`",
        config["direction"],
        config["dtypes"],
        f"{tile}, {config['num_warps']} warps" + (", wide" if config.get("UNIT", 1) > 1 else ""),
        str(row["registers"]),
        str(row["shared"]),
        str(row["barriers"]),
        f"{row['occupancy']:.0%} ({row['limit']})",
        counted(row["loads"]),
        counted(row["stores"]),
        f"{row['instructions']}: " + ", ".join(f"{count} {name}" for name, count in mix),
        f"{traffic['moved'] / traffic['elements']:.3g}, {traffic['moved'] / traffic['least']:.2f}",
        *(f"{said['bound']}, {said['of_bandwidth']:.0%}" for said in row["estimate"].values()),
    ]
    return f"| {' | '.join(cells)} |"


def counted(widths: Mapping[str, int]) -> str:
    """Say how many accesses there are of each width."""
    return ", ".join(f"{count}x{bits}" for bits, count in widths.items()) or "none"


def main() -> int:
    """Write the file, or with --check compare it with what would be written."""
    return write_or_check(DOCUMENT, generate(), "tools.generate_kernels")


if __name__ == "__main__":
    sys.exit(main())
