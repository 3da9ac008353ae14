"""Torch's own formulas: they count where its contract is declared, and excuse nothing else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from equivalence.backends import declared, load
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.oracle import expected_value, expected_vjp
from equivalence.worlds.contract import Contract

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def inputs(dtype: str) -> list[torch.Tensor]:
    """Rows far from 0, of which a stored mean loses most, their parameters, and a cotangent."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((6, 9), (9,), (9,), (6, 9))
    x, *others = (torch.randn(shape, generator=generator) for shape in shapes)
    return [tensor.to(DTYPES[dtype]) for tensor in (x + 40, *others)]


def failures(contract: Contract, dtype: str, gradients: Any) -> list[bool]:
    """Say of which gradients some element is outside of what a contract allows."""
    *given, cotangent = inputs(dtype)
    expected = expected_vjp("layer_norm", given, {"eps": 1e-5}, cotangent, contract)
    return [
        judge_tensor(got, due).failed
        for got, due in zip(gradients, expected, strict=True)
        if due is not None
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_follows_its_formula_and_not_the_page(dtype: str) -> None:
    *given, cotangent = inputs(dtype)
    contract = declared("torch")("layer_norm", dtype)
    gradients = load("torch").vjp("layer_norm", given, {"eps": 1e-5}, [cotangent])
    assert not any(failures(contract, dtype, gradients))
    assert any(failures(replace(contract, forms=()), dtype, gradients))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_the_formula_does_not_give_is_refused(dtype: str) -> None:
    *given, cotangent = inputs(dtype)
    contract = declared("torch")("layer_norm", dtype)
    x, gamma, beta = load("torch").vjp("layer_norm", given, {"eps": 1e-5}, [cotangent])
    assert x is not None and gamma is not None and beta is not None
    wrong = failures(contract, dtype, (-x, gamma + 8, beta + cotangent[0]))
    assert all(wrong), wrong


def test_the_value_keeps_the_budget_of_the_page() -> None:
    *given, _ = inputs("fp16")
    contract = declared("torch")("layer_norm", "fp16")
    with_forms, without = (
        expected_value("layer_norm", given, {"eps": 1e-5}, own)
        for own in (contract, replace(contract, forms=()))
    )
    assert [str(x) for x in with_forms.data] == [str(x) for x in without.data]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_in_storage_may_lose_small_terms_and_no_more(dtype: str) -> None:
    contract = declared("torch")("layer_norm", dtype)
    unit = contract.store.unit
    cotangent = torch.full((40, 1), unit, dtype=DTYPES[dtype])
    cotangent[0] = 1
    ones = torch.ones(40, 1, dtype=DTYPES[dtype]), *torch.ones(2, 1, dtype=DTYPES[dtype])
    for own, got, refused in (
        (contract, 1.0, False),
        (replace(contract, forms=()), 1.0, True),
        (contract, 1.0 - 80 * unit, True),
    ):
        due = expected_vjp("layer_norm", ones, {}, cotangent, own)[2]
        assert due is not None
        assert judge_tensor(torch.tensor([got], dtype=DTYPES[dtype]), due).failed is refused


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_are_summed_in_storage_and_classes_are_not(dtype: str) -> None:
    """Ones that are added one by one stop at 1 / u, where the next is lost."""
    contract = declared("torch")("cross_entropy", dtype)
    stop = int(1 / contract.store.unit)
    one_row = torch.zeros(1, 2 * stop, dtype=DTYPES[dtype]), torch.tensor([0])
    rows = torch.zeros(2 * stop, 2, dtype=DTYPES[dtype]), torch.zeros(2 * stop, dtype=torch.int64)
    for given, own, got, refused in (
        (one_row, contract, math.log(2 * stop), False),
        (one_row, contract, math.log(stop), True),
        (rows, contract, stop * math.log(2), False),
        (rows, replace(contract, forms=()), stop * math.log(2), True),
    ):
        due = expected_value("cross_entropy", given, {"reduction": "sum"}, own)
        judged = judge_tensor(torch.tensor(got, dtype=DTYPES[dtype]), due)
        assert judged.failed is refused and judged.judged == 1
