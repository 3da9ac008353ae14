"""What a GPU has: the limits that decide how many warps live at once, and how fast it can be.

Limits of a multiprocessor: CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability". Rates are those of the vendor's data sheets (H100 SXM5, H200 SXM), boost clock, dense
products with fp32 sums; no program reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Limit = Literal["registers", "shared memory", "warps", "blocks"]

REGISTERS = 65536
WARPS = 64
BLOCKS = 32
REGISTER_UNIT = 256
"""Registers are given to a warp in pieces of this many."""
MOST_REGISTERS = 255
"""The most registers of a thread."""
WARP_UNIT = 4
"""Warps share registers by the four schedulers of a multiprocessor."""
RESERVED = 1024
"""Bytes of shared memory that the system takes for each block."""
SHARED = {"sm_80": 164 * 1024, "sm_90": 228 * 1024}
"""Bytes of shared memory of a multiprocessor."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Warps that live at once on a multiprocessor, as a share of the most, and what limits them."""

    share: float
    limit: Limit


def occupancy(target: str, registers: int, shared: int, warps: int) -> Occupancy:
    """Return the occupancy of a kernel whose blocks have so many warps."""
    per_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    by: dict[Limit, int] = {
        "registers": REGISTERS // per_warp // WARP_UNIT * WARP_UNIT // warps,
        "shared memory": SHARED[target] // (shared + RESERVED),
        "warps": WARPS // warps,
        "blocks": BLOCKS,
    }
    limit = min(by, key=lambda name: by[name])
    return Occupancy(by[limit] * warps / WARPS, limit)


def is_at_step(target: str, registers: int, shared: int, warps: int) -> bool:
    """Say whether one more register for each thread would let fewer warps live at once."""
    now, more = (occupancy(target, count, shared, warps) for count in (registers, registers + 1))
    return registers < MOST_REGISTERS and more.share < now.share


@dataclass(frozen=True, slots=True)
class Machine:
    """The rates of one GPU, per second."""

    name: str
    target: str
    bytes: float
    multiprocessors: int
    clock: float
    products: dict[str, float]

    @property
    def warp_instructions(self) -> float:
        """What its schedulers issue, one instruction of a warp each per cycle."""
        return self.multiprocessors * 4 * self.clock


_PRODUCTS = {"half": 989e12, "tf32": 494e12}
MACHINES = (
    Machine("H100", "sm_90", 3.35e12, 132, 1.98e9, _PRODUCTS),
    Machine("H200", "sm_90", 4.8e12, 132, 1.98e9, _PRODUCTS),
)
"""The GPUs for which `estimate` says something."""

_SHAPE = re.compile(r"HGMMA\.(\d+)x(\d+)x(\d+)|HMMA\.(168(?:16|8|4))")
_LANES = 32
_GROUP = 4
"""Warps that carry out one HGMMA together."""


def estimate(machine: Machine, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Estimate what bounds a kernel, and which share of the memory's rate it may reach.

    A static roofline (Williams, Waterman, Patterson 2009): every instruction of the binary is
    counted once, as if loops ran as often as what surrounds them, and no access found its bytes in
    a cache. It knows no latency. `facts` are those of `sass.facts`.
    """
    moved = sum(
        int(bits) // 8 * count * _LANES
        for way in ("loads", "stores")
        for bits, count in facts[way].items()
    )
    times = {
        "memory": moved / machine.bytes,
        "instructions": facts["instructions"] / machine.warp_instructions,
        "tensor cores": sum(
            operations(name) * count / machine.products["tf32" if "TF32" in name else "half"]
            for name, count in facts["tensor"].items()
        ),
    }
    bound = max(times, key=lambda name: times[name])
    return {"bound": bound, "of_bandwidth": round(times["memory"] / times[bound], 2)}


def operations(name: str) -> float:
    """Return the multiplications and additions of one warp's share of a tensor instruction."""
    found = _SHAPE.match(name)
    if found is None:
        raise RuntimeError(f"kernels: the shape of {name} is not known to the static roofline")
    if found[4] is not None:
        return 2 * 16 * 8 * int(found[4][3:])
    rows, columns, inner = (int(found[k]) for k in (1, 2, 3))
    return 2 * rows * columns * inner / _GROUP
