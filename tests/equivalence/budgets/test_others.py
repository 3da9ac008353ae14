"""Right programs that take other steps than the page are accepted, and wrong ones are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.oracle import expected_value
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import run_row
from spec.ops import tanh
from tests.equivalence.budgets import others
from tests.equivalence.budgets.others import TORCH, One
from tests.turns import in_turns


def torch_layer_norm(x: Tensor, w: Tensor, b: Tensor, eps: float = 1e-5) -> Tensor:
    return functional.layer_norm(x, w.shape, w, b, eps)


def backwards(rows: Tensor) -> Tensor:
    return others.in_order(rows.flip(-1))


RIGHT: tuple[tuple[str, str, str, One], ...] = (
    (
        "(p - target) g",
        "cross_entropy",
        "vjp",
        One("cross_entropy", functional.cross_entropy, others.cross_entropy_vjp),
    ),
    ("Welford", "layer_norm", "value", One("layer_norm", others.normalized(others.welford))),
    ("shifted", "layer_norm", "value", One("layer_norm", others.normalized(others.shifted))),
    ("two passes", "layer_norm", "value", One("layer_norm", others.normalized(others.two_pass))),
    ("torch's", "layer_norm", "value", One("layer_norm", torch_layer_norm)),
    ("torch's", "layer_norm", "vjp", One("layer_norm", torch_layer_norm)),
    ("torch's", "linear", "value", One("linear", functional.linear)),
    ("bias first", "linear", "value", One("linear", others.bias_first)),
    ("sech^2", tanh.op.name, "vjp", One(tanh.op.name, torch.tanh, others.sech_squared)),
    ("(1 - z) (1 + z)", tanh.op.name, "vjp", One(tanh.op.name, torch.tanh, others.two_factors)),
    ("sum of x / n", "mean", "value", One("mean", others.mean_of_shares)),
    ("Kahan", "sum", "value", One("sum", others.summing(others.kahan))),
    ("pairwise", "sum", "value", One("sum", others.summing(others.pairwise))),
    ("reversed", "sum", "value", One("sum", others.summing(backwards))),
    ("online", "softmax", "value", One("softmax", others.online_softmax)),
    ("textbook", "adam", "update", others.Textbook()),
    ("textbook", "adamw", "update", others.Textbook()),
)

WRONG: tuple[tuple[str, str, str, One], ...] = (
    ("last entry dropped", "sum", "value", One("sum", others.summing(others.but_the_last))),
    ("bf16 sums", "sum", "value", One("sum", others.summing(others.in_bf16))),
    ("bf16 sums", "matmul", "value", One("matmul", others.matmul_in_bf16)),
    ("tf32 factors", "matmul", "value", One("matmul", others.of_tensor_cores)),
    ("no eps", "layer_norm", "value", One("layer_norm", others.without_eps)),
    ("1 / (n - 1)", "layer_norm", "value", One("layer_norm", others.normalized(others.unbiased))),
    ("one pass", "layer_norm", "value", One("layer_norm", others.normalized(others.one_pass))),
    ("no maximum", "softmax", "value", One("softmax", others.softmax_without_maximum)),
    ("no smoothing", "cross_entropy", "vjp", others.UNSMOOTHED),
)


def named(rows: tuple[tuple[str, str, str, One], ...]) -> list[Any]:
    return [
        pytest.param(backend, Row(op, direction, "fp32"), id=f"{op} {direction}: {name}")
        for name, op, direction, backend in rows
    ]


def run(backend: One, row: Row, seed: int, counted: int = 8) -> RowResult:
    return run_row(backend, row, counted=counted, seed=seed, findings=())


def said(result: RowResult) -> str:
    return "\n".join(line for failure in result.failures for line in failure.lines())


@pytest.mark.parametrize("seed", in_turns([1, 2, 0], 3))
@pytest.mark.parametrize(("backend", "row"), named(RIGHT))
def test_a_right_program_of_other_steps_is_accepted(backend: One, row: Row, seed: int) -> None:
    result = run(backend, row, seed)
    assert result.status == "conformant", said(result)
    assert result.freedom == "stable" and result.worst_fraction is not None
    assert result.under in ("page", "stable")
    assert result.page_fraction is not None and result.worst_fraction <= result.page_fraction


@pytest.mark.parametrize(("backend", "row"), named(WRONG))
def test_a_wrong_program_is_caught_in_what_it_computes(backend: One, row: Row) -> None:
    result = run(backend, row, 0, counted=30)
    assert result.status == "nonconformant"
    assert result.worst_fraction is not None and result.worst_fraction > 1, said(result)


@pytest.mark.parametrize("n", [16, 64, 256, 257])
def test_one_pass_over_a_large_offset_is_caught_and_two_are_not(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(4, n, generator=generator) + 1e3
    gamma, beta = torch.ones(n), torch.zeros(n)
    due = expected_value("layer_norm", [x, gamma, beta], {}, TORCH("layer_norm", "fp32"))

    def fraction(moments: Callable[[Tensor], tuple[Tensor, Tensor]]) -> float:
        found = judge_tensor(others.normalized(moments)(x, gamma, beta), due).fraction
        assert found is not None
        return found

    assert fraction(others.one_pass) > 1
    for moments in (others.two_pass, others.welford, others.shifted):
        assert fraction(moments) <= 1
