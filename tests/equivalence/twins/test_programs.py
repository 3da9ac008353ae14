"""Whole lives of a session, run on both sides at once: what lies between ops is within budget."""

from __future__ import annotations

import pytest
import torch

import fast
from equivalence.twins.programs import PROGRAMS, Program
from equivalence.twins.session import TwinSession


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_is_within_budget_wherever_it_is_checked(program: Program, provider: str) -> None:
    twin = TwinSession(fast.Session(provider=provider))
    program(twin)
    verdict = twin.summary()
    bad = {label: v for label, v in twin.verdicts.items() if v.status != "conformant"}
    assert not bad
    assert verdict.judged >= 16


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
