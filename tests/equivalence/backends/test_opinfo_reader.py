"""The reader of OpInfo's samples: which samples are calls of a page, and why others are none."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from spec.op import Rejected
from spec.ops import OPS
from tests.equivalence.backends.opinfo import Beyond, Reader, reader
from tests.equivalence.backends.opinfo_calls import Call, copied, same_bits

ROW = torch.tensor([[0.5, -1.0, 2.0]]).double()
ONE = torch.tensor(1.5).double()


def read(op: str, *args: Any, **kwargs: Any) -> Call:
    """Read a call of torch's function as one of the page."""
    found = reader(OPS[op])
    assert found is not None
    return found.read((args, kwargs))


@pytest.mark.parametrize(
    ("op", "args", "kwargs", "constraint"),
    [
        ("cross_entropy", (ROW, torch.tensor([1])), {"weight": -ROW[0].abs()}, "C6: .*negative"),
        ("nll_loss", (ROW, torch.tensor([1])), {"weight": ROW[0]}, "C5: .*negative"),
        ("hardtanh", (ROW, 0.0, 0.0), {}, "C1: lo and hi are finite, and lo < hi"),
        ("sum", (ONE, 0), {}, "C1: every axis"),
        # To broadcast x against its indices makes a call that the page has, but not torch's.
        ("take", (ONE, 0, torch.tensor([0])), {}, "C1: the axis"),
    ],
)
def test_what_the_page_refuses_is_refused_with_its_constraint(
    op: str, args: tuple[Any, ...], kwargs: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(Rejected, match=f"^{op} {constraint}"):
        read(op, *args, **kwargs)


@pytest.mark.parametrize(
    ("op", "args", "kwargs", "reason"),
    [
        ("add", (0.5, 2.0), {}, "a result of torch.float32"),
        ("add", (ROW, ROW), {"alpha": 2}, "alpha=2"),
        ("softplus", (ROW,), {"beta": 3, "threshold": 40}, "beta=3"),
        ("softplus", (ROW,), {"beta": 3, "threshold": 1}, "beta=3, threshold=1"),
        ("concat", ([ROW, ROW],), {}, "no axis"),
        ("hinge_embedding_loss", (ONE, ONE), {}, "argument 1 is not torch.where(y, 1, -1)"),
    ],
)
def test_a_reason_names_what_changes_the_result(
    op: str, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Beyond, match=f"^{re.escape(reason)}$"):
        read(op, *args, **kwargs)


def test_a_layout_is_no_reason() -> None:
    """The last bits of torch's mish depend on the layout; a sample is read all the same."""
    x = torch.linspace(-3, 3, 40, dtype=torch.float64)[::2]
    contiguous = torch.nn.functional.mish(x.clone())
    assert torch.equal(read("mish", x).run(x.clone()), contiguous)


def test_a_sample_that_differs_for_no_reason_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reader(OPS["add"])
    assert found is not None

    def swapped(self: Reader, values: Any, inputs: Any, attributes: Any) -> Any:
        return (ROW, ROW), {}

    monkeypatch.setattr(Reader, "_rebuilt", swapped)
    with pytest.raises(AssertionError, match=r"a sample of .* is read as another call"):
        found.read(((ROW, ONE), {}))


def test_no_copy_shares_memory_and_bits_are_told_apart() -> None:
    (parts, x), named = copied((([ROW, 1], ROW), {"weight": ROW}))
    copies: list[Tensor] = [parts[0], x, named["weight"]]
    assert len({t.data_ptr() for t in (ROW, *copies)}) == 4
    assert all(same_bits(t, ROW) for t in copies)
    inf, largest = torch.tensor(float("inf")), torch.tensor(torch.finfo(torch.float32).max)
    assert same_bits(0 * inf, 0 * inf) and not same_bits(inf, largest)
    assert not same_bits(inf, inf.double()) and not same_bits(ROW, ROW[0])
