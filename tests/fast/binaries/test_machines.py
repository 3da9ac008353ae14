"""Occupancy as NVIDIA's calculator counts it, and estimates that follow from what is counted."""

from __future__ import annotations

import pytest

from fast.binaries import machines
from fast.binaries.machines import MACHINES, Limit, estimate, is_at_step, occupancy, operations

H100, H200 = MACHINES


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "share", "limit"),
    [
        (32, 0, 8, 1.0, "registers"),
        (33, 0, 8, 0.75, "registers"),
        (255, 0, 4, 8 / 64, "registers"),
        (128, 98304, 8, 16 / 64, "registers"),
        (64, 100 * 1024, 4, 8 / 64, "shared memory"),
        (16, 0, 1, 32 / 64, "blocks"),
        (16, 0, 16, 1.0, "warps"),
    ],
)
def test_occupancy(registers: int, shared: int, warps: int, share: float, limit: Limit) -> None:
    found = occupancy("sm_90", registers, shared, warps)
    assert (found.share, found.limit) == (share, limit)


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "step"),
    [
        (80, 128, 8, True),  # 3 blocks of 8 warps; of 88 registers, 2
        (79, 128, 8, False),  # one more is given anyway
        (64, 100 * 1024, 8, False),  # shared memory holds the same 2 blocks
        (32, 0, 8, True),
        (24, 0, 8, False),  # all warps live, then too
        (255, 0, 8, False),  # a thread cannot have more
    ],
)
def test_where_a_register_more_costs_warps(
    registers: int, shared: int, warps: int, step: bool
) -> None:
    assert is_at_step("sm_90", registers, shared, warps) is step


def test_less_shared_memory_holds_fewer_blocks() -> None:
    found = [occupancy(target, 32, 75 * 1024, 4).share for target in ("sm_80", "sm_90")]
    assert found == [2 * 4 / 64, 3 * 4 / 64]


def test_a_tensor_instruction_has_the_operations_of_its_shape() -> None:
    assert operations("HMMA.16816.F32.BF16") == 2 * 16 * 8 * 16
    assert operations("HMMA.1688.F32.TF32") == 2 * 16 * 8 * 8
    assert operations("HGMMA.64x128x16.F32") == 2 * 64 * 128 * 16 / 4
    with pytest.raises(RuntimeError, match="the shape of IMMA"):
        operations("IMMA.8816.S8")


def facts(loads: dict[str, int], instructions: int, tensor: dict[str, int]) -> dict[str, object]:
    return {"loads": loads, "stores": {}, "instructions": instructions, "tensor": tensor}


def test_what_bounds_a_kernel_follows_from_what_is_counted() -> None:
    streaming = estimate(H200, facts({"128": 4}, 40, {}))
    assert streaming == {"bound": "memory", "of_bandwidth": 1.0}
    counting = estimate(H200, facts({"16": 4}, 900, {}))
    assert counting["bound"] == "instructions" and counting["of_bandwidth"] < 0.2
    product = estimate(H200, facts({"128": 1}, 40, {"HGMMA.64x128x16.F32": 64}))
    assert product["bound"] == "tensor cores"
    assert estimate(H100, facts({"16": 4}, 900, {}))["of_bandwidth"] > counting["of_bandwidth"]


def test_every_machine_is_one_that_kernels_are_compiled_for() -> None:
    assert {machine.target for machine in MACHINES} <= set(machines.SHARED)
