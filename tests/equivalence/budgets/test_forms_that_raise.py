"""A form that raises is a fault of the contract: the row says which form, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence import Capabilities, Contract, Form, Request, declared, perform
from equivalence.budgets.oracle import expected_vjp
from equivalence.worlds.contract import FormFailed
from spec.ops import OPS


def without_rows(x: Any, *, axis: int = -1) -> Any:
    """Compute log_softmax by a form that has no answer for an axis without entries."""
    if x.shape[axis] == 0:
        raise ArithmeticError("log(0) is no fraction")
    return OPS["log_softmax"].value(x, axis=axis)


def without_gradient(inputs: Any, cotangent: Any, **attributes: Any) -> Any:
    return {}["gradient"]


class Formed:
    name = "formed"

    def capabilities(self) -> Capabilities:
        def contract(op: str, dtype: str) -> Contract:
            form = Form("by rows", without_rows)
            return replace(declared("torch")(op, dtype), forms=(form,))

        return Capabilities({"log_softmax": ("fp32",)}, contract)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return torch.log_softmax(inputs[0], attrs.get("axis", -1))

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> list[Tensor]:
        raise NotImplementedError


def test_the_row_names_the_form_and_its_line() -> None:
    request = Request("formed", ["log_softmax"], profile="quick")
    result = perform(request, backend=Formed()).results[0]
    (failure,) = result.failures
    assert result.status == "error"
    assert failure.title.startswith(
        "the value of the form 'by rows' raised ArithmeticError: log(0) is no fraction (at "
    )
    assert "test_forms_that_raise.py:2" in failure.title
    assert "the backend did nothing wrong" in failure.title and not failure.details


def test_a_gradient_that_raises_is_told_likewise() -> None:
    form = Form("none", vjp=without_gradient)
    contract = replace(declared("torch")("exp", "fp32"), forms=(form,))
    x = torch.ones(2)
    with pytest.raises(FormFailed, match=r"the vjp of the form 'none' raised KeyError: 'gradient'"):
        expected_vjp("exp", [x], {}, x, contract)


def test_the_form_of_the_page_runs_on_every_case() -> None:
    """As written in docs/backends.md, also where an axis has no entries."""
    from tests.equivalence.test_docs_example import block_with

    code = block_with("def minus_logsumexp")
    namespace: dict[str, Any] = {}
    exec(compile(code, "docs/backends.md", "exec"), namespace)

    class Documented(Formed):
        def capabilities(self) -> Capabilities:
            return Capabilities({"log_softmax": ("fp32",)}, namespace["contract"])

        def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
            if inputs[0].ndim == 0:
                raise ValueError("log_softmax C1: an axis")
            return inputs[0] - torch.logsumexp(inputs[0], attrs.get("axis", -1), keepdim=True)

    request = Request("documented", ["log_softmax"], profile="quick")
    result = perform(request, backend=Documented()).results[0]
    assert result.page_fraction is not None and result.page_fraction > 1
    assert not any("form" in failure.title for failure in result.failures)
    assert result.worst_fraction is not None and result.worst_fraction <= 1
