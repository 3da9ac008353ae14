"""Large cases: what goes wrong at a size, and not below it, is caught; what is right is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from equivalence.backends import load
from equivalence.backends.torch.backend import TorchBackend
from equivalence.budgets.arrays import Allowed, fractions, judge_arrays
from equivalence.budgets.outcome import grouped, over_budget
from equivalence.cases.call import TORCH
from equivalence.cases.families.entries.elementwise import ARGUMENTS
from equivalence.cases.sizes import build_sized, growths, sized_from_dict
from equivalence.conventions import OURS, UNSAID, Conventions
from equivalence.dtypes import DTYPES
from equivalence.measure.sizes import (
    call_of,
    exact,
    full,
    grown_to,
    measure_sized,
    measure_sized_update,
    near,
    sized_update,
)
from equivalence.runs.choice import read_case
from equivalence.runs.results import Row
from equivalence.runs.run import Request, perform
from equivalence.worlds.contract import Form
from spec.op import AnyTensor
from spec.ops import OPS
from spec.optim import OPTIMIZERS
from spec.tensor import zip_map
from tests.turns import in_turns

Value = Callable[..., Tensor]


class Planted:
    """torch, with one value replaced."""

    def __init__(self, op: str, value: Value) -> None:
        self.torch = load("torch")
        self.name, self.op, self.replaced = "planted", op, value

    def capabilities(self) -> Any:
        return replace(self.torch.capabilities(), ops={self.op: ("fp32",)}, optimizers={})

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return self.replaced(*inputs, **attrs)

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> Any:
        return self.torch.vjp(op, inputs, attrs, cotangents)


def late_block(x: Tensor) -> Tensor:
    """Start the second block of a grid wrong, at 8,192."""
    z = torch.exp(x)
    z.view(-1)[8192 : 2 * 8192] = torch.exp(x.reshape(-1)[8193 : 2 * 8192 + 1])
    return z


def last_column(x: Tensor, y: Tensor) -> Tensor:
    """Drop the last column where K is 513."""
    k = 512 if x.shape[1] == 513 else x.shape[1]
    return x[:, :k] @ y[:k]


def last_of_a_long_sum(x: Tensor, y: Tensor) -> Tensor:
    """Drop the last column where K is beyond a thousand."""
    k = x.shape[1] - (x.shape[1] > 1000)
    return x[:, :k] @ y[:k]


def tf32(x: Tensor, y: Tensor) -> Tensor:
    """Read factors as tf32 where K is beyond a thousand: three bits of twelve are lost."""
    if x.shape[1] <= 1000:
        return x @ y
    return ((x.view(torch.int32) >> 13 << 13).view(torch.float32)) @ y


def smoothing_of_64(
    x: Tensor, labels: Tensor, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Smooth over at most 64 classes."""
    own = -torch.log_softmax(x, 1)
    kept = labels != -100
    picked = own.gather(1, labels.clamp(0)[:, None])[:, 0]
    spread = own[:, :64].sum(1) / x.shape[1]
    found = ((1 - label_smoothing) * picked + label_smoothing * spread) * kept
    return found if reduction == "none" else found.sum() / kept.sum()


def one_pass_beyond_512(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Take the variance as E x^2 - (E x)^2 in long rows."""
    if gamma.numel() <= 512:
        return torch.layer_norm(x, gamma.shape, gamma, beta, eps)
    axes = tuple(range(-gamma.dim(), 0))
    mean = x.mean(axes, keepdim=True)
    variance = (x * x).mean(axes, keepdim=True) - mean * mean
    return (x - mean) / torch.sqrt(variance + eps) * gamma + beta


def rows_dropped(x: Tensor, axis: int) -> Tensor:
    """Leave rows beyond 65,535 as they are in the last one before."""
    z = torch.softmax(x, axis)
    z[65_535:] = z[65_534] if len(z) > 65_535 else z[65_535:]
    return z


def places_dropped(x: Tensor, y: Tensor) -> Tensor:
    """Leave places of a batch beyond 65,535 at zero."""
    z = torch.bmm(x, y)
    z[65_535:] = 0
    return z


PLANTED: dict[str, tuple[str, Value, str]] = {
    "a second block that starts wrong": ("exp", late_block, "near"),
    "the last of 513 columns": ("matmul", last_column, "full"),
    "the last of many columns": ("matmul", last_of_a_long_sum, "full"),
    "factors in tf32": ("matmul", tf32, "full"),
    "65 classes": ("cross_entropy", smoothing_of_64, "full"),
    "one pass in long rows": ("layer_norm", one_pass_beyond_512, "full"),
    "rows beyond 65,535": ("softmax", rows_dropped, "full"),
    "places beyond 65,535": ("bmm", places_dropped, "full"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_wrong_at_a_size_is_caught(what: str) -> None:
    op, value, which = PLANTED[what]
    planted, right = Planted(op, value), load("torch")
    contract = right.capabilities().contract(op, "fp32")
    cases = (near if which == "near" else full)(op, "value", "fp32")
    outcomes = [measure_sized(planted, case, contract) for case in cases]
    assert any(outcome.failed for outcome in outcomes), what
    detail = next(o.detail for o in outcomes if o.failed)
    assert detail is not None
    assert detail.fraction > 1
    wrong = cases[[o.failed for o in outcomes].index(True)]
    assert not measure_sized(right, wrong, contract).failed


def test_a_bound_wider_than_a_sixteenth_of_the_scale_is_judged_and_counted() -> None:
    allowed = Allowed(
        np.array([16.0, 1.0, 1.0, 1.0, 1.0]), np.array([0.5, 1.0, 1.0001, np.inf, np.nan]), "fp32"
    )
    found = judge_arrays(torch.tensor([16.0, 1.0, 2.0, 9.0, 9.0]), allowed)
    assert (found.judged, found.wide, found.unconstrained, found.failed) == (3, 1, 2, False)
    worst = judge_arrays(torch.tensor([16.0, 1.0, 9.0, 9.0, 9.0]), allowed)
    assert worst.failed and worst.detail is not None
    assert (worst.detail.index, worst.wide, worst.unconstrained) == ((2,), 1, 2)
    worst = judge_arrays(torch.tensor([17.0, 3.0, 2.0, 9.0, 9.0]), allowed)
    assert worst.detail is not None
    assert (worst.detail.index, worst.detail.got, worst.detail.fraction) == ((0,), "17.0", 2.0)


def test_many_wrong_elements_are_told_as_one_by_one() -> None:
    source = np.random.default_rng(0)
    exact = np.concatenate([source.standard_normal(400), np.zeros(50), np.full(50, 1e-40)])
    factors = source.choice([1.0, 1.5, 0.0, np.nan, np.inf], 500)
    with np.errstate(invalid="ignore"):
        got = torch.from_numpy(exact * factors).float()
    due = Allowed(exact, np.where(source.random(500) < 0.5, 0.0, 1e-3), "fp32")
    found = judge_arrays(got, due)
    fraction = fractions(got.double().numpy(), due)[0]
    one_by_one = grouped(
        over_budget((str(float(got[k])), str(exact[k]), ""), float(fraction[k]), "fp32")
        for k in range(500)
        if not fraction[k] <= 1.0
    )
    assert set(found.over) == set(one_by_one) and len(one_by_one) > 8


def test_every_op_grows_as_its_family_does() -> None:
    sizes = [g for op in OPS for g in growths(op)]
    assert len(sizes) > len(OPS)
    assert max(g.full for g in sizes) == 2**22
    assert any(g.what == "rows" and g.full > 65_535 for g in sizes)
    for name, page in OPS.items():
        assert 2 <= len(growths(name)) <= 8 or page.random, name


CURVES = [op for op in OPS if ARGUMENTS in growths(op)]
"""The ops that are asked about every argument."""


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("op", ["log", "exp", "reciprocal"])
def test_every_argument_of_16_bits_is_asked(op: str, dtype: str) -> None:
    """All that lie where the op is asked, and whose fourth power is in range, and no other."""
    assert op in CURVES and "add" not in CURVES
    case = grown_to(op, "value", dtype, growths(op).index(ARGUMENTS), ARGUMENTS.full)
    (x,) = (view.double().numpy() for view in build_sized(case).views())
    words = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    numbers = words.view(TORCH[dtype]).double().numpy()
    among = numbers[np.abs(numbers) <= min(DTYPES[dtype].store.max_finite / 16, 2.0**31)]
    wanted = {"log": among[among > 0], "exp": among, "reciprocal": among[among != 0]}[op]
    assert np.array_equal(np.unique(x), np.unique(wanted))


def test_a_curve_that_is_wrong_at_one_argument_is_found() -> None:
    """Planted: one of 2^16 numbers gives its neighbour's result."""

    class Once(TorchBackend):
        def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
            z = super().value(op, inputs, attrs)
            return torch.where(inputs[0] == 0.40625, z * (1 + 2**-7), z)

    case = grown_to("exp", "value", "bf16", growths("exp").index(ARGUMENTS), 2**16)
    contract = TorchBackend().capabilities().contract("exp", "bf16")
    assert not measure_sized(TorchBackend(), case, contract).failed
    assert measure_sized(Once(), case, contract).failed


EXACT = [
    name
    for name, op in OPS.items()
    if op.moves
    and op.kind != "pointwise"
    and all(exact(name, "value", "fp32", g) for g in growths(name))
]
"""The ops beyond single numbers whose values at size are integers, in whatever order."""


def test_integers_pass_where_no_step_rounds_and_only_there() -> None:
    (first, *_) = growths("matmul")
    assert all(exact("matmul", d, dtype, first) for d in ("value", "vjp") for dtype in DTYPES)
    assert not exact("exp", "value", "fp32", growths("exp")[0])
    assert not exact("softmax", "value", "fp32", growths("softmax")[0])


@pytest.mark.parametrize("op", EXACT)
def test_integers_of_full_size_stay_exact(op: str) -> None:
    """What is judged to the bit is exact, at its full size: every bound is 0."""
    from equivalence.budgets.arrays import allowed
    from equivalence.cases.sizes import build_sized
    from equivalence.worlds.contract import FP32, Contract

    for case in full(op, "value", "fp32"):
        if case.regime == "integers" and case.case.shapes[0][0] < 2**21:
            (found,) = allowed(call_of(build_sized(case)), Contract("x", FP32, FP32), settled=True)
            assert found is not None
            assert not found.b.any(), case


def far_off(x: AnyTensor, y: AnyTensor) -> AnyTensor:
    """Subtract what has first been moved away from 0, and rounded there."""
    return zip_map(lambda a, b: (a + 64) - (b + 64), x, y)


def test_another_form_counts_at_full_size_too() -> None:
    backend = Planted("sub", lambda x, y: (x + 64) - (y + 64))
    contract = backend.capabilities().contract("sub", "fp32")
    in_form = replace(contract, forms=(Form("far off", value=far_off),))
    case = next(case for case in full("sub", "value", "fp32") if case.regime == "reals")
    assert measure_sized(backend, case, contract).failed
    found = measure_sized(backend, case, in_form)
    assert found.judged and not found.failed


def test_a_large_case_is_one_line_that_reads_back() -> None:
    case, *_ = near("softmax", "vjp", "bf16")
    row, found = read_case(case.to_json())
    assert (row, found) == (Row("softmax", "vjp", "bf16"), case)
    with pytest.raises(ValueError, match="unknown regime 'huge'"):
        sized_from_dict({"sized": "huge"})


class FirstWins(Planted):
    """torch's maximum, all of whose ties go to the first input, or to whom `right` says."""

    def __init__(self, conventions: Conventions, right: bool = True) -> None:
        super().__init__("maximum", torch.maximum)
        self.conventions, self.right = conventions, right

    def capabilities(self) -> Any:
        return replace(super().capabilities(), conventions=self.conventions)

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> Any:
        (x, y), (g,) = inputs, cotangents
        wins = x >= y if self.right else x > y + 2
        return [torch.where(wins, g, 0.0), torch.where(wins, 0.0, g)]


def test_ties_at_a_size_are_left_open_to_who_never_said_whose_they_are() -> None:
    case = grown_to("maximum", "vjp", "fp32", 0, 65_601)
    assert case.regime == "integers"
    for backend, failed in (
        (FirstWins(UNSAID), False),
        (FirstWins(UNSAID, right=False), True),
        (FirstWins(OURS), True),
    ):
        contract = backend.capabilities().contract("maximum", "fp32")
        found = measure_sized(backend, case, contract)
        assert found.failed is failed
        assert 0.9 * 2 * 65_601 < found.judged <= 2 * 65_601


def test_float64_is_judged_on_a_sample_by_balls() -> None:
    backend = load("torch")
    contract = backend.capabilities().contract("softmax", "fp64")
    case = grown_to("softmax", "value", "fp64", 1, 65_601)
    assert case.regime == "reals"
    found = measure_sized(backend, case, contract)
    assert not found.failed
    assert 0 < found.judged <= 16


def test_a_large_update_is_judged_in_every_element() -> None:
    backend = load("torch")
    case = replace(sized_update("adam", "fp32"), shapes=((9_001,),), steps=2)
    contract = backend.capabilities().contract("adam", "fp32")
    found = measure_sized_update(backend, case, contract)
    assert not found.failed
    assert found.judged == 2 * 3 * 9_001


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_large_steps_of_every_optimizer_are_judged(optimizer: str) -> None:
    backend = load("fast-aten")
    large = sized_update(optimizer, "fp32")
    case = replace(large, shapes=((257, 64), (9_001,)))
    found = measure_sized_update(backend, case, backend.capabilities().contract(optimizer, "fp32"))
    assert not found.failed
    assert found.judged >= large.steps * (257 * 64 + 9_001)
    assert (found.unconstrained, found.wide) == (0, 0)


def test_large_steps_of_torchs_own_muon_are_judged() -> None:
    """It multiplies in bfloat16: what a column leaves of a budget is wide."""
    backend = load("torch")
    case = replace(sized_update("muon", "fp32"), shapes=((257, 64),))
    found = measure_sized_update(backend, case, backend.capabilities().contract("muon", "fp32"))
    assert not found.failed
    assert found.judged >= case.steps * 257 * 64
    assert (found.unconstrained, found.wide) == (0, 0)


def test_the_profile_runs_and_counts() -> None:
    done = perform(Request("torch", ("nll_loss",), profile="sizes"), load("torch"))
    assert {result.status for result in done.results if result.row.dtype == "fp32"} == {
        "conformant"
    }


@pytest.mark.slow
@pytest.mark.parametrize("op", in_turns(["reciprocal", "rsqrt", "pow"], 3))
def test_what_overflows_at_some_arguments_leaves_no_row_open(op: str) -> None:
    """In the interpreter all arguments of 16 bits outnumber the rest, and many have no result."""
    done = perform(Request("fast-triton-interpreted", (op,), profile="sizes"))
    assert {result.status for result in done.results} == {"conformant"}
