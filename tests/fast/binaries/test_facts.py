"""Planted facts that are worse than they were are found, in words; others make the file stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fast.binaries import facts
from fast.errors import Rejected

CONFIG = {"direction": "value", "dtypes": "bf16", "types": "*bf16", "BLOCK": 64, "num_warps": 4}
GOOD: dict[str, Any] = {
    "name": "matmul._product_kernel", "target": "sm_90", "config": CONFIG, "registers": 128,
    "spills": 0, "shared": 4096, "occupancy": 0.25, "limit": "registers", "instructions": 100,
    "mix": {"global": 4, "integer": 96}, "loads": {"128": 2}, "stores": {"128": 2}, "barriers": 1,
    "tensor": {"HGMMA.64x64x16.F32.BF16": 2},
}  # fmt: skip
VERSION = "3.7.1"


def then(*rows: dict[str, Any]) -> dict[str, Any]:
    """What a file says of these kernels."""
    return {"triton": VERSION, "kernels": list(rows)}


@pytest.mark.parametrize(
    ("worse", "said"),
    [
        ({"spills": 8}, "spills 8 bytes per thread, where it spilled 0"),
        ({"loads": {"64": 4}}, "its widest loads of global memory have 64 bits, and had 128"),
        ({"stores": {"32": 8}}, "its widest stores of global memory have 32 bits, and had 128"),
        ({"loads": {"128": 2, "16": 48}}, "48 loads of global memory are narrower than 32 bits"),
        ({"tensor": {}}, "uses the tensor cores no more; it had 2 of HGMMA.64x64x16.F32.BF16"),
        ({"registers": 255}, "has 255 registers, the most there are, and had 128"),
        ({"occupancy": 0.125}, "occupancy fell from 25% to 12%"),
    ],
)
def test_a_regression_is_named(worse: dict[str, Any], said: str) -> None:
    (found,) = facts.differences(then(GOOD), [GOOD | worse], VERSION)
    assert found.startswith("matmul._product_kernel (value bf16) for sm_90 with BLOCK=64: ")
    assert said in found


def test_equal_facts_differ_in_nothing() -> None:
    assert facts.differences(then(GOOD | {"estimate": {}}), [GOOD], VERSION) == []
    other = GOOD | {"name": "sum._reduce_kernel"}
    assert facts.differences(then(other, GOOD), [GOOD], VERSION) == [], "sum was not asked for"


@pytest.mark.parametrize(
    "rows",
    [
        [GOOD | {"registers": 120}],
        [GOOD, GOOD],
        [GOOD | {"config": CONFIG | {"BLOCK": 128}}],
    ],
)
def test_what_is_neither_equal_nor_worse_is_stale(rows: list[dict[str, Any]]) -> None:
    (found,) = facts.differences(then(GOOD), rows, VERSION)
    assert "have other facts: matmul._product_kernel for sm_90" in found
    assert "python -m fast kernels --facts" in found


def test_kernels_launched_alike_are_told_apart() -> None:
    narrow = GOOD | {"loads": {"32": 2}}
    assert facts.differences(then(GOOD, narrow), [GOOD, narrow], VERSION) == []
    assert facts.differences(then(GOOD, narrow), [narrow, GOOD], VERSION) != []


def test_another_triton_is_not_compared() -> None:
    with pytest.raises(Rejected, match=r"those of triton 3\.7\.1, and this is 3\.6\.0"):
        facts.differences(then(GOOD), [GOOD], "3.6.0")


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kernels.json"
    facts.write(path, [GOOD, GOOD], VERSION)
    assert facts.read(path) == then(GOOD, GOOD)
    assert len(path.read_text().splitlines()) == 4
    path.write_text(json.dumps([]))
    with pytest.raises(Rejected, match="is no file of facts"):
        facts.read(path)
    with pytest.raises(Rejected, match="is no file of facts"):
        facts.read(tmp_path / "missing.json")


def test_a_line_calls_an_estimate_an_estimate() -> None:
    said = facts.line(
        GOOD
        | {"traffic": {"moved": 24, "least": 12, "elements": 4}}
        | {"estimate": {"H100": {"bound": "memory", "of_bandwidth": 0.5}}}
    )
    assert "6 bytes per element, 2.00 of the least" in said
    assert "H100 (estimate): bound by memory, 50% of its bandwidth" in said
