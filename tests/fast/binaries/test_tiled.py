"""A tile that spills, leaves the tensor cores or loads narrower than its table says is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from fast.binaries import tiled
from fast.device.mode import COMPILE_TARGET, INTERPRET
from fast.kernels import tiles
from tools import record_tiles
from tools.tree import ROOT

ROWS = record_tiles.recorded()["tiles"]


def row(target: str, dtype: str, tile: str) -> dict[str, Any]:
    """Return what is recorded of a tile of matrices that lie by rows."""
    return next(
        found
        for found in ROWS
        if (found["target"], found["dtype"], found["tile"]) == (target, dtype, tile)
    )


@pytest.mark.parametrize("found", ROWS, ids=tiled.title)
def test_what_is_recorded_keeps_what_the_table_promises(found: dict[str, Any]) -> None:
    assert [*tiled.faults(found)] == []


def test_every_tile_of_the_table_is_recorded() -> None:
    recorded = {(found["target"], found["dtype"], found["tile"]) for found in ROWS}
    assert recorded == {
        (*key, name)
        for key, there in tiles.TABLE.items()
        for name, tile in there._asdict().items()
        if tile is not None
    }


@pytest.mark.parametrize(
    ("worse", "said"),
    [
        ({"spills": 8}, "spills 8 bytes of registers per thread"),
        ({"tensor": {}}, "has no HGMMA, the product on tensor cores of sm_90"),
        ({"tensor": {"HMMA.16816.F32.BF16": 8}}, "has no HGMMA"),
        ({"copies": {"128": 4, "64": 8}}, "loads 64 bits of an operand at once"),
        ({"copies": {}, "loads": {"16": 16}}, "loads 16 bits of an operand at once"),
        ({"loads": {}, "copies": {}}, "loads 0 bits of an operand at once"),
    ],
)
def test_a_broken_promise_is_named(worse: dict[str, Any], said: str) -> None:
    (found,) = tiled.faults(row("sm_90", "bf16", "small") | worse)
    assert said in found


def test_another_shape_than_that_of_the_table_is_named() -> None:
    good = row("sm_80", "bf16", "large")
    (found,) = tiled.faults(good | {"config": good["config"] | {"num_warps": 4}})
    assert found == "is 128 x 128 x 64 in 4 warps, and the table says 128 x 128 x 64 in 8 warps"


PLANTED = """
import json, sys
from fast.binaries import tiled
from fast.kernels import tiles

target, dtype, name, changed, order = json.loads(sys.argv[1])
there = tiles.TABLE[target, dtype]
tile = getattr(there, name)._replace(**changed)
tiles.TABLE[target, dtype] = there._replace(**{name: tile})
kept = [case for case in tiled.cases([dtype], [name]) if case.x.dim() == 3 and case.order == order]
tiled.cases = lambda *_: kept
print(json.dumps([fault for row in tiled.compile_here(target) for fault in tiled.faults(row)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "dtype", "tile", "changed", "order", "said"),
    [
        ("sm_80", "fp32", "single", {"stages": 3}, "rows, columns", "spills 16 bytes"),
        ("sm_90", "bf16", "pairs", {"rows": 32, "warps": 4}, "rows, rows", "has no HGMMA"),
        ("sm_90", "tf32", "large", {"bits": 128}, "columns, rows", "loads 32 bits of an operand"),
        ("sm_90", "bf16", "pairs", {}, "rows, rows", None),
    ],
)
def test_a_planted_tile_is_found_in_its_binary(
    target: str, dtype: str, tile: str, changed: dict[str, int], order: str, said: str | None
) -> None:
    environment = {**os.environ, COMPILE_TARGET: target}
    environment.pop(INTERPRET, None)
    given = json.dumps([target, dtype, tile, changed, order])
    ran = subprocess.run(
        [sys.executable, "-c", PLANTED, given],
        cwd=ROOT, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(ran.stdout)
    assert len(found) == (said is not None), found
    assert all(str(said) in fault for fault in found)
