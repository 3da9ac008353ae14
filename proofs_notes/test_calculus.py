"""The calculus against sums written out: what it equates is equal, and what differs stays apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.worlds.symbols import entries, extent, index, labels
from proofs_notes.calculus import differentiate, paired, pull, push, reduced, residual
from proofs_notes.instances import instance
from spec.scalar import exp, kronecker, log, max_over, sqrt, sum_over
from spec.tensor import tabulate

EXACT = settings(max_examples=60, derandomize=True, deadline=None, database=None)

N, M = extent("n"), extent("m")
X, Y = entries("x", (N,)), entries("y", (N, M))
P, Q = index("p", N), index("q", M)
LABEL = labels("label", (N,), M)
TOTAL = sum_over(N, lambda k: X[k])
SQUARES = sum_over(N, lambda k: X[k] ** 2)


def worlds() -> Iterator[dict[str, Any]]:
    """Yield small sizes with distinct exact numbers in every place."""
    for n, m in itertools.product((1, 2, 3), (1, 2)):
        numbers = (Fraction(k, 7) for k in itertools.count(2, 3))
        yield {
            "n": n,
            "m": m,
            "p": n - 1,
            "q": m // 2,
            "x": [next(numbers) for _ in range(n)],
            "y": [[next(numbers) for _ in range(m)] for _ in range(n)],
            "label": [k % m for k in range(n)],
            "a": next(numbers),
        }


def agree(e: Any, f: Any) -> bool:
    """Tell whether two expressions are one number at each of the small sizes."""
    return all(sympy.simplify(instance(e, world) - instance(f, world)) == 0 for world in worlds())


TRUE = {
    "a double sum is a product": sum_over((N, N), lambda j, k: X[j] * X[k]) - TOTAL**2,
    "sums exchange": sum_over(N, lambda i: X[i] * sum_over(M, lambda k: Y[i, k] ** 2))
    - sum_over(M, lambda k: sum_over(N, lambda i: Y[i, k] ** 2 * X[i])),
    "centred entries add up to 0": sum_over(N, lambda k: X[k] - TOTAL / N),
    "the variance is a mean of squares less a square of the mean": sum_over(
        N, lambda k: (X[k] - TOTAL / N) ** 2
    )
    - SQUARES
    + TOTAL**2 / N,
    "a delta reads one entry": sum_over(N, lambda k: kronecker(k, P) * X[k] ** 3) - X[P] ** 3,
    "a label is one of its classes": sum_over(M, lambda k: kronecker(LABEL[P], k)) - 1,
    "two deltas meet": sum_over((N, N), lambda j, k: kronecker(j, P) * kronecker(k, j) * X[k])
    - X[P],
    "a shift leaves the softmax": sum_over(N, lambda k: exp(X[k] - X[P]))
    - exp(-X[P]) * sum_over(N, lambda k: exp(X[k])),
    "a shifted delta reads one entry": sum_over(N + M, lambda k: kronecker(k, N + Q) * k) - N - Q,
    "exponentials multiply": exp(X[P]) * exp(X[P]) * (1 / (1 + exp(X[P])))
    + exp(X[P]) * (1 / (1 + exp(X[P])))
    - exp(X[P]),
    "a root squared": (1 + sqrt(SQUARES + 1)) * (1 - sqrt(SQUARES + 1)) + SQUARES,
    "a root below": 1 / (1 + sqrt(SQUARES + 1)) - (sqrt(SQUARES + 1) - 1) / SQUARES,
    "a root of a root's base": sqrt(SQUARES + 1) ** 3 / (SQUARES + 1) - sqrt(SQUARES + 1),
    "one logarithm": sum_over(N, lambda k: log(1 + SQUARES)) - N * log(SQUARES + 1),
    "positions": (P * M + Q) // M - P + (P * M + Q) % M - Q,
}
FALSE = {
    "a sum of squares is no square of a sum": SQUARES - TOTAL**2,
    "n is not n - 1": sum_over(N, lambda k: X[k] - TOTAL / (N - Fraction(1, 2))),
    "a delta reads the right entry": sum_over(N, lambda k: kronecker(k, P) * X[k]) - TOTAL,
    "extents matter": sum_over(N, lambda k: kronecker(k, Q)) - 1,
    "a shifted delta may miss": sum_over(N + M, lambda k: kronecker(k, N + Q + 1) * k) - N - Q - 1,
    "a shifted delta may fall short": sum_over(N, lambda k: kronecker(k, P - 1) * k) - P + 1,
    "rows are not columns": sum_over(M, lambda k: Y[P, k]) - sum_over(N, lambda k: Y[k, Q]),
    "a root is no number": sqrt(SQUARES + 1) - SQUARES - 1,
    "signs": exp(X[P]) * exp(X[P]) - exp(-X[P]),
    "a remainder is no quotient": (P * M + Q) // M - Q,
    "what can exceed the range stays": (P + Q) // M,
}


@pytest.mark.parametrize("name", TRUE)
def test_true_identities_reduce_to_zero(name: str) -> None:
    assert residual(TRUE[name]) == 0
    assert agree(TRUE[name], 0)


@pytest.mark.parametrize("name", FALSE)
def test_false_identities_do_not(name: str) -> None:
    assert residual(FALSE[name]) != 0
    assert agree(FALSE[name], reduced(FALSE[name]))
    assert not agree(FALSE[name], 0)


@st.composite
def expressions(
    draw: st.DrawFn, rows: tuple[Any, ...], columns: tuple[Any, ...], depth: int
) -> Any:
    """Draw an expression in the open indices of rows and columns."""

    def inside(more_rows: tuple[Any, ...] = (), more_columns: tuple[Any, ...] = ()) -> Any:
        return draw(expressions(rows + more_rows, columns + more_columns, depth - 1))

    def at(indices: tuple[Any, ...]) -> Any:
        return draw(st.sampled_from(indices))

    leaves = {
        "constant": lambda: sympy.Integer(draw(st.integers(-2, 2))),
        "x": lambda: X[at(rows)],
        "y": lambda: Y[at(rows), at(columns)],
        "label": lambda: Y[at(rows), LABEL[at(rows)]],
        "delta": lambda: kronecker(at(rows), at(rows)),
        "delta of label": lambda: kronecker(LABEL[at(rows)], at(columns)),
    }
    nodes = {
        "add": lambda: inside() - inside(),
        "mul": lambda: inside() * inside(),
        "square": lambda: inside() ** 2,
        "inverse": lambda: 1 / (1 + inside() ** 2),
        "sum over rows": lambda: sum_over(N, lambda k: inside(more_rows=(k,))),
        "sum over columns": lambda: sum_over(M, lambda k: inside(more_columns=(k,))),
    }
    return draw(st.sampled_from([*leaves.values(), *(nodes.values() if depth else ())]))()


@EXACT
@given(e=expressions((P,), (Q,), 3))
def test_the_normal_form_keeps_the_value(e: Any) -> None:
    normal = reduced(e)
    assert all(instance(e, world) == instance(normal, world) for world in worlds())
    assert residual(e - normal) == 0


@EXACT
@given(e=expressions((P,), (Q,), 2))
def test_derivatives_are_those_of_the_sum_written_out(e: Any) -> None:
    rate = differentiate(e, X[P])
    for world in worlds():
        unknown = sympy.symbols(f"u:{world['n']}", real=True)
        written_out = instance(e, {**world, "x": unknown}).diff(unknown[world["p"]])
        at = dict(zip(unknown, map(sympy.sympify, world["x"]), strict=True))
        assert written_out.subs(at) == instance(rate, world)


@EXACT
@given(slopes=st.tuples(*[st.integers(0, 4)] * 2), start=st.integers(0, 7), by=st.integers(1, 6))
def test_resolved_positions_are_right(slopes: tuple[int, int], start: int, by: int) -> None:
    position = slopes[0] * P + slopes[1] * Q * M + start
    for e in (position // (by * M), position % (by * M)):
        assert agree(e, reduced(e))


def test_elementary_derivatives() -> None:
    (a,) = (entries("a", ())[()],)
    assert differentiate(exp(2 * a), a) == 2 * exp(2 * a)
    assert differentiate(log(a) * sqrt(a), a) == 1 / sqrt(a) + log(a) / (2 * sqrt(a))
    assert differentiate(X[P], a) == 0


def test_an_unknown_rate_of_the_largest_is_never_dropped() -> None:
    largest = max_over(N, lambda k: X[k])
    assert residual(differentiate(largest, X[P])) != 0
    assert residual(differentiate(X[P] - largest, X[P])) != 0
    assert residual(differentiate(largest - largest, X[P])) == 0


def test_pull_and_push_are_transposes() -> None:
    value = tabulate((M,), lambda k: sum_over(N, lambda i: X[i] ** 2 * Y[i, k]))
    w, t = entries("w", (M,)), entries("t", (N,))
    back = tabulate((N,), lambda i: pull(value, w, X[i]))
    ahead = tabulate((M,), lambda k: push(value[k], X, t))
    assert residual(paired(w, ahead) - paired(back, t)) == 0
    assert residual(back[P] - 2 * X[P] * sum_over(M, lambda k: w[k] * Y[P, k])) == 0
