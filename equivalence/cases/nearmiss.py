"""Near-misses: calls that break exactly one constraint of a page, which everybody must refuse.

They stand on the page, as REFUSED.  The reference refuses with the constraint's label; our own
backends must name the same label; any other backend must raise, whatever it says.
"""

from __future__ import annotations

from typing import Any

import torch

from equivalence.cases.call import TORCH, dtype_at, handed
from equivalence.registry import OPS
from spec.op import Rejected
from spec.refusals import Miss
from spec.tensor import Nested, tensor


def describe(op: str, miss: Miss) -> str:
    """Return the call in one line."""
    inputs = ", ".join(map(str, miss.inputs))
    attrs = "".join(f", {name}={value!r}" for name, value in miss.attributes.items())
    return f"{op}({inputs}{attrs}) breaking {miss.label}"


def refused_by_reference(op: str, miss: Miss) -> str | None:
    """Return what is wrong with the reference's refusal, or None where it names the label."""
    try:
        OPS[op].check(*map(tensor, miss.inputs), **miss.attributes)
    except Rejected as refusal:
        return _mislabelled(op, miss, refusal)
    return f"the reference accepts {describe(op, miss)}"


def refused_by_backend(op: str, miss: Miss, backend: Any, dtype: str, labelled: bool) -> str | None:
    """Return what is wrong with a backend's refusal, or None where it refuses as it should."""
    inputs = [_placed(op, k, nested, dtype) for k, nested in enumerate(miss.inputs)]
    try:
        backend.value(op, inputs, handed(op, miss.attributes, dtype))
    except Exception as refusal:
        return _mislabelled(op, miss, refusal) if labelled else None
    return f"{backend.name} accepts {describe(op, miss)}"


def _placed(op: str, k: int, nested: Nested, dtype: str) -> torch.Tensor:
    """Put an input in the row's dtype; what stands for indices keeps what its entries are."""
    read: torch.Tensor = torch.tensor(nested)
    if k not in OPS[op].index_inputs:
        return read.to(TORCH[dtype])
    return read if read.numel() else read.to(dtype_at(op, k, dtype))


def _mislabelled(op: str, miss: Miss, refusal: Exception) -> str | None:
    """Compare a refusal's words with the label of the constraint that was broken."""
    if str(refusal).startswith(f"{op} {miss.label}:"):
        return None
    return f"{describe(op, miss)} was refused as {type(refusal).__name__}: {refusal}"
