"""What the binaries of the product's tiles say: each tile of the table, however its operands lie.

The hosts of products are driven, in a process that only compiles, over operands that take one tile
after the other. What a tile promises (fast.kernels.tiles) is compared with the instructions:
no registers spilled, a product on the tensor cores, loads as wide as the table says.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.binaries import compilation, driving, machines, ptx_rules, sass
from fast.device import launch
from fast.device.dtypes import FP32, NAMED
from fast.kernels import tiles
from fast.kernels.product import batched_product, product

Row = dict[str, Any]

DTYPES = tuple(dict.fromkeys(dtype for _, dtype in tiles.TABLE))
SIZES = {"large": 128, "small": 48, "small_in_batch": 48, "pairs": 50, "single": 45, "strided": 45}
"""An extent that takes a tile: of whole steps of 16 bytes, of 4 bytes, or odd."""
LIKE_ANOTHER = "fp16"
"""Has the tiles of bf16, and is compiled for operands by rows alone."""
_BATCHES: Mapping[str, Sequence[tuple[int, ...]]] = {"small": ((),), "small_in_batch": ((2,),)}
"""Where a tile is one of matrices alone, or of batches."""
TENSOR = {"sm_80": "HMMA", "sm_90": "HGMMA"}
"""How an instruction of the tensor cores begins, where a whole group of warps may share one."""
COPIES = ("LDGSTS",)
"""Loads that go to shared memory without waiting; where there are any, they are the operands'."""


class Case(NamedTuple):
    """One call of a product, and the tile that it is made to take."""

    tile: str
    dtype: str
    order: str
    x: Tensor
    y: Tensor


def cases(dtypes: Sequence[str] = DTYPES, names: Sequence[str] = tuple(SIZES)) -> Iterator[Case]:
    """Yield operands for every tile of some dtypes, alone and in a batch, in each order."""
    for dtype in dtypes:
        for name in names:
            if getattr(tiles.TABLE[tiles.target(), dtype], name) is None:
                continue
            for batch in _BATCHES.get(name, ((), (2,))):
                yield from _orders(name, dtype, (*batch, SIZES[name], SIZES[name]))


def _orders(name: str, dtype: str, shape: Sequence[int]) -> Iterator[Case]:
    """Yield operands that lie by rows or by columns, or spread over every other column."""
    storage = NAMED[dtype].storage if dtype in NAMED else FP32.storage
    if name == "strided":
        spread = torch.ones(*shape[:-1], 2 * shape[-1], dtype=storage)[..., ::2]
        yield Case(name, dtype, "any", spread, spread)
        return
    rows = torch.ones(*shape, dtype=storage)
    lain = {"rows": rows, "columns": rows.mT}
    for x_order, y_order in itertools.product(lain, lain):
        yield Case(name, dtype, f"{x_order}, {y_order}", lain[x_order], lain[y_order])
        if dtype == LIKE_ANOTHER:
            return


def compile_here(
    target: str, dtypes: Sequence[str] = DTYPES, names: Sequence[str] = tuple(SIZES)
) -> list[Row]:
    """Compile the product of every case in this process, which is in compile-only mode."""
    driving.stand_in(target)
    with tiles.one_is_enough():
        found = [made for case in cases(dtypes, names) for made in _compiled(case)]
    return described(target, found)


def _compiled(case: Case) -> Iterator[tuple[Row, Any]]:
    """Yield what is said of the kernel of a case, and the kernel: none where it is not launched."""
    tf32 = case.dtype == "tf32"
    taken, _, _ = tiles.chosen(case.x, case.y, tf32)
    if taken != case.tile:
        raise RuntimeError(f"tiles: operands for the tile {case.tile} take {taken}")
    if any(tiles.turns(case.x, case.y, tf32)):
        return  # Operands in this order are copied first, and then lie in another.
    launch.compiled.clear()
    if case.x.dim() == 2:
        bias = torch.ones(case.y.shape[-1], dtype=case.y.dtype)
        product(case.x, case.y, tf32, bias)
    else:
        batched_product(case.x, case.y, tf32)
    ((kernel, compiled, meta),) = launch.compiled
    said = {"kernel": kernel.__name__, "dtype": case.dtype, "tile": case.tile}
    config = {name: meta[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}
    yield {**said, "order": case.order, "config": config}, compiled


def described(target: str, found: Sequence[tuple[Row, Any]]) -> list[Row]:
    """Add to what is said of compiled kernels what their binaries say."""
    rows: list[Row] = []
    codes = [sass.code(compiled.asm["cubin"]) for _, compiled in found]
    for (said, compiled), instructions in zip(found, sass.listings(target, codes), strict=True):
        registers, spills = compilation.usage(compiled.asm["cubin"])
        warps, shared = compiled.metadata.num_warps, compiled.metadata.shared
        occupancy = machines.occupancy(target, registers, shared, warps)
        config = {**said["config"], "num_warps": warps, "num_stages": compiled.metadata.num_stages}
        rows.append({
            "target": target, **said, "config": config, "registers": registers, "spills": spills,
            "shared": shared, "occupancy": occupancy.share, "limit": occupancy.limit,
            **sass.facts(instructions), "copies": sass.widths(instructions, COPIES),
        })  # fmt: skip
    return rows


def faults(row: Mapping[str, Any]) -> Iterator[str]:
    """Name each promise of the table that the binary of a tile breaks."""
    promised: tiles.Tile = getattr(tiles.TABLE[row["target"], row["dtype"]], row["tile"])
    config = row["config"]
    shape = (config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"], config["num_warps"])
    if shape != promised[:4]:
        yield f"is {_by(shape)}, and the table says {_by(promised[:4])}"
    yield from ptx_rules.spilled(row["spills"])
    wanted = TENSOR[row["target"]]
    if row["dtype"] != "fp32" and not any(name.startswith(wanted) for name in row["tensor"]):
        yield f"has no {wanted}, the product on tensor cores of {row['target']}"
    narrowest = min(map(int, operands(row)), default=0)
    if narrowest < promised.bits:
        yield f"loads {narrowest} bits of an operand at once, and the table says {promised.bits}"


def operands(row: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the loads of operands by their bits: those past the registers, if there are any."""
    found: Mapping[str, int] = row["copies"] or row["loads"]
    return found


def title(row: Mapping[str, Any]) -> str:
    """Name a tile as a report does."""
    return (
        f"{row['kernel']} of {row['dtype']} for {row['target']}, tile {row['tile']} "
        f"({row['order']})"
    )


def _by(shape: Sequence[int]) -> str:
    *extents, warps = shape
    return f"{' x '.join(map(str, extents))} in {warps} warps"
