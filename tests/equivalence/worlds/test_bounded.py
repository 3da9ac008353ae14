"""Bounded scalars hold what their contract's arithmetic may give, and little more."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.budgets.judge import budget_of, fraction_of
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, Fork, constant, exact, stored
from equivalence.worlds.contract import BF16, FP16, FP32, FP64, TF32, Contract, FunctionError, ulps
from spec import scalar
from spec.dual import Dual
from spec.ops import OPS, tanh
from spec.rounded import BINARY32
from spec.tensor import Tensor, tabulate
from tests.equivalence.worlds.singles import Machine, Single, singles

FUNCTIONS = {
    "exp": FunctionError(4.0, 0.0, 1.25),
    "log": ulps(2.0, "test"),
    scalar.tanh.name: ulps(3.0, ""),
    "cos": ulps(2.0, ""),
    "sin": ulps(3.0, ""),
}
IEEE = Contract("ieee", FP32, FP32, functions=FUNCTIONS)

CONTRACTS = {
    "ieee": IEEE,
    "reciprocal": replace(IEEE, division="reciprocal"),
    "flushing": replace(IEEE, flush="outputs"),
    "saved logarithm": replace(IEEE, functions={"exp": FunctionError(4.0, 1e-9, 2.0, False)}),
    "bf16 store": replace(IEEE, store=BF16),
    "truncating store": replace(IEEE, store=BF16, store_rounding="toward_zero"),
    "faithful steps": replace(IEEE, store=BF16, store_rounding="faithful", steps="storage"),
    "tf32 factors": replace(IEEE, dot_inputs=TF32, dot_rounding="toward_zero"),
    "bf16 factors": replace(IEEE, dot_inputs=BF16),
    "bf16 steps": replace(IEEE, store=BF16, steps="storage"),
    "bf16 sums": replace(IEEE, store=BF16, steps="storage", accumulate=BF16),
}

SHAPES: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = {
    "sum": (((2, 7),), {"axes": (1,)}),
    "matmul": (((2, 6), (6, 2)), {}),
    "linear": (((2, 4), (3, 4), (3,)), {}),
    "softmax": (((2, 5),), {}),
    "log_softmax": (((2, 5),), {}),
    "layer_norm": (((2, 6), (6,), (6,)), {}),
    "cross_entropy": (((3, 4), (3,)), {}),
    "max": (((2, 4),), {"axes": (1,)}),
    "div": (((5,), (5,)), {}),
    tanh.op.name: (((5,),), {}),
    "square": (((5,),), {}),
    "relu": (((5,),), {}),
    "mul": (((5,), (5,)), {}),
    "sub": (((5,), (5,)), {}),
}
"""Small calls of the pages that compute something."""


def drawn(
    rng: random.Random, shape: tuple[int, ...], scale: int, contract: Contract = IEEE
) -> Tensor[Any, Any]:
    """Draw float32 numbers of 7 to 24 bits, of one or of mixed magnitudes.

    Where every step may be stored, they have no more bits than what is stored: so do inputs.
    """

    def number(*_: int) -> float:
        spread = rng.randint(-6, 6) if scale == 3 else 0
        bits = (20, 7, 24, 24)[scale]
        if contract.steps == "storage":
            bits = min(bits, contract.store.precision)
        significand = rng.randint(-(2**bits), 2**bits)
        return math.ldexp(significand, spread + (0, -2, -12, 3)[scale] - bits)

    return tabulate(shape, number)


def inputs_of(
    name: str, rng: random.Random, scale: int, contract: Contract = IEEE
) -> list[Tensor[Any, Any]]:
    """Draw the inputs of a small call."""
    shapes, _ = SHAPES[name]
    tensors = [drawn(rng, shape, scale, contract) for shape in shapes]
    if name == "cross_entropy":
        tensors[1] = tabulate(shapes[1], lambda i: rng.choice((0, 1, 2, 3, -100)))
    if name == "div":
        tensors[1] = tensors[1].map(lambda x: x or 0.75)
    return tensors


def bounded(values: Tensor[Any, Any], arithmetic: Arithmetic) -> Tensor[Any, Any]:
    """Lift floats exactly; ints are indices and stay."""
    return values.map(lambda x: x if isinstance(x, int) else exact(arithmetic, x)[0])


def outside(got: Tensor[Any, Any], allowed: Tensor[Any, Any], machine: Machine) -> list[str]:
    """Say which stored results of the machine the budgets do not hold."""
    wrong = []
    for one, many in zip(got.data, allowed.data, strict=True):
        if not isinstance(one, Single):
            continue
        number, final = machine.store(one.number), stored(many)
        value = flint.arb(flint.fmpq(number.numerator, number.denominator))
        if not (final.unconstrained or final.strict is None or final.strict.contains(value)):
            wrong.append(f"{float(number)!r} is not in {final}")
    return wrong


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), scale=st.integers(0, 3))
def test_whatever_the_arithmetic_gives_is_allowed(
    name: str, contract: Contract, seed: int, scale: int
) -> None:
    rng = random.Random(f"{name}{seed}")
    page, attributes = OPS[name], SHAPES[name][1]
    values = inputs_of(name, rng, scale, contract)
    arithmetic, machine = Arithmetic(contract), Machine(contract, rng)
    many = [bounded(x, arithmetic) for x in values]
    one = [singles(x, machine) for x in values]
    result = page.value(*many, **attributes)
    assert not outside(page.value(*one, **attributes), result, machine)
    cotangent = drawn(rng, result.shape, scale, contract)
    allowed = page.vjp(tuple(many), bounded(cotangent, arithmetic), **attributes)
    got = page.vjp(tuple(one), singles(cotangent, machine), **attributes)
    for g, a in zip(got, allowed, strict=True):
        if a is not None:
            assert not outside(g, a, machine)


STEPS = (
    *("add", "sub", "mul", "divide", "exp", "square"),
    scalar.tanh.name,
    *("maximum", "relu", "sqrt", "sum", "cos", "sin"),
)


def run_steps(steps: list[tuple[str, int, int]], start: list[Any]) -> list[Any]:
    """Run a random program; each step names two earlier results."""
    known = list(start)
    for step, i, j in steps:
        x, y = known[i % len(known)], known[j % len(known)]
        known.append(_step(step, x, y, known))
    return known[len(start) :]


def _step(step: str, x: Any, y: Any, known: list[Any]) -> Any:
    if step == "add":
        return x + y
    if step == "sub":
        return x - y
    if step == "mul":
        return x * y
    if step == "divide":
        return scalar.divide(x, scalar.square(y) + Fraction(1, 3))
    if step == "exp":
        return scalar.exp(scalar.tanh(x))
    if step in ("cos", "sin"):
        turn = scalar.pi_like(x) * scalar.tanh(x)
        return scalar.cos(turn) if step == "cos" else scalar.sin(turn)
    if step == "maximum":
        return scalar.maximum(x, y)
    if step == "relu":
        return scalar.select(scalar.less(0, x), x, scalar.zero_like(x))
    if step == "sqrt":
        return scalar.sqrt(scalar.absolute(x) + 1)
    if step == "sum":
        return scalar.sum_over(len(known), lambda k: known[k])
    return getattr(scalar, step)(x)


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), max_size=7),
    st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=3),
    st.sampled_from(("ieee", "flushing", "reciprocal", "bf16 steps")),
    st.integers(0, 10**6),
)
def test_random_programs_stay_inside(
    steps: list[tuple[str, int, int]], start: list[float], kind: str, seed: int
) -> None:
    contract = CONTRACTS[kind]
    machine = Machine(contract, random.Random(seed))
    many = run_steps(steps, exact(Arithmetic(contract), *start))
    one = run_steps(steps, [Single(Fraction(x), machine) for x in start])
    assert not outside(Tensor((len(one),), one), Tensor((len(many),), many), machine)


def scalars(*values: float, contract: Contract = IEEE) -> list[Bounded]:
    """Lift floats under a contract."""
    return exact(Arithmetic(contract), *values)


@pytest.mark.parametrize(
    ("terms", "is_exact"),
    [
        ([1.0, 2.0, -3.0], True),
        ([2.0**24, -1.0], True),
        ([2.0**24, 1.0], False),
        ([2.0**23, 2.0**23], True),
        ([2.0**24, 1.0, -1.0], False),
        ([13421773 * 2.0**-27, 0.0, 0.0], True),
        ([2.0**-149, 2.0**-140, 2.0**-149], True),
        ([1.0, 2.0**-24], False),
        ([1.0, 2.0**-23, 2.0**-22], True),
        ([1.0, 1.0, 2.0**-23], False),
    ],
)
def test_sums_of_a_grid_are_exact(terms: list[float], is_exact: bool) -> None:
    assert scalar.sum_terms(scalars(*terms)).exact == is_exact


def test_exact_steps_add_nothing() -> None:
    three, five, half = scalars(3.0, 5.0, 0.5)
    zero = scalar.zero_like(three)
    tenth = scalar.divide(three, scalar.lift(three, Fraction(30)))
    assert (three * five).exact and ((five + half) * 4).exact
    assert scalar.divide(five, half).exact and not scalar.divide(five, three).exact
    assert not tenth.exact
    assert tenth + zero is tenth and zero + tenth is tenth and (zero - tenth).depth == tenth.depth
    assert tenth * 1 is tenth and scalar.divide(tenth, 1) is tenth
    assert (tenth * 0).exact and budget_of(tenth * 4) < budget_of(tenth) * 4.001
    assert scalar.maximum(three, five) is five
    assert scalar.exp(zero).exact and scalar.log(scalar.exp(zero)).exact
    assert scalar.sqrt(scalars(9.0)[0]).exact and not scalar.sqrt(five).exact
    assert scalar.is_zero(three - three) and scalar.is_zero(tenth - tenth)
    assert not scalar.is_zero(tenth - scalar.divide(three, scalar.lift(three, Fraction(30))))
    assert scalar.cos(zero).exact and scalar.sin(zero).exact and not scalar.cos(three).exact


def test_pi_is_a_constant_that_is_rounded_once() -> None:
    (one,) = scalars(1.0)
    pi, third = scalar.pi_like(one), scalar.lift(one, Fraction(1, 3))
    assert not pi.exact and fraction_of(float(np.float32(math.pi)), pi) <= 1
    assert budget_of(pi) < 4 * 2.0**-24 and budget_of(pi) > budget_of(third)


def test_small_integers_are_judged_exactly() -> None:
    rng = random.Random(1)
    arithmetic = Arithmetic(IEEE)
    x = bounded(tabulate((3, 40), lambda *_: float(rng.randint(-9, 9))), arithmetic)
    y = bounded(tabulate((40, 2), lambda *_: float(rng.randint(-9, 9))), arithmetic)
    assert all(entry.exact for entry in OPS["matmul"].value(x, y).data)
    bias = bounded(tabulate((3,), lambda k: k + 1.0), arithmetic)
    assert all(entry.exact for entry in OPS["linear"].value(x, x, bias).data)
    single = bounded(tabulate((2, 1), lambda i, _: 5.5 + i), arithmetic)
    assert [p.exact and p.v == 1 for p in OPS["softmax"].value(single).data] == [True, True]
    (dx,) = OPS["softmax"].vjp((single,), single)
    assert all(map(scalar.is_zero, dx.data))


def test_a_square_at_zero_has_a_budget() -> None:
    one, three = scalars(1.0, 3.0)
    rest = scalar.divide(one, three) * 3 - 1
    squared = scalar.square(rest)
    assert rest.v.contains(0) and float(budget_of(rest)) > 0
    error = float(budget_of(rest))
    assert error**2 <= float(budget_of(squared)) <= 1.001 * error**2


@pytest.mark.parametrize("step", ["log", "sqrt", "divide", "overflow"])
def test_what_is_undefined_leaves_the_rest_unconstrained(step: str) -> None:
    one, zero = scalars(1.0, 0.0)
    undecided = scalar.divide(one, scalars(3.0)[0]) * 3 - 1
    lost = {
        "log": lambda: scalar.log(undecided),
        "sqrt": lambda: scalar.sqrt(undecided),
        "divide": lambda: scalar.divide(one, undecided),
        "overflow": lambda: scalar.exp(one * 89),
    }[step]()
    assert lost.unconstrained
    for depending in (lost + 1, lost * zero, scalar.tanh(lost), scalar.divide(one, lost)):
        assert depending.unconstrained
    assert scalar.maximum(lost, one).unconstrained
    assert scalar.select(scalar.less(lost, 0), 0, 1).unconstrained
    assert scalar.sum_terms([one, lost]).unconstrained and stored(lost).unconstrained


@pytest.mark.parametrize("format", [BF16, FP16, FP32, FP64], ids=lambda format: format.name)
def test_the_largest_number_is_in_range_and_what_is_beyond_it_is_open(format: Any) -> None:
    ieee = Arithmetic(replace(IEEE, compute=format, store=format))
    for largest in (flint.arb(format.max_finite), flint.arb(-format.max_finite)):
        assert ieee.ranged(largest) == largest
        for part in (2.0**-20, 2.0**-40, 2.0**-53):
            assert not ieee.ranged(largest * (1 + flint.arb(part))).is_finite()


def test_an_open_question_gives_the_hull() -> None:
    one, three = scalars(1.0, 3.0)
    kink = scalar.divide(one, three) * 3 - 1
    truth = scalar.less(0, kink)
    assert isinstance(truth, Fork)
    chosen = scalar.select(truth, 0, 1)
    assert chosen.w.contains(0) and chosen.w.contains(1) and not chosen.unconstrained
    with pytest.raises(TypeError, match="select"):
        bool(truth)


def test_underflow_is_part_of_the_arithmetic() -> None:
    (x,) = scalars(-150.0)
    tiny = scalar.exp(x)
    assert tiny.w.contains(0) and float(tiny.v) > 0
    flushed = (
        scalars(2.0**-130, contract=replace(IEEE, flush="inputs_outputs"))[0] * (2.0).__int__()
    )
    assert flushed.w.contains(0) and not flushed.exact


def test_the_largest_of_numbers_that_may_be_read_as_zero_is_open() -> None:
    low, high, one = scalars(
        2.0**-130, 2.0**-129, 1.0, contract=replace(IEEE, flush="inputs_outputs")
    )
    largest = scalar.maximum(low, high)
    assert isinstance(scalar.equal(low, largest), Fork)
    assert isinstance(scalar.equal(high, largest), Fork)
    assert scalar.equal(one, scalar.maximum(low, one)) is True
    kept = scalars(2.0**-130, 2.0**-129)
    assert scalar.maximum(*kept) is kept[1]


@given(st.floats(0.5, 2, width=32), st.floats(0.5, 2, width=32))
def test_two_units_off_is_outside(x: float, y: float) -> None:
    product = stored(scalars(x)[0] * scalars(y)[0])
    near = float(BINARY32.round(Fraction(x) * Fraction(y)))
    unit = 2.0 ** (math.frexp(near)[1] - 24)
    inside = fraction_of(near, product)
    assert inside is not None and inside <= 1
    for wrong in (near - 2 * unit, near + 2 * unit):
        fraction = fraction_of(wrong, product)
        assert fraction is not None and fraction > 1


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "matmul", "log_softmax"])
def test_a_sloppier_arithmetic_is_outside(name: str) -> None:
    """Results of bf16 accumulation do not pass for float32 ones."""
    rng = random.Random(7)
    values = inputs_of(name, rng, 0)
    arithmetic = Arithmetic(IEEE)
    machine = Machine(replace(CONTRACTS["bf16 sums"], store=FP32, steps="compute"), rng)
    allowed = OPS[name].value(*(bounded(x, arithmetic) for x in values))
    got = OPS[name].value(*(singles(x, machine) for x in values))
    assert outside(got, allowed, machine)


def test_a_float_is_no_constant() -> None:
    x = scalars(1.0 / 3.0)[0]
    with pytest.raises(TypeError, match="exact number"):
        x + 0.5


@pytest.mark.parametrize("format", [FP32, FP64], ids=lambda f: f.name)
def test_a_product_of_one_term_may_be_rounded_in_every_format(format: Any) -> None:
    arithmetic = Arithmetic(Contract("ieee", format, format))
    x, y = exact(arithmetic, 1 + 2 * format.unit, 1 + 2 * format.unit)
    product = scalar.dot_terms([x], [y])
    assert format.unit < float(budget_of(product)) < 2 * format.unit


def test_numbers_meet_the_duals_that_they_are_parts_of() -> None:
    """Second derivatives at an open question: value and tangent are chosen together."""
    arithmetic = Arithmetic(IEEE)
    one, ten = exact(arithmetic, 1.0, 10.0)
    moving, still = Dual(ten, one), constant(arithmetic, 0)
    for found, value in ((one + moving, 11), (one - moving, -9), (one * moving, 10)):
        assert isinstance(found, Dual)
        assert found.value.v == value
    tenth = scalar.divide(one, ten)
    asked = scalar.less(tenth * ten, one)
    chosen = scalar.select(asked, moving, still)
    assert isinstance(chosen, Dual)
    assert chosen.value.w.contains(0) and chosen.value.w.contains(10)
    assert chosen.tangent.w.contains(0) and chosen.tangent.w.contains(1)
