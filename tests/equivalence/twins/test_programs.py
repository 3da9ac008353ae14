"""Two sessions as one: what only one side knows is noticed, and a label judges once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fast
from equivalence.backends.fast.contract import family_of
from equivalence.backends.fast.programs import of_program, of_update
from equivalence.budgets.judge import fraction_of
from equivalence.lives.resynced import Resynced
from equivalence.twins.session import TwinSession
from equivalence.twins.sides import Sides
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import exact, stored
from equivalence.worlds.contract import Contract
from spec.session import Session as SpecSession


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


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_a_program_has_one_contract_whoever_judges_it(provider: str, precision: str) -> None:
    due = of_program(family_of(provider), precision)
    twin = TwinSession(fast.Session(provider=provider, precision=precision))
    found = [twin._arithmetic, Resynced(provider, precision)._arithmetic]
    found.append(Sides(SpecSession(), provider, precision).arithmetic)
    assert [arithmetic.contract for arithmetic in found] == [due] * 3
    with twin.updating("adam") as arithmetic:
        assert arithmetic.contract == of_update(family_of(provider), "adam", precision)
        assert arithmetic.contract.store.name == "fp32"


def difference(contract: Contract) -> float:
    """Judge p - q where torch rounded p up to the nearest and an interpreted kernel truncated q."""
    a, b, c, d = exact(Arithmetic(contract), 133 / 128, 141 / 128, 135 / 128, 146 / 128)
    # In units of 2^-7, the spacing of bf16 here, p is 146.51 and q is 153.98.
    found = stored(a * b - c * d)
    fraction = fraction_of(147 / 128 - 153 / 128, found)
    assert fraction is not None
    return fraction


def test_an_interpreted_program_may_both_truncate_and_round_to_nearest() -> None:
    contract = of_program("triton-interpreted", "bf16")
    assert difference(contract) <= 1
    assert difference(replace(contract, store_rounding="toward_zero")) > 1
    assert of_program("aten", "bf16").store_rounding == "nearest"
