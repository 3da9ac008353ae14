"""Contracts and their ladder: a tighter rung never has the larger budget."""

from __future__ import annotations

import random

import pytest
import torch

from equivalence.backends.libraries import FAMILIES, declared
from equivalence.budgets.judge import Expected, judge_tensor
from equivalence.budgets.oracle import expected_value, expected_vjp
from equivalence.worlds.contract import BF16, FORMATS, FP16, FP32, FP64, Contract, rungs

NAMES = {
    "fp32": [
        "ieee-f32",
        "tf32-in",
        "bf16-in/f32-acc",
        "f32-acc+1 store",
        "bf16-intermediates",
        "bf16-acc",
    ],
    "bf16": ["f32-acc+1 store", "bf16-intermediates", "bf16-acc"],
    "fp64": ["ieee-f64", "f64-acc+1 store", "f32-intermediates", "f32-acc"],
}


def base(dtype: str) -> Contract:
    """Return a plain contract of a dtype."""
    compute = FP64 if dtype == "fp64" else FP32
    return Contract("base", compute, FORMATS[dtype])


def test_formats_are_those_of_the_standard() -> None:
    for format, dtype in ((FP32, torch.float32), (BF16, torch.bfloat16), (FP16, torch.float16)):
        info = torch.finfo(dtype)
        assert (format.max_finite, format.min_normal) == (info.max, info.tiny)
        assert format.unit * 2 == info.eps
        assert 2.0**format.least_exponent == info.smallest_normal * info.eps
    assert torch.finfo(torch.float64).max == FP64.max_finite


@pytest.mark.parametrize("dtype", NAMES)
def test_the_ladder_names_its_rungs(dtype: str) -> None:
    ladder = rungs(base(dtype))
    assert [rung.name for rung in ladder] == NAMES[dtype]
    assert [rung.contract.rung for rung in ladder] == NAMES[dtype]
    assert all(rung.contract.dtype == FORMATS[dtype] for rung in ladder)


def budgets(tensors: list[Expected | None]) -> list[float]:
    """List all budgets, infinite where unconstrained."""
    entries = [x for tensor in tensors if tensor is not None for x in tensor.data]
    return [float("inf") if x.unconstrained else float((x.w - x.v).abs_upper()) for x in entries]


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("op", ["matmul", "softmax", "layer_norm", "sum", "mul"])
def test_a_weaker_rung_never_has_the_smaller_budget(op: str, dtype: str) -> None:
    torch.manual_seed(3)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}[dtype]
    inputs = {
        "matmul": [torch.randn(3, 20), torch.randn(20, 2)],
        "layer_norm": [torch.randn(2, 8), torch.randn(8), torch.randn(8)],
        "mul": [torch.randn(6), torch.randn(6)],
    }.get(op, [torch.randn(2, 9)])
    inputs = [x.to(kind) for x in inputs]
    before: list[float] | None = None
    for rung in rungs(base(dtype)):
        value = expected_value(op, inputs, {}, rung.contract)
        cotangent = torch.linspace(-2, 2, len(value.data)).to(kind).reshape(value.shape)
        found = budgets([value, *expected_vjp(op, inputs, {}, cotangent, rung.contract)])
        if before is not None:
            assert all(b <= a for b, a in zip(before, found, strict=True)), rung.name
        before = found


def tightest(op: str, inputs: list[torch.Tensor], got: torch.Tensor) -> str:
    """Name the tightest rung that a float32 result satisfies."""
    for rung in rungs(base("fp32")):
        expected = expected_value(op, inputs, {}, rung.contract)
        if judge_tensor(got, expected).status == "conformant":
            return rung.name
    return "none"


def test_a_rung_is_inferred_from_what_came_back() -> None:
    """Results of weaker arithmetics fall off the tighter rungs; short sums leave no slack."""
    torch.manual_seed(0)
    x, y = torch.rand(8, 64) + 0.5, torch.rand(64, 8) + 0.5
    assert tightest("matmul", [x, y], x @ y) == "ieee-f32"
    short = [(t.view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (x, y)]
    assert tightest("matmul", [x, y], short[0] @ short[1]) == "tf32-in"
    one, other = x[:, :1], y[:1]
    narrow = one.bfloat16().float() @ other.bfloat16().float()
    assert tightest("matmul", [one, other], narrow) == "bf16-in/f32-acc"
    total = torch.zeros(8, 8, dtype=torch.bfloat16)
    for k in range(64):
        total = total + (x[:, k, None] * y[None, k]).bfloat16()
    assert tightest("matmul", [x, y], total.float()) == "bf16-acc"
    rounded = torch.softmax(x, -1).bfloat16().float()
    assert tightest("softmax", [x], rounded) == "f32-acc+1 store"
    assert tightest("softmax", [x], -rounded) == "none"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_declared_number_names_its_source(family: str) -> None:
    rng = random.Random(0)
    for dtype in ("fp32", "bf16", "fp64", "tf32"):
        contract = declared(family)(rng.choice(("softmax", "matmul", "adamw")), dtype)
        assert all(error.source for error in contract.functions.values())
        changed = contract.steps == "storage" or contract.flush != "none"
        assert contract.sources or not changed
        assert contract.rung
    with pytest.raises(ValueError, match="fp32"):
        declared(family)("add", "int8")


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="triton-device"):
        declared("numpy")


@pytest.mark.parametrize("family", ["torch-device", "aten-device"])
def test_a_gradient_from_a_saved_logarithm_is_promised_no_more_on_a_device(family: str) -> None:
    saved = declared(family)("cross_entropy", "fp32").functions["exp"]
    assert saved.slope > 0 and not saved.exact_values
    assert declared(family)("softmax", "fp32").functions["exp"].slope == 0
