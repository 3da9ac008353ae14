"""A store outside of what a page allocated is found, named and located."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from equivalence.backends.fence import Fenced, fenced
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


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: torch.full((2, 3), 7.0),
        lambda: torch.ones_like(torch.zeros(2, 3)),
        lambda: torch.zeros(()).new_full((2, 3), 7.0),
        lambda: torch.empty_strided((2, 3), (3, 1)),
    ],
)
def test_whatever_is_allocated_is_fenced(allocate: Callable[[], torch.Tensor]) -> None:
    with pytest.raises(Trespass, match="past the end of"), fenced():
        fresh = allocate()
        fresh.as_strided((1,), (1,), fresh.storage_offset() + 6).fill_(1.0)


def test_what_has_no_memory_of_its_own_is_left_alone() -> None:
    with fenced():
        assert torch.empty(2, device="meta").is_meta
        assert torch.zeros(2, requires_grad=True).requires_grad


class Handle:
    """A state that is allocated at first, and stored past at the second step."""

    def __init__(self) -> None:
        self.state = torch.zeros(4)
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == 2:
            self.state.as_strided((1,), (1,), self.state.storage_offset() + 4).fill_(1.0)


class Stepping:
    """A backend of one optimizer and nothing else."""

    name = "stepping"

    def optimizer(self) -> Handle:
        return Handle()


def test_the_state_of_an_optimizer_stays_fenced() -> None:
    backend = Fenced(Stepping())
    assert backend.name == "stepping" and not hasattr(backend, "jvp")
    handle = backend.optimizer()
    handle.step()
    assert handle.steps == 1
    with pytest.raises(Trespass, match=r"past the end of fresh memory of shape \[4\]"):
        handle.step()


def test_an_empty_tensor_has_no_inside() -> None:
    with pytest.raises(Trespass, match="past the end of"), fenced():
        fresh = torch.empty(0, 3)
        fresh.as_strided((1,), (1,), fresh.storage_offset()).fill_(1.0)
