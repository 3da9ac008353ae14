"""The checks of a page, for a backend that wants to refuse what the page refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from torch import Tensor

from equivalence.backends.fast.backend import checked
from equivalence.registry import ENTRIES, OPS
from spec.tensor import Tensor as Entries


def check_call(
    op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], device: str = "cpu"
) -> tuple[Sequence[Tensor], Mapping[str, Any]]:
    """Refuse a call as the page of an operation does, or return it with all attributes filled in.

    op       the name of the operation, as a backend receives it
    inputs   the tensors of the call, of any dtype that the suite knows
    attrs    its attributes; those that have their defaults may be missing
    device   where an operation without inputs puts its result

    ValueError names the broken constraint, as in ``matmul C2: ...``, which is what a backend whose
    capabilities say `labelled` has to do. Integers are read from the device, to be compared with
    the range that the page states.
    """
    if op not in ENTRIES:
        return checked(op, inputs, attrs, device)
    page = OPS[op]
    told = {name: value for name, value in attrs.items() if name in page.attributes}
    page.check(*(_entries(x, k in page.index_inputs) for k, x in enumerate(inputs)), **told)
    return inputs, {**page.attributes, **attrs}


def _entries(x: Tensor, integers: bool) -> Any:
    """Return a tensor as a page checks it: its shape, and its entries if they are integers."""
    shape = tuple(x.shape)
    if integers:
        return Entries(shape, x.reshape(-1).tolist())
    return Entries(shape, [0.0] * prod(shape))
