"""Writes docs/tiles.md: which tile of a matrix product is taken when, from docs/tiles.json.

    python -m tools.generate_tiles            write the file
    python -m tools.generate_tiles --check    fail if the committed file is stale

The facts are written by `python -m tools.record_tiles`, or `make tiles`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fast.binaries.tiled import LIKE_ANOTHER, operands
from fast.kernels.tiles import ENOUGH, TABLE, Tile, Tiles
from tools.generate_kernels import counted
from tools.generated import write_or_check
from tools.record_tiles import recorded
from tools.tree import ROOT

DOCUMENT = ROOT / "docs" / "tiles.md"

Row = Mapping[str, Any]

WHEN = {
    "large": "steps of 16 bytes along an axis of each operand; at least 128 rows, 128 columns, "
    f"an inner extent of 64, and {ENOUGH} tiles",
    "small": "steps of 16 bytes, and less",
    "small_in_batch": "the same, in a batch",
    "pairs": "16-bit numbers in steps of 4 bytes",
    "single": "a stride of 1 along an axis of each operand, and no more",
    "strided": "any other strides, such as 0, and extents or strides beyond 2^23",
}
"""When a tile is taken: the first line that holds."""

LIBRARIES = {"flag_gems": "FlagGems", "liger_kernel": "Liger"}
NARROW = "bf16"
"""The dtype whose narrow tiles are set side by side."""

FRAME = """\
# Tiles of the matrix product

`linear`, `matmul` and `bmm` share one kernel, and its tiles are one table,
`fast.kernels.tiles.TABLE`: looked up by the target and the dtype, then by how the operands lie.
What stands here was read from binaries, compiled by triton {triton} for {targets}. No GPU
was asked and nothing was timed: this is a table of facts, and does not say which kernel is faster.

This file is generated (`python -m tools.generate_tiles`) from `docs/tiles.json`, which
`python -m tools.record_tiles` writes, or `make tiles` with the kernels of others. `make kernels`
compiles all tiles again. It fails where the file says otherwise, and where a tile spills registers,
has lost its instruction on the tensor cores, or loads less of an operand at once than the table
says. A product in parts (split-K) takes the same tiles; [What the binaries say](kernels.md) has it.

## When which tile is taken

| tile | operands |
|---|---|
{when}

A step begins and ends at a multiple of so many bytes, in every line of both operands and of the
result. An operand may lie by rows or, transposed, by columns. A GPU that is newer than sm_90 takes
the tiles of sm_90, and so does the interpreter; other GPUs take those of sm_80. A dtype has the
same steps along the inner axis on each target, so that no sum has another order there.

A tile was chosen so that its binaries, for each order of the operands, spill nothing, multiply on
tensor cores (but in fp32, whose numbers tensor cores would round), and load as wide as addresses
allow. The exception is tf32 on sm_90: HGMMA takes 32-bit numbers along the inner axis alone, so an
operand that lies along the other one is turned on its way to shared memory, 32 bits at a time.

Several kernels have one tile: of matrices and of batches, for each order of the operands. A range
says what they have. Those of {like_another}, whose tiles are those of bf16, are for rows alone.

{chosen}

## Where 128-bit loads are forbidden

Where a line of 16-bit numbers does not begin at a multiple of 16 bytes, no load of 128 bits may be
made. Before there was this table, all such operands took what is `strided` now: places of 64 bits
for each number, and a load of 16 bits for each (by rows 859 instructions on sm_80, and 887 on
sm_90, with another load of the bias). `single` has places of 32 bits. `pairs` has loads
of 32 bits, half as many, and they go to shared memory without passing registers (LDGSTS, which
takes 32 bits or more), two tiles ahead of the product. These are the kernels of {narrow} for
matrices that lie by rows. A bias is loaded beside the operands.

{narrow_table}

## Kernels of others

{libraries}, compiled by the same triton from their own hosts' launches,
for operands of 128 x 128 that lie by rows. FlagGems times the configurations of its own table on
the GPU and keeps one, and so does Liger in `gemm_swiglu`. Nothing can be timed here. So a row has
**the largest tile of their table that spills nothing and fits into shared memory**, or the first
one where there is none. It need not be the one that a GPU would be given.

Liger's fused linear losses have no product of their own. They multiply by torch's product, and
launch the loss, whose kernel is here. `gemm_swiglu` is a product with two weights at once. It loads
by tensor descriptors (TMA), which sm_80 has not, and which are no loads of a thread.

{strangers}
"""


def generate() -> str:
    """Return the text of the file."""
    said = recorded()
    rows: list[Row] = said["tiles"]
    named = [f"{LIBRARIES[name]} {version}" for name, version in said["libraries"].items()]
    return FRAME.format(
        triton=said["triton"],
        targets=" and ".join(sorted({row["target"] for row in rows})),
        when="\n".join(f"| {name} | {when} |" for name, when in WHEN.items()),
        like_another=LIKE_ANOTHER,
        chosen="\n\n".join(chosen(rows)),
        narrow=NARROW,
        narrow_table=table(NARROW_HEAD, map(narrow, narrow_rows(rows))),
        libraries=" and ".join(named),
        strangers=table(STRANGER_HEAD, map(stranger, said["strangers"])),
    )


def table(head: str, lines: Iterable[str]) -> str:
    """Put a head over the lines of a table."""
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *lines])


CHOSEN_HEAD = (
    "| dtype | tile | rows x columns x inner | warps, stages | product | loads of operands "
    "| registers | shared | occupancy | instructions |"
)


def chosen(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of the tiles of each target."""
    for target in dict.fromkeys(target for target, _ in TABLE):
        lines = [
            line(dtype, name, tile, [r for r in rows if is_of(r, target, dtype, name)])
            for (own, dtype), tiles in TABLE.items()
            if own == target
            for name, tile in zip(Tiles._fields, tiles, strict=True)
            if tile is not None
        ]
        yield f"### {target}\n\n{table(CHOSEN_HEAD, lines)}"


def is_of(row: Row, target: str, dtype: str, name: str) -> bool:
    """Say whether a row is of one tile."""
    return (row["target"], row["dtype"], row["tile"]) == (target, dtype, name)


def line(dtype: str, name: str, tile: Tile, rows: Sequence[Row]) -> str:
    """Return what the binaries of a tile say, in a line."""
    bits = sorted({int(bits) for row in rows for bits in operands(row)}, reverse=True)
    cells = [
        dtype, name, f"{tile.rows} x {tile.columns} x {tile.inner}",
        f"{tile.warps}, {tile.stages}", instruction(rows),
        " and ".join(map(str, bits)) + " bits",
        span(row["registers"] for row in rows), span(row["shared"] for row in rows),
        percent(row["occupancy"] for row in rows), span(row["instructions"] for row in rows),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def instruction(rows: Sequence[Row]) -> str:
    """Name the instructions that multiply."""
    found = dict.fromkeys(name for row in rows for name in row["tensor"])
    return ", ".join(found) or "no tensor cores"


def span(numbers: Iterable[int]) -> str:
    """Write one number, or the least and the most of several."""
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def percent(shares: Iterable[float]) -> str:
    """Write one share, or the least and the most of several, as percentages."""
    return span(round(100 * share) for share in shares) + "%"


NARROW_HEAD = (
    "| target | tile | loads | of them past registers | stores | registers | shared | occupancy "
    "| instructions |"
)


def narrow_rows(rows: Sequence[Row]) -> list[Row]:
    """Choose the narrow tiles of one dtype, for matrices that lie by rows."""
    return [
        row
        for row in rows
        if row["dtype"] == NARROW
        and row["tile"] in ("pairs", "single", "strided")
        and row["kernel"] == "_product_kernel"
        and row["order"] in ("rows, rows", "any")
    ]


def narrow(row: Row) -> str:
    """Return a line of the narrow tiles."""
    cells = [
        row["target"], row["tile"], counted(row["loads"]), counted(row["copies"]),
        counted(row["stores"]), *used(row),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def used(row: Row) -> list[str]:
    """Say what a kernel uses, and of how many instructions of which classes it is."""
    mix = Counter(row["mix"]).most_common(3)
    return [
        str(row["registers"]), str(row["shared"]), f"{row['occupancy']:.0%} ({row['limit']})",
        f"{row['instructions']}: " + ", ".join(f"{count} {name}" for name, count in mix),
    ]  # fmt: skip


STRANGER_HEAD = (
    "| library | of | kernel | target | dtype | tile | warps, stages | product | loads "
    "| spilled bytes | registers | shared | occupancy | instructions |"
)


def stranger(row: Row) -> str:
    """Return a line of a kernel of others."""
    config = row["config"]
    tile = " x ".join(str(v) for k, v in config.items() if not k.startswith("num_"))
    cells = [
        LIBRARIES[row["library"]], row["op"], f"`{row['kernel']}`", row["target"], row["dtype"],
        tile, f"{config['num_warps']}, {config['num_stages']}", instruction([row]),
        counted(row["loads"]), str(row["spills"]), *used(row),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Write the file, or with --check compare it with what would be written."""
    return write_or_check(DOCUMENT, generate(), "tools.generate_tiles")


if __name__ == "__main__":
    sys.exit(main())
