"""What whole programs of our sessions promise, and what updates do."""

from __future__ import annotations

from dataclasses import replace

from equivalence.backends.libraries import declared
from equivalence.dtypes import master_of
from equivalence.worlds.contract import Contract

BETWEEN_WHY = (
    "what lies between ops is torch's on every ring: contributions to a gradient are added, and "
    "weights and copies of parameters made, with rounding to nearest, beside kernels that truncate"
)


def of_program(family: str, dtype: str) -> Contract:
    """Return the contract of a whole program: of all ops, cross_entropy promises the least.

    What passes from op to op is stored, so that any step may pass through the storage format.
    Its rounding there depends on who stores. In Triton's interpreter kernels truncate to bf16.
    Torch rounds to nearest; it casts parameters and adds contributions between the kernels. One
    program has both, and no number says which it had. So its stores are faithful: one of the two
    neighbours, whichever. Truncation alone would blame torch's roundings upwards; anything wider
    than faithful would allow what neither does.
    """
    contract = declared(family)("cross_entropy", dtype)
    contract = replace(contract, name=f"{family} program {dtype}", steps="storage")
    if contract.store_rounding == "nearest":
        return contract
    sources = (*contract.sources, BETWEEN_WHY)
    return replace(contract, store_rounding="faithful", sources=sources)


def of_update(family: str, optimizer: str, precision: str) -> Contract:
    """Return the contract of an optimizer's update, which works on the masters."""
    return declared(family)(optimizer, master_of(precision))
