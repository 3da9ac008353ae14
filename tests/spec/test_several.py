"""Ops of several results: one tensor in the record, taken apart by their types."""

from __future__ import annotations

from typing import Any

import pytest

from spec.composite import composite
from spec.dual import Dual
from spec.linked import GraphSession
from spec.op import Misstated, Op, Rejected, Type
from spec.ops import OPS
from spec.session import Session
from spec.several import lone, several, unpacked, written
from spec.tensor import tensor, zip_map


def rows_and_sums(x: Type, *, factor: int = 2) -> dict[str, Type]:
    """Say what the results are: rows, and a number for each row."""
    if len(x.shape) != 2:
        raise Rejected(f"rows C1: x is a matrix; got {x}")
    return {"rows": x, "sums": Type(x.shape[:1])}


def program(ops: Any, x: Any, *, factor: int = 2) -> Any:
    """Multiply the rows by a number, and add each of them up."""
    return ops.mul(x, ops.constant(factor, x.shape, like=x)), ops.sum(x, axes=(1,))


OP = several("rows", rows_and_sums, program, (OPS["mul"], OPS["sum"]))

X = tensor([[1, 2, 3], [4, 5, 6]])


def test_results_are_joined_and_taken_apart() -> None:
    assert OP.results is not None
    joined = OP(X, factor=3)
    assert joined == tensor([3, 6, 9, 12, 15, 18, 6, 15])
    found = unpacked(joined, OP.results(Type((2, 3))))
    assert found == {"rows": tensor([[3, 6, 9], [12, 15, 18]]), "sums": tensor([6, 15])}
    assert OP.check(X) == Type((8,)) and OP.inputs == ("x",) and OP.attributes == {"factor": 2}
    assert list(OP.types_of_results(Type((2, 3)))) == ["rows", "sums"]
    assert list(OPS["exp"].types_of_results(Type((2, 3)))) == ["result"]


def test_derivatives_are_those_of_all_results() -> None:
    cotangent = tensor([1, 0, 0, 0, 0, 1, 10, 100])
    assert OP.vjp((X,), cotangent) == (tensor([[12, 10, 10], [100, 100, 102]]),)
    tangent = tensor([[1, 0, 0], [0, 1, 1]])
    ahead = OP.jvp((X,), (tangent,))
    assert ahead == tensor([2, 0, 0, 0, 2, 2, 1, 2])
    carried = OP.value(zip_map(Dual, X, tangent))
    assert carried.map(lambda a: a.tangent) == ahead


@pytest.mark.parametrize("kind", [Session, GraphSession])
def test_a_session_returns_a_tuple(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, OP.name, OP)
    s = kind()
    x = s.input(X, requires_grad=True)
    rows, sums = s.apply("rows", (x,), {"factor": 3})
    assert s.value(rows) == tensor([[3, 6, 9], [12, 15, 18]]) and s.value(sums) == tensor([6, 15])
    grads = s.backward(s.sum(s.mul(sums, sums)))
    assert s.grad(grads, x) == tensor([[12] * 3, [30] * 3]), "the rows were not used"
    grads = s.backward(s.add(s.sum(rows), s.sum(sums)))
    assert s.grad(grads, x) == tensor([[4] * 3, [4] * 3])


def test_one_result_stands_alone() -> None:
    sums = lone(OP, 1)
    assert sums(X) == tensor([6, 15]) and lone(OP, 1) is sums
    assert sums.vjp((X,), tensor([1, 2])) == (tensor([[1, 1, 1], [2, 2, 2]]),)
    assert written(OP) is program


def test_a_broken_constraint_is_refused_as_ever() -> None:
    with pytest.raises(Rejected, match="rows C1: x is a matrix"):
        OP(tensor([1]))
    with pytest.raises(Rejected, match="rows: no attribute 'factors'"):
        OP(X, factors=2)


def same(x: Type) -> dict[str, Type]:
    """Say that there are two results of one type."""
    return {"a": x, "b": x}


def twice(ops: Any, x: Any) -> Any:
    """Return a tensor twice."""
    return x, x


def made(types: Any, program: Any) -> Op:
    """Make a page of two results."""
    return several("two", types, program, (OPS["exp"],))


WRONG = {
    "a type": (made(lambda x: x, twice), "two: the type rule returns the types of the results by"),
    "nothing": (made(lambda x: {}, twice), "by name, .*; got an empty mapping"),
    "positions": (
        made(lambda x: {"a": x, "at": Type(x.shape, index=True)}, twice),
        r"'at' is index\[2,3\]. Write two pages: one of the numbers, and one of the positions",
    ),
    "one tensor": (made(same, lambda ops, x: x), "the program returns a tuple of the results, .*"),
    "no plain composite": (
        composite("two", lambda x: x, twice, (OPS["exp"],)),
        "two: the program returns one result of its steps; got tuple; an op of several results is",
    ),
    "no plain types": (
        composite("two", same, lambda ops, x: ops.exp(x), (OPS["exp"],)),
        "two: the type rule returns one Type; got dict; an op of several results is made by spec",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_written_wrong_says_what_to_write(what: str) -> None:
    op, says = WRONG[what]
    with pytest.raises(Misstated, match=says):
        op(X)


def test_a_step_may_not_be_called_like_the_one_that_joins() -> None:
    own = composite("join", lambda x: x, lambda ops, x: ops.exp(x), (OPS["exp"],))
    with pytest.raises(Misstated, match="a step of its own is called 'join', as what joins"):
        several("two", same, twice, (own,))
