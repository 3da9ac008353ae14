"""A ledger refuses another form and the first element over budget, and counts what it judged."""

from __future__ import annotations

import pytest
import torch

from equivalence.budgets.ledger import Ledger
from equivalence.budgets.lifting.worlds import lift_one
from equivalence.budgets.violation import Violation
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.contract import FP32, Contract
from spec.op import AnyTensor
from spec.scalar import divide
from spec.tensor import Tensor, zip_map

IEEE = Arithmetic(Contract("ieee", FP32, FP32))
ONES, THREES = torch.ones(3), torch.tensor([3.0, 0.0, 4.0])


def quotients() -> AnyTensor:
    """One with a budget, one without, one exact."""
    return zip_map(divide, lift_one(ONES, IEEE), lift_one(THREES, IEEE))


def judge(ledger: Ledger, got: torch.Tensor) -> None:
    ledger.judge("quotient", got, quotients(), IEEE, torch.float32)


def test_what_is_judged_is_counted() -> None:
    ledger = Ledger()
    judge(ledger, ONES / THREES)
    ledger.judge("constants", torch.tensor([2.0]), Tensor((1,), [2]), IEEE, torch.float32)
    assert (ledger.judged, ledger.unconstrained) == (3, 1)
    assert 0.0 < ledger.worst <= 1.0


@pytest.mark.parametrize(
    ("got", "says"),
    [
        ((ONES / THREES).double(), r"quotient: \(3,\) torch.float64, due is \(3,\) torch.float32"),
        ((ONES / THREES)[:2], r"quotient: \(2,\) torch.float32, due is \(3,\) torch.float32"),
        (torch.tensor([1 / 3 + 2**-24, 0.0, 0.25]), "quotient: element 0 is .* of its budget"),
        (torch.tensor([1 / 3, 0.0, 0.25 + 2**-25]), "quotient: element 2 is .* inf of its budget"),
        (torch.tensor([torch.nan, 0.0, 0.25]), "quotient: element 0 is nan"),
    ],
)
def test_what_is_not_allowed_is_refused(got: torch.Tensor, says: str) -> None:
    with pytest.raises(Violation, match=says):
        judge(Ledger(), got)
