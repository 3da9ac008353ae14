"""What a stranger takes over from a library is named, by op, and the report says so."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from equivalence import Capabilities, Contract, declared, granted
from equivalence.backends import BUILT_IN, ContractRule, load
from equivalence.backends.libraries import FAMILIES, shipped
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.oracle import expected_value
from equivalence.registry import OPS, OPTIMIZERS
from equivalence.runs.report import print_report
from equivalence.runs.results import Row, RowResult, read_row
from equivalence.runs.runner import run_row

OP = "bce_with_logits"
ROW = Row(OP, "value", "fp32")
DOCS = Path(__file__).parents[3] / "docs" / "backends.md"


class Caller:
    """A stranger that calls torch's function."""

    name = "caller"

    def __init__(self, rule: ContractRule) -> None:
        self.rule = rule

    def capabilities(self) -> Capabilities:
        """Offer one op, by some contract."""
        return Capabilities({OP: ("fp32",)}, self.rule)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Call torch."""
        return functional.binary_cross_entropy_with_logits(*inputs, **attrs)


class Better(Caller):
    """A stranger that calls torch's function where it agrees with the page."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Call the page of `fast`."""
        made: Any = load("fast-aten").value(op, inputs, attrs)
        return made


def judged(backend: Any) -> RowResult:
    return run_row(backend, ROW, counted=8, seed=0, findings=shipped())


def test_a_stranger_that_calls_torch_is_judged_as_torch_where_it_says_so() -> None:
    found = judged(Caller(granted("torch", ops=(OP,))))
    assert found.status == "declared"
    forms, findings = found.granted
    assert forms == "torch: forms (1 - t) x - log_sigmoid(x)"
    assert findings.startswith("torch: its findings (")
    out = io.StringIO()
    print_report([found], out)
    assert f"granted to {ROW} by {forms}" in out.getvalue()
    assert read_row(found.to_dict()).granted == found.granted


def test_a_grant_for_another_op_is_none_for_this_one() -> None:
    found = judged(Caller(granted("torch", ops=("softmax",))))
    assert found.status == "nonconformant" and found.granted == ()
    assert "granted" not in found.to_dict()


def test_a_family_that_is_declared_is_reported_and_takes_over_no_finding() -> None:
    found = judged(Caller(declared("torch")))
    assert found.status == "nonconformant"
    assert found.granted == ("torch: forms (1 - t) x - log_sigmoid(x)",)


def test_a_finding_that_was_taken_over_need_not_hold() -> None:
    assert judged(Better(granted("torch", ops=(OP,)))).status == "conformant"


def test_a_backend_that_ships_is_told_nothing_of_itself() -> None:
    found = judged(load("torch"))
    assert load("torch").name in BUILT_IN
    assert found.status == "declared" and found.granted == ()


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "generic"])
def test_all_that_a_library_allows_beside_the_page_is_said(family: str) -> None:
    """A contract that says nothing differs from a generic one in its name and freedom alone."""
    silent = {"name", "sources", "freedom", "functions", "granted", "findings"}
    for op in (*OPS, *OPTIMIZERS):
        for dtype in ("fp32", "bf16"):
            taken, plain = declared(family)(op, dtype), declared("generic")(op, dtype)
            differing = {
                field.name
                for field in fields(Contract)
                if getattr(taken, field.name) != getattr(plain, field.name)
            }
            assert not differing - silent or taken.granted, (op, dtype, differing)
            assert all(part.startswith(f"{family}: ") for part in taken.granted)


def test_a_function_that_is_called_on_the_way_is_granted_by_its_name() -> None:
    """A silu on top of torch.sigmoid is 0 where a subnormal number is due on the way."""
    x = torch.tensor([-1.0, -89.5, -96.0])
    got = x * torch.sigmoid(x)
    assert got[1] == 0, "torch's e^-x overflows there"
    for calling, fails in ({"silu": ("sigmoid",)}, False), ({"elu": ("sigmoid",)}, True):
        contract = granted("torch", calling=calling)("silu", "fp32")
        expected = expected_value("silu", [x], {}, contract)
        assert judge_tensor(got, expected).failed is fails
        assert judge_tensor(got * torch.tensor([1.001, 1.0, 1.0]), expected).failed
        said = "torch's sigmoid: subnormal numbers may be flushed (outputs)"
        assert contract.granted == (() if fails else (said,))


def test_what_is_granted_is_known() -> None:
    with pytest.raises(
        ValueError, match="nothing can be granted from 'tensorflow'; there are torch"
    ):
        granted("tensorflow", ops=(OP,))
    with pytest.raises(ValueError, match=r"unknown operation 'sofmax' \(nearest: softmax"):
        granted("torch", ops=("sofmax",))
    with pytest.raises(ValueError, match="sequence of names, got the text 'softmax'"):
        granted("torch", ops="softmax")


def test_the_docs_list_every_family_and_every_field() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for name in (*FAMILIES, *(field.name for field in fields(Contract))):
        assert f"`{name}`" in text, name
