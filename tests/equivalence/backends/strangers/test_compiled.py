"""A stranger's product compiled ahead of time: of its own table, the largest tile that fits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fast.device.mode import COMPILE_TARGET, INTERPRET
from tools.tree import ROOT

pytestmark = pytest.mark.slow

STRANGER = """
import json
import sys

import torch

from equivalence.backends.strangers import compiled
from fast.binaries import driving, tiled
from fast.device.mode import tl, triton

TILES = json.loads(sys.argv[1])


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 16}, num_warps=1, num_stages=2)
        for m, n in TILES
    ],
    key=["n"],
)
@triton.jit
def product(z, x, y, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    i, j, p = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n, BLOCK_K):
        left = tl.load(x + i[:, None] * n + start + p[None, :])
        right = tl.load(y + (start + p)[:, None] * n + j[None, :])
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(z + i[:, None] * n + j[None, :], total)


def hosts():
    x = torch.ones(128, 128)
    yield "matmul", "fp32", lambda: product[(1,)](torch.empty(128, 128), x, x, 128)


driving.stand_in("sm_80")
compiled.HOSTS["here"] = hosts
print(json.dumps(tiled.described("sm_80", list(compiled.products("here")))))
"""


@pytest.mark.parametrize(
    ("tiles", "taken"),
    [
        ([(16, 16), (16, 32), (128, 128)], (16, 32)),
        pytest.param([(128, 128), (128, 64)], (128, 128), marks=pytest.mark.full),
    ],
)
def test_the_largest_tile_that_fits_is_taken_or_else_the_first(
    tiles: list[tuple[int, int]], taken: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "stranger.py").write_text(STRANGER, encoding="utf-8")
    environment = {**os.environ, COMPILE_TARGET: "sm_80", "PYTHONPATH": str(ROOT)}
    environment.pop(INTERPRET, None)
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "stranger.py"), json.dumps(tiles)],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    (row,) = found
    assert (row["config"]["BLOCK_M"], row["config"]["BLOCK_N"]) == taken
    assert (row["spills"] > 0) == (taken == (128, 128))
    assert (row["library"], row["op"], row["kernel"]) == ("here", "matmul", "product")
