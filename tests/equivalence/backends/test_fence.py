"""A store outside of what a page allocated is found, named and located."""

from __future__ import annotations

import pytest
import torch

from equivalence.backends.fence import fenced
from equivalence.cases.guard import Trespass


def test_a_store_inside_is_no_trespass() -> None:
    with fenced():
        fresh = torch.empty_like(torch.ones(2, 3), memory_format=torch.contiguous_format)
        fresh.copy_(torch.ones(2, 3))
        counted = fresh.new_zeros(4, dtype=torch.int64)
    assert fresh.is_contiguous() and fresh.sum().item() == 6
    assert counted.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("offset", "where"), [(-1, "before"), (6, "past the end of")])
def test_a_store_outside_is_named(offset: int, where: str) -> None:
    message = rf"1 elements overwritten {where} fresh memory of shape \[2, 3\]"
    with pytest.raises(Trespass, match=message), fenced():
        fresh = torch.empty(2, 3)
        fresh.as_strided((1,), (1,), fresh.storage_offset() + offset).fill_(1.0)


def test_an_empty_tensor_has_no_inside() -> None:
    with pytest.raises(Trespass, match="past the end of"), fenced():
        fresh = torch.empty(0, 3)
        fresh.as_strided((1,), (1,), fresh.storage_offset()).fill_(1.0)
