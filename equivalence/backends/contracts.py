"""What contracts of several libraries share: where they start, and what storage and hardware do.

A contract of one library stands in that library's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.dtypes import DTYPES
from equivalence.registry import OPS
from equivalence.worlds.contract import FP32, TF32, Contract, Format, Freedom, FunctionError

FORMATS: Mapping[str, tuple[Format, Format]] = {
    **{name: (dtype.compute, dtype.store) for name, dtype in DTYPES.items()},
    "tf32": (FP32, FP32),
}
"""By dtype: the formats of computation and of storage."""

FUSED = frozenset({"softmax", "masked_softmax", "log_softmax", "layer_norm", "cross_entropy"})
"""The ops whose kernels do not follow their page step by step."""

FUSED_WHY = (
    "a fused rule forms other intermediate results than the page; it promises nothing about "
    "subnormal ones, and it may multiply by a reciprocal"
)
TENSOR_CORE_WHY = (
    "tensor cores read fp32 as tf32 by dropping bits, and truncate partial sums (Fasi, Higham, "
    "Mikaitis and Pranesh, 2021)"
)


def base(
    family: str,
    op: str,
    dtype: str,
    functions: Mapping[str, FunctionError],
    freedom: Freedom = "page",
) -> Contract:
    """Return the contract that all families start from."""
    if dtype not in FORMATS:
        raise ValueError(f"no contract for dtype {dtype!r}; there are {', '.join(FORMATS)}")
    compute, store = FORMATS[dtype]
    contract = Contract(
        f"{family} {op} {dtype}", compute, store, functions=functions, freedom=freedom
    )
    if op in FUSED:
        contract = replace(contract, flush="outputs", division="reciprocal", sources=(FUSED_WHY,))
    return contract


def stepping_in_storage(contract: Contract, why: str, why_sums: str = "") -> Contract:
    """Let every step pass through the format of storage; sums too, where `why_sums` says why."""
    accumulate = contract.store if why_sums else contract.accumulate
    sources = (*contract.sources, why, *((why_sums,) if why_sums else ()))
    return replace(contract, steps="storage", accumulate=accumulate, sources=sources)


def reads_positions(op: str) -> bool:
    """Say whether an op reads positions or labels; a mask is neither."""
    page = OPS.get(op)
    return page is not None and bool(page.integer_inputs)


def on_tensor_cores(contract: Contract, dtype: str) -> Contract:
    """Let products run on tensor cores, where the dtype is tf32 or has 16 bits."""
    if dtype != "tf32" and contract.store == contract.compute:
        return contract
    return replace(
        contract,
        dot_inputs=TF32 if dtype == "tf32" else None,
        dot_rounding="toward_zero",
        accumulate_rounding="toward_zero",
        sources=(*contract.sources, TENSOR_CORE_WHY),
    )
