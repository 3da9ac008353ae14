"""Derivatives of programs: forward, reverse and twice over, in every world, by every path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.sessions.drawn import PROGRAMS
from equivalence.sessions.texts import written
from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.autodiff import grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp
from spec.dual import Dual
from spec.formats import BINARY32
from spec.linked import GraphSession
from spec.op import Rejected
from spec.rounded import Rounded
from spec.session import Session
from spec.tensor import tensor
from tests.spec.programs import SQUARES

ONE = tensor(Fraction(1))


@pytest.fixture
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque."""
    with opaque():
        yield


def cubes(ops: Any, x: Any, y: Any) -> Any:
    """Entry by entry, x^2 y."""
    return ops.mul(ops.square(x), y)


def total(ops: Any, x: Any, y: Any) -> Any:
    """The sum of x^2 y."""
    return ops.sum(cubes(ops, x, y))


X, Y = tensor([Fraction(2), Fraction(3)]), tensor([Fraction(5), Fraction(7)])


def test_gradients_by_hand() -> None:
    dx, dy = tensor([20, 42]), tensor([4, 9])
    assert grad(total)(X, Y) == dx
    assert grad(total, 1)(X, Y) == grad(total, -1)(X, Y) == dy
    assert grad(total, (1, 0))(X, Y) == (dy, dx)
    assert grad(total, (1,))(X, Y) == (dy,)
    assert value_and_grad(total)(X, Y) == (tensor(83), dx)
    assert value_and_grad(total, (0, 1))(X, Y) == (tensor(83), (dx, dy))


def test_pulls_and_pushes_by_hand() -> None:
    value, pull = vjp(cubes, X, Y)
    assert value == tensor([20, 63])
    assert pull(tensor([1, 10])) == (tensor([20, 420]), tensor([4, 90]))
    assert pull(tensor([0, 1])) == (tensor([0, 42]), tensor([0, 9])), "a pull can be used again"
    assert vjp(total, X, Y)[1]() == (tensor([20, 42]), tensor([4, 9])), "a scalar's seed is 1"
    assert jvp(cubes, [X, Y], [tensor([1, 0]), None]) == (value, tensor([20, 0]))
    assert jvp(cubes, [X, Y], [None, tensor([1, 10])]) == (value, tensor([4, 90]))
    assert jvp(cubes, [X, Y], [None, None]) == (value, tensor([0, 0]))


def test_jacobians_have_the_shape_of_the_value_then_of_the_input() -> None:
    def outer(ops: Any, x: Any, y: Any) -> Any:
        return ops.matmul(ops.reshape(x, shape=(2, 1)), ops.reshape(y, shape=(1, 3)))

    y = tensor([Fraction(5), Fraction(7), Fraction(11)])
    dx, dy = jacrev(outer, (0, 1))(X, y)
    assert (dx.shape, dy.shape) == ((2, 3, 2), (2, 3, 3))
    assert dx.nested() == [[[n, 0] for n in (5, 7, 11)], [[0, n] for n in (5, 7, 11)]]
    assert jacfwd(outer, (0, 1))(X, y) == (dx, dy)
    assert jacfwd(outer, 1)(X, y) == dy
    assert jacrev(total)(X, Y) == jacfwd(total)(X, Y) == grad(total)(X, Y)


@pytest.mark.holds("Higher derivatives, and the functions of programs")
def test_second_derivatives_by_hand() -> None:
    t = tensor([Fraction(1), Fraction(10)])
    assert hvp(total, [X, Y], [t, None]) == (tensor([10, 140]), tensor([4, 60]))
    assert hvp(total, [X, Y], [None, t]) == (tensor([4, 60]), tensor([0, 0]))
    (xx, xy), (yx, yy) = hessian(total, (0, 1))(X, Y)
    assert xx == hessian(total)(X, Y) == tensor([[10, 0], [0, 14]])
    assert xy == yx == tensor([[4, 0], [0, 6]])
    assert yy == tensor([[0, 0], [0, 0]])
    assert hessian(total, 1)(X, Y) == yy
    value, ((first, second), third) = (
        value_and_grad(total)(X, Y)[0],
        (jacfwd(grad(total, (0, 1)))(X, Y), jacfwd(grad(total, 1), 0)(X, Y)),
    )
    assert (value, first, second, third) == (tensor(83), xx, yx, yx)
    assert jacfwd(value_and_grad(total))(X, Y) == (grad(total)(X, Y), xx)


@pytest.mark.parametrize("c", [2.3, 2.5, 3.0, 65.0, 65.5])
def test_a_power_of_0_has_its_second_derivative(c: float) -> None:
    """A root, and the logarithm that a power goes by, have no derivative at 0; the power has."""

    def power(ops: Any, x: Any) -> Any:
        return ops.sum(ops.pow(x, c=c))

    def squared(ops: Any, x: Any) -> Any:
        return ops.sum(ops.square(ops.pow(x, c=c)))

    point, along = [tensor([0.0, 1.0])], [tensor([1.0, 1.0])]
    for program, due in ((power, c * (c - 1)), (squared, 2 * c * (2 * c - 1))):
        (hessian_times_one,) = hvp(program, point, along)
        assert hessian_times_one is not None
        at_0, at_1 = hessian_times_one.data
        assert at_0 == 0.0 and round(at_1, 6) == round(due, 6)


def test_third_derivatives_are_forward_over_forward_over_reverse() -> None:
    def fourth(ops: Any, x: Any) -> Any:
        return ops.square(ops.square(x))

    x = tensor(Fraction(3))
    assert jacfwd(hessian(fourth))(x) == tensor(24 * 3)
    assert jvp(hessian(fourth), [x], [tensor(Fraction(1, 3))]) == (tensor(108), tensor(24))
    assert jacfwd(jacfwd(jacrev(fourth)))(x) == tensor(24 * 3)


Path = Callable[[Any], Any]


def _of_duals(f: Any) -> Any:
    x = tensor(Dual(Dual(Fraction(1), Fraction(1)), Dual(Fraction(1), Fraction(0))))
    session = Session()
    return session.value(f(session, session.input(x))).map(lambda a: a.tangent.tangent)


def _in_a_graph(f: Any) -> Any:
    session = GraphSession()
    x = session.input(tensor(Dual(Fraction(1), Fraction(1))), requires_grad=True)
    return session.backward(f(session, x))[x.id].map(lambda a: a.tangent)


def _of_a_graph(f: Any) -> Any:
    session = GraphSession()
    x = session.input(tensor(Dual(Fraction(1), Fraction(1))))
    tangent = session.jvp_leaf(f(session, x), x, tensor(Dual(Fraction(1), Fraction(0))))
    return tangent.map(lambda a: a.tangent)


PATHS: dict[str, Path] = {
    "hvp": lambda f: hvp(f, [ONE], [ONE])[0],
    "hessian": lambda f: hessian(f)(ONE),
    "jacfwd of grad": lambda f: jacfwd(grad(f))(ONE),
    "jacfwd of jacrev": lambda f: jacfwd(jacrev(f))(ONE),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f))(ONE),
    "jvp of grad": lambda f: jvp(grad(f), [ONE], [ONE])[1],
    "duals of duals": _of_duals,
    "backprop of a graph, on duals": _in_a_graph,
    "jvp of a graph, on duals": _of_a_graph,
}


def _plain(ops: Any, x: Any) -> Any:
    return ops.square(ops.square(x) - ops.const(ONE))


def _through_a_quotient(ops: Any, x: Any) -> Any:
    one = ops.const(ONE)
    return ops.square(ops.div(ops.square(x) - one, one))


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("program", [_plain, _through_a_quotient])
def test_the_hessian_at_a_zero_gradient_is_8_by_every_path(program: Any, path: str) -> None:
    assert PATHS[path](program) == tensor(8)


FORWARD_ONLY = {"duals of duals", "jacfwd of jacfwd", "jvp of a graph, on duals"}
BY_REVERSE = [path for path in PATHS if path not in FORWARD_ONLY]


@pytest.mark.parametrize("path", BY_REVERSE)
def test_an_absorbing_rule_that_looks_at_the_value_alone_would_be_caught(path: str) -> None:
    by_value = scalar.is_zero.replaced(Dual, lambda x, _: scalar.is_zero(x.value))
    try:
        assert PATHS[path](_plain) == tensor(8)
        assert PATHS[path](_through_a_quotient) == tensor(0)
    finally:
        scalar.is_zero.replaced(Dual, by_value)


PAIRS = st.tuples(SQUARES, SQUARES)


def summed(program: Any) -> Any:
    """A scalar program: the sum of what another returns."""
    return lambda ops, *refs: ops.sum(written(program)(ops, *refs))


Matrix = list[list[Any]]


def matrix(jacobians: Any, height: int) -> Matrix:
    """Write Jacobians by several inputs as one matrix with so many rows."""
    width = [len(part.data) // height for part in jacobians]
    pairs = list(zip(jacobians, width, strict=True))
    return [[a for j, n in pairs for a in j.data[row * n : row * n + n]] for row in range(height)]


def times(rows: Matrix, vector: list[Any]) -> list[Any]:
    """Multiply a matrix by a vector."""
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in rows]


def transposed(rows: Matrix) -> Matrix:
    """Exchange rows and columns."""
    return [list(column) for column in zip(*rows, strict=True)]


def flat(tensors: Any) -> list[Any]:
    """List the entries of tensors, one after the other."""
    return [a for x in tensors for a in x.data]


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.usefixtures("exact_world")
@settings(max_examples=60)
@given(program=PROGRAMS, inputs=PAIRS, tangents=PAIRS, cotangent=SQUARES)
def test_rows_and_columns_make_one_jacobian(program, inputs, tangents, cotangent) -> None:
    f = written(program)
    by_rows = jacrev(f, (0, 1))(*inputs)
    assert by_rows == jacfwd(f, (0, 1))(*inputs)
    jacobian = matrix(by_rows, 4)
    value, pull = vjp(f, *inputs)
    assert flat(pull(cotangent)) == times(transposed(jacobian), list(cotangent.data))
    assert jvp(f, inputs, tangents)[0] == value
    assert list(jvp(f, inputs, tangents)[1].data) == times(jacobian, flat(tangents))


@pytest.mark.slow
@pytest.mark.usefixtures("exact_world")
@settings(max_examples=25)
@given(program=PROGRAMS, inputs=PAIRS, vectors=PAIRS)
def test_hessians_are_symmetric_and_one_by_all_paths(program, inputs, vectors) -> None:
    f = summed(program)
    second = hessian(f, (0, 1))(*inputs)
    rows = [row for part in second for row in matrix(part, 4)]
    assert rows == transposed(rows)
    assert flat(hvp(f, inputs, vectors)) == times(rows, flat(vectors))
    assert jacfwd(jacfwd(f, (0, 1)), (0, 1))(*inputs) == second
    assert jacfwd(jacrev(f, (0, 1)), (0, 1))(*inputs) == second
    assert jacfwd(jacfwd(f, 0), 1)(*inputs) == second[0][1]


@pytest.mark.holds("Let no gradient pass")
def test_a_detached_value_is_constant_in_every_derivative() -> None:
    def f(ops: Any, x: Any) -> Any:
        return x * ops.detach(ops.square(x))

    x, t = tensor(Fraction(3)), tensor(Fraction(1))
    assert grad(f)(x) == jvp(f, [x], [t])[1] == tensor(9)
    assert hvp(f, [x], [t]) == (tensor(0),)
    assert jacfwd(jacfwd(f))(x) == hessian(f)(x) == tensor(0)


def quotients(ops: Any, x: Any) -> Any:
    """Two constants of the program's own, in places where the world has to be known."""
    two, one = ops.const(tensor(2.0)), ops.const(tensor(1.0))
    return ops.div(two, x) + ops.maximum(one, x) - (-x)


@pytest.mark.holds("Numbers of other worlds run in the reference")
def test_a_programs_constants_enter_every_world() -> None:
    x, t = tensor(4.0), tensor(1.0)
    assert value_and_grad(quotients)(x) == (tensor(8.5), tensor(2 - 0.125))
    assert jvp(quotients, [x], [t])[1] == tensor(2 - 0.125)
    assert hessian(quotients)(x) == tensor(4 / 64)
    assert jacfwd(hessian(quotients))(x) == tensor(-12 / 256)
    dual = tensor(Dual(4.0, 1.0))
    assert grad(lambda ops, x: ops.square(x))(dual) == tensor(Dual(8.0, 2.0))


def repeated(ops: Any, x: Any) -> Any:
    """The quotients again, by numbers; x = 4 is the only kink of the maximum."""
    four = ops.constant(4, x.shape, like=x)
    return ops.div(ops.constant(2, x.shape), x) + ops.maximum(four, x) - (-x)


def test_a_programs_numbers_enter_every_world() -> None:
    x, t = tensor(8.0), tensor(1.0)
    assert value_and_grad(repeated)(x) == (tensor(16.25), tensor(2 - 2 / 64))
    assert jvp(repeated, [x], [t])[1] == tensor(2 - 2 / 64)
    assert hessian(repeated)(x) == tensor(4 / 512)
    assert jacfwd(hessian(repeated))(x) == tensor(-12 / 4096)
    exact = hessian(repeated)(tensor(Fraction(8)))
    assert (exact, type(exact[()])) == (tensor(Fraction(1, 128)), Fraction)


def test_a_constant_of_the_programs_own_values_has_no_derivative_either_way() -> None:
    def f(ops: Any, x: Any) -> Any:
        return ops.mul(ops.const(ops.value(ops.square(x))), x)

    x, t = tensor(Fraction(3)), tensor(Fraction(1))
    assert grad(f)(x) == jacfwd(f)(x) == tensor(9)
    assert hessian(f)(x) == jacfwd(jacfwd(f))(x) == hvp(f, [x], [t])[0] == tensor(0)
    assert jvp(f, [x], [None])[1] == tensor(0)
    # What the caller's own dual numbers carry is the caller's: c = 2 + e is a constant of f.
    c = tensor(Dual(2.0, 1.0))
    square = lambda ops, x: ops.mul(ops.square(x), ops.const(c))  # noqa: E731
    assert grad(square)(tensor(Dual(3.0, 0.0))) == tensor(Dual(12.0, 6.0))
    assert hessian(square)(tensor(Dual(3.0, 0.0))) == tensor(Dual(4.0, 2.0))


def test_derivatives_in_a_rounded_world() -> None:
    third = Rounded(BINARY32, BINARY32.round(Fraction(1, 3)))
    cube = hessian(lambda ops, x: ops.mul(ops.square(x), x))(tensor(third))
    assert cube[()].number == BINARY32.round(6 * third.number)
    assert cube[()].format is BINARY32


def test_random_ops_draw_alike_in_all_passes() -> None:
    def f(ops: Any, x: Any) -> Any:
        once, twice = (ops.dropout(ops.square(x), p=0.5, seed=3) for _ in range(2))
        noise = ops.rand_uniform(shape=(8,), seed=5)
        return ops.add(ops.mul(once, noise), twice)

    x = tensor([Fraction(k + 1) for k in range(8)])
    value, pull = vjp(f, x)
    assert value == vjp(f, x)[0] == jvp(f, [x], [None])[0]
    assert len(set(value.data)) > 1
    ones = tensor([Fraction(1)] * 8)
    # The value is quadratic in x, entry by entry, so that J x is twice the value.
    assert jvp(f, [x], [x])[1] == value.map(lambda a: 2 * a)
    assert pull(ones)[0] == jvp(f, [x], [ones])[1]
    assert jacrev(f)(x) == jacfwd(f)(x)
    scalar_f = lambda ops, x: ops.sum(f(ops, x))  # noqa: E731
    assert jacfwd(jacfwd(scalar_f))(x) == hessian(scalar_f)(x)


def test_labels_reach_a_program_and_have_no_derivative() -> None:
    def f(ops: Any, x: Any, rows: Any) -> Any:
        return ops.sum(ops.square(ops.take(x, rows, axis=0)))

    x, rows = tensor([Fraction(2), Fraction(3)]), tensor([1, 1])
    assert grad(f)(x, rows) == tensor([0, 12])
    assert vjp(f, x, rows)[1]() == (tensor([0, 12]), None)
    assert hvp(f, [x, rows], [x, None]) == (tensor([0, 12]), None)
    assert hessian(f)(x, rows) == jacfwd(jacfwd(f))(x, rows) == tensor([[0, 0], [0, 4]])
    with pytest.raises(Rejected, match=r"^take C2: the indices are integers"):
        jacfwd(f, 1)(x, rows)


def test_inputs_without_entries_have_jacobians_without_entries() -> None:
    empty = tensor([])
    assert jacfwd(cubes)(empty, empty).shape == jacrev(cubes)(empty, empty).shape == (0, 0)
    assert jacfwd(total)(empty, empty).shape == (0,)


def test_an_input_that_does_not_matter_has_derivative_zero() -> None:
    assert grad(lambda ops, x, y: ops.sum(x), 1)(X, Y) == tensor([0, 0])
    assert jacrev(lambda ops, x, y: x, 1)(X, Y) == tensor([[0, 0], [0, 0]])
    assert hessian(lambda ops, x, y: ops.sum(x))(X, Y) == tensor([[0, 0], [0, 0]])


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "the gradient of no scalar": (
        lambda: grad(cubes)(X, Y),
        r"grad: the program returns a scalar \(jacrev and jacfwd .*; got shape \(2,\)",
    ),
    "the hessian of no scalar": (lambda: hessian(cubes)(X, Y), "grad: the program returns a sc"),
    "a pull without a seed": (
        lambda: vjp(cubes, X, Y)[1](),
        "tape: without a seed, backward starts at a scalar",
    ),
    "a seed of another shape": (
        lambda: vjp(cubes, X, Y)[1](ONE),
        r"tape: the seed has the shape \(2,\)",
    ),
    "argnums too large": (
        lambda: grad(total, 2)(X, Y),
        r"grad: argnums names distinct inputs in \[-2, 2\); got 2",
    ),
    "argnums twice": (lambda: jacrev(total, (0, -2))(X, Y), "jacrev: argnums names distinct"),
    "no argnums": (lambda: jacfwd(total, ())(X, Y), r"jacfwd: argnums .*; got \(\)"),
    "too few tangents": (
        lambda: jvp(total, [X, Y], [X]),
        "jvp: one tangent for each of the 2 inputs; got 1",
    ),
    "too few vectors": (
        lambda: hvp(total, [X, Y], [X]),
        "jvp: one tangent for each of the 2 inputs; got 1",
    ),
    "a tangent of another shape": (
        lambda: jvp(total, [X, Y], [X, ONE]),
        r"jvp: tangent 1 has the shape \(2,\) of its input; got \(\)",
    ),
    "reverse over reverse": (
        lambda: grad(grad(total))(X, Y),
        "grad: a program is asked for; derivatives are differentiated again by jvp or jacfwd",
    ),
    "reverse over forward": (lambda: jacrev(jacfwd(total))(X, Y), "jacrev: a program is asked"),
    "what is no ref": (
        lambda: grad(lambda ops, x: 1.0)(X),
        "grad: a program returns a ref of its session",
    ),
}


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_derivative_is_refused(case: str) -> None:
    ask, message = REFUSED[case]
    with pytest.raises(Rejected, match=f"^{message}"):
        ask()
