"""Every call that a page of spec lists under REFUSED is refused by its twin, by the same label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from fast import Rejected
from fast.ops import OPS
from spec.ops import OPS as SPEC
from spec.refusals import Miss
from spec.tensor import Nested

CALLS = [
    pytest.param(name, miss, id=f"{name} {miss.label}")
    for name, op in SPEC.items()
    for miss in op.refused
]


def made(name: str, k: int, nested: Nested) -> Tensor:
    """Make an input; no entries at all may be indices, or a mask."""
    read: Tensor = torch.tensor(nested)
    if read.numel() or k not in SPEC[name].index_inputs:
        return read
    return read.bool() if k in SPEC[name].mask_inputs else read.long()


@pytest.mark.parametrize(("name", "miss"), CALLS)
def test_both_sides_refuse_by_one_label(name: str, miss: Miss) -> None:
    inputs = [made(name, k, nested) for k, nested in enumerate(miss.inputs)]
    place: Mapping[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
    where = place if SPEC[name].kind == "source" else {}
    with pytest.raises(Rejected, match=f"^{name} {miss.label}: (.|\n)*got"):
        OPS[name].check(*inputs, **miss.attributes, **where)
