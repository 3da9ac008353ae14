"""What the compiled text of a kernel must and must not contain.

The interpreter shows none of this: approximate instructions, narrow loads, products that leave the
tensor cores, spills. A page may declare an approximate instruction in `APPROXIMATE`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

FORBIDDEN = ("div.full", "div.approx", "rcp.approx", "sqrt.approx", "rsqrt.approx")
SHARED = {"sm_80": 163 * 1024, "sm_90": 227 * 1024}
_WIDE_LOAD = re.compile(r"ld\.global\S*\.v(4\.\w?32|2\.\w?64|8\.\w?16)\b|cp\.async\S* .*, 0x10")
_WIDE_STORE = re.compile(r"st\.global\S*\.v(4\.\w?32|2\.\w?64|8\.\w?16)\b")
_LOAD = re.compile(r"\bld\.global\b")
_TENSOR_CORE = re.compile(r"\bw?g?mma\.\w+")
_NAN_AWARE = re.compile(r"\bm(ax|in)\.NaN|\bsetp\.(nan|num|neu|equ|gtu|ltu|leu|geu)\.")


def violations(
    ptx: str, name: str, meta: Mapping[str, Any], half: bool, allowed: Collection[str]
) -> Iterator[str]:
    """Name each rule that a kernel's PTX breaks, given how its host launched it.

    `half` says whether it reads or writes 16-bit numbers.
    """
    for instruction in FORBIDDEN:
        if instruction not in allowed and re.search(rf"(?<!\w){re.escape(instruction)}\b", ptx):
            yield f"contains {instruction}, which its page does not declare"
    if _streams(name, meta) and _narrow(ptx, meta.get("UNIT", 4)):
        yield "streams contiguous memory without 128-bit loads"
    precision = meta.get("PRECISION")
    if precision == "ieee" and not half and _TENSOR_CORE.search(ptx):
        yield "rounds fp32 inputs for the tensor cores, though its launch asks for ieee"
    if (precision == "tf32" or (precision and half)) and not _TENSOR_CORE.search(ptx):
        yield "multiplies tf32 or 16-bit tiles without the tensor cores"
    if name in ("_fill_kernel", "_drop_kernel") and "mul.hi.u64" in ptx:
        yield "draws from 64-bit words, which are those of another generator"
    if _takes_extremes(meta) and not _NAN_AWARE.search(ptx):
        yield "takes a maximum that loses NaN"


def _takes_extremes(meta: Mapping[str, Any]) -> bool:
    """Say whether the kernel's result is the largest or the smallest of what it reads."""
    chosen = getattr(meta.get("FN"), "__name__", None)
    return meta.get("KIND") in ("max", "min", "largest magnitude") or chosen in (
        "_maximum",
        "_minimum",
    )


def _streams(name: str, meta: Mapping[str, Any]) -> bool:
    """Say whether the host promised aligned, contiguous operands; a product is no stream."""
    if "PRECISION" in meta:
        return False
    return name.startswith("_flat") or bool(meta.get("ALIGNED")) or meta.get("UNIT", 1) > 1


def _narrow(ptx: str, unit: int) -> bool:
    """Say whether what is stored was loaded in pieces, rather than wide or hardly at all."""
    if _WIDE_LOAD.search(ptx):
        return False
    return len(_LOAD.findall(ptx)) >= unit * len(_WIDE_STORE.findall(ptx))


def spilled(spills: int) -> Iterator[str]:
    """Name the registers that a kernel keeps in memory, if any."""
    if spills:
        yield f"spills {spills} bytes of registers per thread"


def overuse(target: str, shared: int) -> Iterator[str]:
    """Name the shared memory of which a kernel takes too much."""
    if shared > SHARED[target]:
        yield f"needs {shared} bytes of shared memory; {target} has {SHARED[target]}"
