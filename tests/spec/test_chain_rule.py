"""The tape composes derivatives rightly: on random programs, at fan-outs, and twice over."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.cases.probes import calls, like
from equivalence.sessions.drawn import PROGRAMS
from equivalence.sessions.texts import SQUARE, Step, run
from equivalence.trials.laws import inner, parts
from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.dual import Dual
from spec.op import AnyTensor, plus
from spec.ops import OPS
from spec.ref import Interpreter, Ref
from spec.tape import Tape
from spec.tensor import Tensor, tensor, zip_map
from tests.spec.programs import SQUARES, AtOnce


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque while this module runs."""
    with opaque():
        yield


def composes(
    tape: Tape,
    program: Sequence[Step],
    leaves: Sequence[AnyTensor],
    directions: Sequence[AnyTensor],
    seed: AnyTensor,
) -> bool:
    """Whether the tape pulls the seed back to the transpose of what duals push forward."""
    ops = Interpreter(tape)
    ops.like = Fraction(0)
    ids = [tape.leaf(x) for x in leaves]
    out = run(program, ops, [Ref(ops, id) for id in ids]).id
    gradients = tape.backward_dense(out, seed)
    duals = [zip_map(Dual, x, t) for x, t in zip(leaves, directions, strict=True)]
    value, tangent = parts(run(program, AtOnce(), duals))
    assert tape.value(out) == value
    pulled = sum(inner(gradients[id], t) for id, t in zip(ids, directions, strict=True))
    return bool(pulled == inner(seed, tangent))


@pytest.mark.holds("Gradients of every entry in the reference")
@settings(max_examples=120)
@given(
    program=PROGRAMS,
    leaves=st.tuples(SQUARES, SQUARES),
    directions=st.tuples(SQUARES, SQUARES),
    seed=SQUARES,
)
def test_the_tape_is_the_transpose_of_the_dual_run(program, leaves, directions, seed) -> None:
    assert composes(Tape(), program, leaves, directions, seed)


class Forgetful(Tape):
    """A tape with a planted mistake: the last contribution replaces the ones before it."""

    def _accumulate(self, found: Any, id: int, parent: int, contribution: AnyTensor) -> None:
        found.pop(parent, None)
        super()._accumulate(found, id, parent, contribution)


def test_a_tape_that_forgets_contributions_is_caught() -> None:
    x = Tensor(SQUARE, [Fraction(k) for k in range(4)])
    for program in ([("mul", 0, 0)], [("square", 0, 0), ("relu", 0, 0), ("add", 0, 1)]):
        assert composes(Tape(), program, [x], [x], x)
        assert not composes(Forgetful(), program, [x], [x], x)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "matmul"])
@given(data=st.data())
@settings(max_examples=20)
def test_at_a_fan_out_cotangents_add(name: str, data: st.DataObject) -> None:
    x = data.draw(SQUARES)
    cotangent = data.draw(like(x))
    tape = Tape()
    leaf = tape.leaf(x)
    out = tape.apply(OPS[name], leaf, leaf)
    left, right = OPS[name].vjp((x, x), cotangent)
    assert tape.backward(out, cotangent) == {leaf: plus(left, right)}


Program = Callable[[Tape, int], int]


def _plain(tape: Tape, x: int) -> int:
    """(x^2 - 1)^2."""
    one = tape.const(tape.value(x).map(lambda _: 1))
    return tape.apply(OPS["square"], tape.apply(OPS["sub"], tape.apply(OPS["square"], x), one))


def _through_a_quotient(tape: Tape, x: int) -> int:
    """((x^2 - 1) / 1)^2: at x = 1 the quotient's cotangent is 0, but it does not stay 0."""
    one = tape.const(tape.value(x).map(lambda _: 1))
    inside = tape.apply(OPS["sub"], tape.apply(OPS["square"], x), one)
    return tape.apply(OPS["square"], tape.apply(OPS["div"], inside, one))


def second_derivative(program: Program) -> Any:
    """Differentiate on the tape in the world of duals: forward over reverse, at x = 1."""
    tape = Tape()
    x = tape.leaf(tensor(Dual(Fraction(1), Fraction(1))))
    return tape.backward(program(tape, x))[x][()].tangent


@pytest.mark.parametrize("program", [_plain, _through_a_quotient])
def test_the_second_derivative_at_a_zero_cotangent_is_8(program: Program) -> None:
    assert second_derivative(program) == 8


def test_an_absorbing_rule_that_looks_at_the_value_alone_would_give_0() -> None:
    by_value = scalar.is_zero.replaced(Dual, lambda x, _: scalar.is_zero(x.value))
    try:
        assert second_derivative(_plain) == 8
        assert second_derivative(_through_a_quotient) == 0
    finally:
        scalar.is_zero.replaced(Dual, by_value)


def test_duals_of_duals_carry_second_derivatives() -> None:
    x = Dual(Dual(Fraction(1), Fraction(1)), Dual(Fraction(1), Fraction(0)))
    inside = scalar.square(x) - 1
    assert scalar.square(inside).tangent.tangent == 8


@given(call=calls(OPS["max"]), data=st.data())
@settings(max_examples=20)
def test_the_gradient_of_unreached_nodes_is_zero(call, data: st.DataObject) -> None:
    tape = Tape()
    x, far = tape.leaf(call.inputs[0]), tape.leaf(tensor(Fraction(0)))
    out = tape.apply(call.op, x, **call.attributes)
    aside = tape.apply(OPS["exp"], far)
    gradients = tape.backward_dense(out, data.draw(like(call.value)))
    assert gradients[aside] == gradients[far] == tensor(0)


def test_an_unreached_node_is_never_asked() -> None:
    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError("the node does not reach the loss, and its rule was run")

    tape = Tape()
    zero, one = tape.leaf(tensor(0.0)), tape.const(tensor(1.0))
    pole = tape.apply(dataclasses.replace(OPS["div"], vjp=asked), one, zero)
    loss = tape.apply(OPS["square"], zero)
    tape.apply(dataclasses.replace(OPS["square"], vjp=asked), loss)
    assert tape.value(pole) == Tensor((), (float("inf"),))
    assert tape.backward(loss) == {zero: tensor(0.0)}
    assert tape.backward_dense(loss)[pole] == tensor(0.0)
