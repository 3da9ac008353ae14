"""Two sessions as one: what only one side knows is noticed, and a label judges once."""

from __future__ import annotations

import pytest
import torch

import fast
from equivalence.twins.session import TwinSession


def test_what_only_one_side_knows_is_noticed() -> None:
    twin = TwinSession(fast.Session(provider="aten"))
    w = twin.param(torch.tensor([1.0, 2.0]), "w")
    w.fast.set(torch.tensor([1.0, 2.0 + 2.0**-20]))
    twin.check("w", twin.use(w))
    assert twin.summary().status == "nonconformant"


def test_a_label_judges_once() -> None:
    twin = TwinSession(fast.Session(provider="aten"))
    x = twin.input(torch.tensor([1.0]))
    twin.check("x", x)
    with pytest.raises(AssertionError, match="labels are unique"):
        twin.check("x", x)
