"""Whether a NaN comes from memory that is no number of a call: around its tensors, or fresh.

The suite fills the memory around every tensor, and fresh memory, with NaN. So a NaN in a result
says that one of them was read. Which of them, another call with zeros around the tensors tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.cases.built import Built
from equivalence.cases.guard import Guarded
from equivalence.measure.calling import observe


def origin_of_nan(
    backend: Any, built: Built, name: str, index: tuple[int, ...], names: Sequence[str]
) -> str:
    """Say where the NaN at an index of a result comes from; "" where that is not known.

    built   the tensors of the case, which are filled anew
    name    the result that holds the NaN, among the names of all results
    """
    if built.case.calling == "overlapping":
        return ""
    finite = all(bool(item.view.isfinite().all()) for _, item in built.tensors())
    for _, item in built.tensors():
        _blank_around(item)
    try:
        result = dict(zip(names, observe(backend, built), strict=True)).get(name)
    except Exception:
        return ""
    if not isinstance(result, Tensor) or result.dim() != len(index):
        return ""
    found = float(result[index])
    if not math.isnan(found):
        return (
            f"with 0 in place of NaN around its tensors it is {found:.9g}: memory past a tensor is "
            "read; is every load masked, and does what stands for masked lanes change nothing?"
        )
    if not finite:
        return ""
    return (
        "no number of the call is NaN or infinite, and what lies around its tensors is not read: "
        "is this element written at all? (fresh memory holds NaN)"
    )


def _blank_around(item: Guarded) -> None:
    """Put 0 around the numbers of a tensor, and into its gaps."""
    where = item.placement
    core = item.base.as_strided(item.stored, where.strides, where.offset)
    numbers = core.clone()
    item.base.zero_()
    core.copy_(numbers)
    item.before.copy_(item.base.view(torch.uint8))
