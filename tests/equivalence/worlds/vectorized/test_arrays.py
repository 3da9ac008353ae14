"""Arrays of scalars against balls: every bound holds what the contract's arithmetic may give."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
import torch

from equivalence.backends import declared
from equivalence.budgets import arrays
from equivalence.budgets.arrays import Allowed, Call, allowed
from equivalence.budgets.judge import budget_of
from equivalence.budgets.oracle import expected_value, expected_vjp
from equivalence.budgets.reading import numbers
from equivalence.cases.built import build
from equivalence.cases.strata.fixed import strata
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.contract import BF16, FP16, FP32, TF32, Contract, FunctionError
from equivalence.worlds.special_values.sets import SpecialValues
from equivalence.worlds.vectorized.numbers import Many, working
from equivalence.worlds.vectorized.widths import Widths
from spec import scalar

RADIUS = Fraction(1, 2**24)
"""More than what a ball's radius, which has 30 bits, is rounded up by in the parts of a step."""

PLAIN = Contract("plain", FP32, FP32)
CONTRACTS = (
    PLAIN,
    Contract("half", FP32, FP16),
    replace(PLAIN, division="full", flush="outputs"),
    replace(PLAIN, division="reciprocal", flush="inputs_outputs"),
    Contract("narrow steps", FP32, BF16, steps="storage"),
    Contract("truncated", FP32, BF16, store_rounding="toward_zero", flush="inputs_outputs"),
    replace(PLAIN, functions={name: FunctionError(4.0, 2.0**-140, 1.5) for name in ("exp", "log")}),
)


def corners(v: float, b: float) -> list[Any]:
    """Return the ends of an interval, as points."""
    middle, off = flint.arb(v), flint.arb(b)
    return [middle - off, middle + off]


def inexact(point: Any, arithmetic: Arithmetic) -> Bounded:
    """Return a point that no step takes for an exact operand."""
    return Bounded(point, flint.arb(point), arithmetic)


def needed(step: Callable[..., Any], operands: list[Any], k: int, contract: Contract) -> Fraction:
    """Return the farthest that a step may lead from a value, over the corners of its operands."""
    arithmetic = Arithmetic(contract)
    ends = [corners(float(x.v[k]), float(x.b[k])) for x in operands]
    with working(Widths(contract), 1):
        middle = flint.arb(float(step(*operands).v[k]))
    balls = [step(*(inexact(p, arithmetic) for p in row)).w for row in itertools.product(*ends)]
    assert all(ball.is_finite() for ball in balls)
    exact = [(ball - middle).abs_upper().fmpq() for ball in balls]
    return max(Fraction(int(q.p), int(q.q)) for q in exact)


def drawn(seed: int, shift: float = 0.0) -> Many:
    source = np.random.default_rng(seed)
    v = (source.standard_normal(24) + shift) * 2.0 ** source.integers(-12, 12, 24)
    v = v.astype(np.float32).astype(np.float64)
    return Many(v, np.abs(v) * 2.0 ** -source.integers(10, 40, 24).astype(float))


def positive(seed: int) -> Many:
    x = drawn(seed)
    return Many(np.abs(x.v), x.b)


STEPS: dict[str, tuple[Callable[..., Any], Callable[[int], Many], int]] = {
    "add": (operator.add, drawn, 2),
    "sub": (operator.sub, drawn, 2),
    "mul": (operator.mul, drawn, 2),
    "divide": (scalar.divide, drawn, 2),
    "halve": (lambda x: Fraction(1, 2) * x, drawn, 1),
    "sixteenth": (lambda x: scalar.divide(x, 16), drawn, 1),
    "square": (scalar.square, positive, 1),
    "sqrt": (scalar.sqrt, positive, 1),
    "log": (scalar.log, positive, 1),
    "exp": (scalar.exp, lambda seed: Many(drawn(seed).v / 64, drawn(seed).b / 64), 1),
    scalar.tanh.name: (scalar.tanh, drawn, 1),
    "three terms": (lambda x, y, z: scalar.sum_terms([x, y, z]), drawn, 3),
}


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda c: f"{c.name} {c.division} {c.flush}")
@pytest.mark.parametrize("name", STEPS)
def test_a_bound_holds_what_balls_allow_at_every_corner(name: str, contract: Contract) -> None:
    step, draw, count = STEPS[name]
    operands = [draw(seed) for seed in range(count)]
    with working(Widths(contract), 1):
        bounds = step(*operands).b
    for k in range(24):
        need = needed(step, operands, k, contract)
        assert need * (1 - RADIUS) <= Fraction(float(bounds[k])), (k, float(need), bounds[k])
        # And it is no wider than what two steps in a row would allow.
        assert Fraction(float(bounds[k])) <= 2 * need


def test_an_array_whose_bound_is_too_small_is_found_by_balls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: sums that forget one rounding, and products that forget one operand's bound."""
    step, draw, count = STEPS["mul"]
    operands = [draw(seed) for seed in range(count)]
    monkeypatch.setattr(
        "equivalence.worlds.vectorized.numbers.product_bound", lambda x, y: np.abs(x[0]) * y[1]
    )
    with working(Widths(PLAIN), 1):
        bounds = step(*operands).b
    short = [k for k in range(24) if needed(step, operands, k, PLAIN) * (1 - RADIUS) > bounds[k]]
    assert len(short) > 12


def test_what_may_be_flushed_is_not_promised_although_it_is_exact() -> None:
    """Where the contract flushes, a subnormal number may become 0; others pass unchanged."""
    x = np.array([0.0, 2.0**-127, -(2.0**-133), 2.0**-126, 1.0])
    for flush, promised in (("none", [True] * 5), ("outputs", [True, False, False, True, True])):
        contract = Contract("x", FP32, BF16, flush=flush)
        (found,) = allowed(Call("relu", [x], {}), contract)
        assert found is not None
        assert [*(np.broadcast_to(found.b, x.shape) == 0)] == [
            exact or number < 0 for exact, number in zip(promised, x, strict=True)
        ]


def test_a_page_in_arrays_allows_what_it_allows_in_balls() -> None:
    """Whole pages agree: the exact value lies within the bound, which is no smaller a budget."""
    for op, direction in (("softmax", "value"), ("layer_norm", "vjp"), ("matmul", "vjp")):
        contract = declared("torch")(op, "fp32")
        for case in strata(op, direction, "fp32")[:9]:
            built = build(case)
            if not all(bool(torch.isfinite(item.view).all()) for _, item in built.tensors()):
                continue
            views = [v.cpu() for v in built.views()]
            if built.cotangent is None:
                expected = [expected_value(op, views, case.attributes(), contract)]
            else:
                seed = built.cotangent
                expected = list(expected_vjp(op, views, case.attributes(), seed, contract))
            cotangent = None if built.cotangent is None else numbers(built.cotangent)
            call = Call(op, [numbers(v) for v in views], case.attributes(), cotangent)
            compared = zip(expected, allowed(call, contract), strict=True)
            for due, found in compared:
                assert due is not None
                assert isinstance(found, Allowed)
                ratios = []
                for x, v, b in zip(due.data, found.v.flat, found.b.flat, strict=True):
                    if isinstance(x, SpecialValues):
                        continue  # beyond the range, which arrays leave open
                    if x.unconstrained:
                        assert np.isnan(b)
                        continue
                    off = (flint.arb(float(v)) - x.v).abs_upper()
                    assert float(off) <= b, (op, case, x, v, b)
                    # What underflow loses is made larger by later factors in balls alone.
                    if budget_of(x) > 0 and not x.arithmetic.is_small(x.v):
                        ratios.append(float(b / budget_of(x)))
                assert not ratios or float(np.median(ratios)) > 1 / 2


def test_integers_are_exact_where_no_step_rounds() -> None:
    x = np.random.default_rng(0).integers(-3, 4, (5, 1000)).astype(float)
    (found,) = allowed(Call("sum", [x], {"axes": (1,)}), PLAIN, settled=True)
    assert isinstance(found, Allowed)
    assert not found.b.any()
    assert np.array_equal(found.v, x.sum(1))
    # 2^24 + 1 is no number of the format: whoever adds in some order may round.
    (wide,) = allowed(Call("sum", [x + 2.0**22], {"axes": (1,)}), PLAIN, settled=True)
    assert isinstance(wide, Allowed)
    assert wide.b.all()


def test_factors_of_a_product_may_be_rounded_where_the_contract_says_so() -> None:
    x, y = np.full((1, 8), 4095.0), np.ones((8, 1))
    call = Call("matmul", [x, y], {})
    tensor_cores = replace(PLAIN, dot_inputs=TF32)
    for contract, exact in ((PLAIN, True), (tensor_cores, False)):
        (found,) = allowed(call, contract, settled=True)
        assert isinstance(found, Allowed)
        assert bool(found.b[0, 0] == 0) is exact


def test_an_open_question_takes_the_hull_of_both_answers() -> None:
    near, far = Many(np.array([0.0, 5.0]), np.array([1.0, 1.0])), Many(np.zeros(2))
    with working(Widths(PLAIN), 1):
        chosen = scalar.select(scalar.less(near, far), Many(np.ones(2)), Many(np.full(2, 3.0)))
    assert chosen.v[0] - chosen.b[0] <= 1
    assert chosen.v[0] + chosen.b[0] >= 3
    assert (chosen.v[1], chosen.b[1]) == (3.0, 0.0)


def test_programs_that_give_one_infinity_allow_it_and_nothing_else() -> None:
    """A bound of nan would allow anything."""
    page = Allowed(np.array([np.inf, 1.0, -np.inf]), np.array([0.0, 0.25, 0.0]), "fp32")
    form = replace(page, v=np.array([np.inf, 1.5, np.inf]))
    with np.errstate(all="raise"):
        assert arrays._hull([page, page]).b.tolist() == [0.0, 0.25, 0.0]
        assert arrays._hull([page, form]).b.tolist() == [0.0, 0.75, np.inf]
