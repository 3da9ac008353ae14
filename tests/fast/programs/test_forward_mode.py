"""Hessian-vector products against the reference: dual numbers through the VJP rules of the pages.

What `fast` computes in fp64 is judged by the budget of the reference's own arithmetic in fp32:
torch forms second derivatives by formulas of its own, with a few roundings more or less, and each
is 2^29 times smaller than those that the budget allows. Where the reference is exact, so is the
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from equivalence.budgets.judge import fraction_of
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.signatures import Draw
from equivalence.cases.probes import NUMBERS, Call, calls, filled
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant, exact
from equivalence.worlds.contract import FP32, Contract
from fast.autodiff import hvp
from fast.ops import OPS as FAST
from fast.programs import forward
from spec import autodiff
from spec.op import AnyTensor
from spec.ops import OPS
from spec.tensor import Tensor
from tests.turns import in_turns

CPU = {"provider": "aten", "device": "cpu", "precision": "fp64"}
DOUBLES = torch.float64
OF_NUMBERS = sorted(name for name, op in OPS.items() if op.moves and not op.buffers)
"""The ops that are functions of leaves: what keeps state in buffers is none."""


def program(call: Call) -> Any:
    """A scalar that is curved in the results of the op, and weighs their entries differently."""

    def f(ops: Any, weights: Any, *inputs: Any) -> Any:
        z = ops.apply(call.op.name, inputs, call.attributes)
        if call.op.results is not None:
            z = ops.concat(*(ops.reshape(each, shape=(prod(each.shape),)) for each in z), axis=0)
        return ops.sum(ops.mul(ops.mul(z, z), ops.add(z, weights)))

    return f


def judged(
    f: Any,
    inputs: Sequence[AnyTensor],
    vectors: Sequence[AnyTensor | None],
    dtypes: Sequence[torch.dtype],
) -> int:
    """Judge a Hessian times a vector, None at indices and masks; count what had a budget."""
    data = [_torch(x, dtype) for x, dtype in zip(inputs, dtypes, strict=True)]
    along = [None if t is None else _torch(t, DOUBLES) for t in vectors]
    got = [g.flatten().tolist() for g in hvp(f, data, along, **CPU) if g is not None]
    arithmetic = Arithmetic(Contract("fp32", FP32, FP32))

    def lifted(x: AnyTensor) -> AnyTensor:
        return Tensor(tuple(x.shape), exact(arithmetic, *map(float, x.data)))

    exactly = [x if t is None else lifted(x) for x, t in zip(inputs, vectors, strict=True)]
    found = autodiff.hvp(f, exactly, [None if t is None else lifted(t) for t in vectors])
    pairs = zip(found, vectors, strict=True)
    expected = [w.data for w, t in pairs if w is not None and t is not None]
    count = 0
    for numbers, wanted in zip(got, expected, strict=True):
        for number, x in zip(numbers, wanted, strict=True):
            allowed = x if isinstance(x, Bounded) else constant(arithmetic, x)
            fraction = fraction_of(number, allowed)
            assert fraction is None or fraction <= 1, f"{number} for {allowed}"
            count += fraction is not None
    return count


def _torch(x: AnyTensor, dtype: torch.dtype) -> torch.Tensor:
    """Turn a tensor of fractions, indices or truths into torch's."""
    return torch.tensor([float(n) for n in x.data]).to(dtype).reshape(x.shape)


Problem = tuple[Any, list[AnyTensor], list[AnyTensor | None], list[torch.dtype]]


@st.composite
def problems(draw: Draw, name: str) -> Problem:
    """Draw a program of one op, its inputs with weights in front, and a vector; all are doubles."""
    call = draw(calls(OPS[name]))
    attributes = {
        # Sessions count the calls of a random op themselves, both from 0.
        k: float(v) if isinstance(v, Fraction) else v
        for k, v in call.attributes.items()
        if k != "counter"
    }
    if call.op.converts:
        attributes["to"] = CPU["precision"]  # what is added to it has the session's dtype
    op = call.op
    dtypes = [
        torch.bool if k in op.mask_inputs else torch.int64 if k in op.index_inputs else DOUBLES
        for k in range(len(call.inputs))
    ]
    inputs = [draw(filled(tuple(call.type().shape), NUMBERS)), *call.inputs]
    dtypes = [DOUBLES, *dtypes]
    vectors = [
        draw(filled(tuple(x.shape), NUMBERS)) if dtype is DOUBLES else None
        for x, dtype in zip(inputs, dtypes, strict=True)
    ]
    return program(Call(op, call.inputs, attributes)), inputs, vectors, dtypes


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        # A cotangent that is zero has a tangent that is not: a rule that looks at the value of the
        # cotangent alone gives 0.
        (lambda ops, x: ops.square(ops.sub(ops.square(x), ops.const(1.0))), 1.0, 8.0),
        (lambda ops, x: ops.square(ops.log(x)), 1.0, 2.0),
        (lambda ops, x: ops.square(ops.sub(ops.sqrt(x), ops.const(2.0))), 4.0, 0.125),
        (lambda ops, x: ops.square(ops.sub(ops.div(ops.const(2.0), x), ops.const(1.0))), 2.0, 0.5),
        (lambda ops, x: x * ops.square(ops.detach(x)), 3.0, 0.0),
        # x reaches its square along three paths, and one of them has no tangent.
        (lambda ops, x: x * x + x * ops.const(3.0) + x * x * x, 2.0, 14.0),
    ],
)
def test_second_derivatives_by_hand(precision: str, f: Any, x: float, expected: float) -> None:
    (got,) = hvp(f, [x], [1.0], **{**CPU, "precision": precision})
    assert got.item() == expected
    (got,) = hvp(f, [x], [-2.0], **{**CPU, "precision": precision})
    assert got.item() == -2 * expected


def test_a_tangent_may_be_laid_out_unlike_its_value() -> None:
    # All entries of the value share one place in memory; of the tangent, each has its own.
    value, tangent = torch.tensor(2.0).expand(3), torch.tensor([1.0, 2.0, 3.0])
    with forward.level():
        parts = forward.split(forward.dual(value, tangent))
        assert [part.tolist() for part in parts if part is not None] == [[2.0] * 3, [1, 2, 3]]


def test_a_hessian_is_symmetric() -> None:
    def f(ops: Any, x: Any, y: Any) -> Any:
        return ops.sum(ops.square(ops.mul(x, x) + ops.matmul(y, x)))

    x, y = [[1.0, 2.0], [0.0, -1.0]], [[3.0, -2.0], [1.0, 1.0]]
    one, two = [[1.0, 0.0], [2.0, 3.0]], [[0.0, -1.0], [1.0, 2.0]]
    there = hvp(f, [x, y], [one, None], **CPU)
    back = hvp(f, [x, y], [None, two], **CPU)
    assert (there[1] * torch.tensor(two)).sum() == (back[0] * torch.tensor(one)).sum() != 0


def test_torch_carries_tangents_through_every_kink_as_the_page_does() -> None:
    points = [-3.0, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0]
    ones = [1.0] * len(points)
    arithmetic = Arithmetic(Contract("fp32", FP32, FP32))
    x, along = (Tensor((len(points),), exact(arithmetic, *row)) for row in (points, ones))
    smooth = ("real", "moderate")
    unary = [
        n
        for n in OF_NUMBERS
        if OPS[n].inputs == ("x",)
        and OPS[n].results is None
        and set(OPS[n].tried) == set(OPS[n].attributes)
    ]
    names = [n for n in unary if domain(OPS[n], 0) in smooth and not OPS[n].stops_gradients]
    assert {"abs", "clamp", "hardtanh", "hardswish", "relu", "softplus"} <= set(names)
    for name in names:
        with forward.level():
            primal = forward.dual(torch.tensor(points).to(DOUBLES), torch.tensor(ones).to(DOUBLES))
            _, tangent = forward.split(FAST[name].aten_value(primal, **usual(OPS[name]))[0])
        got = ones if tangent is None else tangent.tolist()
        expected = OPS[name].jvp((x,), (along,), **usual(OPS[name]))
        for number, allowed in zip(got, expected.data, strict=True):
            fraction = fraction_of(number, allowed)
            assert fraction is None or fraction <= 1, f"{name}: {number} for {allowed}"


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize("name", in_turns(OF_NUMBERS, 4))
def test_every_op_agrees_with_dual_numbers_through_its_page(name: str) -> None:
    count = 0

    @settings(max_examples=30, phases=[Phase.generate])
    @given(problems(name))
    def agree(problem: Any) -> None:
        nonlocal count
        count += judged(*problem)

    agree()
    assert count > 0


def test_a_whole_program_agrees_with_dual_numbers() -> None:
    def f(ops: Any, w: Any, b: Any, gamma: Any, beta: Any, x: Any, labels: Any) -> Any:
        h = ops.layer_norm(ops.tanh(ops.linear(x, w, b)), gamma, beta)
        mixed = ops.matmul(ops.softmax(ops.matmul(h, ops.permute(h, axes=(1, 0)))), h)
        return ops.cross_entropy(h + ops.relu(mixed), labels, label_smoothing=0.25)

    shapes = [(3, 2), (3,), (3,), (3,), (4, 2)]
    draw = torch.Generator().manual_seed(0)

    def numbers(shape: tuple[int, ...]) -> AnyTensor:
        eighths = torch.randint(-8, 9, shape, generator=draw).flatten().tolist()
        return Tensor(shape, [Fraction(n, 8) for n in eighths])

    inputs = [*map(numbers, shapes), Tensor((4,), [0, 2, 1, 2])]
    vectors = [*map(numbers, shapes), None]
    assert judged(f, inputs, vectors, [DOUBLES] * 5 + [torch.int64]) == 23
