"""Muon: its steps by hand, what its iteration does to singular values, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from spec.op import AnyTensor, Rejected
from spec.optim import muon
from spec.optim.muon import Muon, State
from spec.rounded import BINARY32, Rounded
from spec.session import Session
from spec.tensor import tensor

PLAIN = Muon(lr=1.0, weight_decay=0.0, momentum=0.0, nesterov=False, ns_steps=0)
"""An update that takes off the first X, and nothing else."""

NOTHING = tensor([[0.0, 0.0], [0.0, 0.0]])


def left(parameter: Any, gradient: Any, hyper: Muon, state: State | None = None) -> Any:
    """Return the parameter after one step."""
    p, g = tensor(parameter), tensor(gradient)
    return muon.update(p, g, state or muon.init(p), hyper)[0].nested()


def test_a_direction_is_divided_by_its_length() -> None:
    assert left([[1.0], [2.0]], [[3.0], [4.0]], PLAIN) == [[1.0 - 0.6 * math.sqrt(2)],
                                                           [2.0 - 0.8 * math.sqrt(2)]]  # fmt: skip
    # A length below eps divides nothing, and eps does: 3 / 8 and 4 / 8.
    assert left([[0.0, 0.0]], [[3.0, 4.0]], replace(PLAIN, eps=8.0)) == [[-0.375, -0.5]]
    assert left([[1.0, 2.0]], [[0.0, 0.0]], PLAIN) == [[1.0, 2.0]]


def test_the_moment_is_a_mean_and_nesterov_looks_ahead() -> None:
    hyper = Muon(lr=1.0, weight_decay=0.0, momentum=0.5, ns_steps=0, eps=16.0)
    p, g = tensor([[0.0]]), tensor([[4.0]])
    # b = 2 and u = 1 + 2 = 3, then b = 3 and u = 1.5 + 2 = 3.5, each over 16.
    p, state = muon.update(p, g, muon.init(p), hyper)
    assert (p, state.momentum_buffer) == (tensor([[-0.1875]]), tensor([[2.0]]))
    p, state = muon.update(p, g, state, hyper)
    assert (p, state.momentum_buffer) == (tensor([[-0.40625]]), tensor([[3.0]]))
    behind = replace(hyper, nesterov=False)
    assert left([[0.0]], [[4.0]], behind, State(tensor([[2.0]]))) == [[-0.1875]]


def test_decay_is_apart_from_the_direction() -> None:
    hyper = replace(PLAIN, lr=0.5, weight_decay=0.5)
    assert left([[8.0, 0.0]], [[0.0, 1.0]], hyper) == [[6.0, -0.5]]


@pytest.mark.parametrize(
    ("rate", "shape", "factor"),
    [
        (None, (4, 1), 2.0),
        ("original", (4, 1), 2.0),
        ("original", (1, 4), 1.0),
        ("match_rms_adamw", (4, 1), 0.4),
        ("match_rms_adamw", (1, 9), 0.6),
    ],
)
def test_the_rate_follows_from_the_extents(
    rate: str | None, shape: tuple[int, int], factor: float
) -> None:
    rows, columns = shape
    gradient = [[float(i == j == 0) for j in range(columns)] for i in range(rows)]
    zeros = [[0.0] * columns] * rows
    found = left(zeros, gradient, replace(PLAIN, adjust_lr_fn=rate))
    assert found[0][0] == -factor


def test_an_iteration_is_a_quintic_of_each_singular_value() -> None:
    hyper = Muon(ns_a=2.0, ns_b=-1.5, ns_c=0.5)
    diagonal = tensor([[Fraction(1, 2), 0, 0], [0, Fraction(1, 4), 0]])
    found = muon.iterated(diagonal, hyper)
    expected = [2 * s - Fraction(3, 2) * s**3 + s**5 / 2 for s in (Fraction(1, 2), Fraction(1, 4))]
    assert found == tensor([[expected[0], 0, 0], [0, expected[1], 0]])


def test_a_tall_matrix_goes_as_its_transpose_does() -> None:
    wide = [[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]]
    tall = [[row[k] for row in wide] for k in range(3)]
    hyper = Muon(lr=1.0, weight_decay=0.0, momentum=0.0, adjust_lr_fn="match_rms_adamw")
    one = left([[0.0] * 3] * 2, wide, hyper)
    other = left([[0.0] * 2] * 3, tall, hyper)
    assert one == [[row[k] for row in other] for k in range(2)]


def test_five_iterations_bring_singular_values_near_one() -> None:
    found = left(NOTHING.nested(), [[3.0, 1.0], [-1.0, 2.0]], replace(PLAIN, ns_steps=5))
    (a, b), (c, d) = found
    # The squares of both singular values: their sum, and their product.
    total, product = a * a + b * b + c * c + d * d, (a * d - b * c) ** 2
    root = math.sqrt(total**2 / 4 - product)
    for square in (total / 2 - root, total / 2 + root):
        assert 0.5 < math.sqrt(square) < 1.5


def test_a_number_that_is_none_spreads_over_the_matrix() -> None:
    found = left([[1.0, 2.0]], [[math.nan, 1.0]], PLAIN)
    assert all(map(math.isnan, found[0]))
    assert math.isnan(left([[1.0, 2.0]], [[math.inf, 1.0]], PLAIN)[0][0])


def test_a_matrix_without_entries_stays() -> None:
    empty: AnyTensor = tensor([[], []])
    assert muon.update(empty, empty, muon.init(empty), Muon())[0] == empty


def test_exact_numbers_see_nothing_of_bf16() -> None:
    hyper = Muon(ns_a=2.0, ns_b=-1.5, ns_c=0.5)
    x = tensor([[Fraction(1, 3), 0], [Fraction(1, 7), 1]])
    assert muon.iterated(x, replace(hyper, ns_dtype="bf16")) == muon.iterated(x, hyper)
    wide = left(NOTHING.nested(), [[3.0, 1.0], [-1.0, 2.0]], PLAIN)
    assert wide == left(
        NOTHING.nested(), [[3.0, 1.0], [-1.0, 2.0]], replace(PLAIN, ns_dtype="bf16")
    )


def in_binary32(*numbers: float) -> AnyTensor:
    return tensor([[Rounded(BINARY32, Fraction(x)) for x in numbers]])


def test_an_iteration_in_bf16_rounds_what_torch_rounds() -> None:
    # Of x = 1, G = 1: the factor -1 - 2^-9 becomes -1, of which 1 + 3 * 2^-9 becomes 1 + 2^-7.
    hyper = Muon(ns_a=2 + 3 * 2.0**-9, ns_b=-1 - 2.0**-9, ns_c=0.0, ns_dtype="bf16")
    assert muon.iterated(in_binary32(1.0), hyper) == in_binary32(1 + 2.0**-7)
    assert muon.iterated(in_binary32(1.0), replace(hyper, ns_dtype=None)) == in_binary32(
        1 + 2.0**-8
    )
    # x x becomes 1 + 2^-6 of x = 1 + 2^-7, whose square has a bit more.
    hyper = Muon(ns_a=0.0, ns_b=1.0, ns_c=0.0, ns_dtype="bf16")
    assert muon.iterated(in_binary32(1 + 2.0**-7), hyper) == in_binary32(1 + 3 * 2.0**-7)


def test_in_bf16_the_direction_and_its_length_are_rounded_before_they_are_divided() -> None:
    hyper = replace(PLAIN, ns_dtype="bf16")
    # 1 + 2^-9 becomes 1, and so does its length.
    assert muon.started(in_binary32(1 + 2.0**-9), hyper) == in_binary32(1.0)
    # The length of 255 and 24 is 256.13, and 255 / 256 is a number of bf16.
    assert muon.started(in_binary32(255.0, 24.0), hyper) == in_binary32(255 / 256, 24 / 256)
    assert muon.started(in_binary32(2.0), replace(hyper, eps=256.5)) == in_binary32(2.0**-7)


def test_what_is_no_dtype_of_an_iteration_is_refused_by_the_names_of_those_that_are() -> None:
    with pytest.raises(Rejected, match=r"^muon C9: ns_dtype is one of None, 'bf16'.*'fp16'"):
        Muon(ns_dtype="fp16")


def test_what_is_no_matrix_is_refused_before_anything_changes() -> None:
    session = Session()
    w, b = session.param(tensor([[1.0, 2.0]]), "w"), session.param(tensor([1.0]), "b")
    refs = [session.use(w), session.use(b)]
    loss = session.sum(session.square(refs[0])) + session.sum(refs[1])
    grads = session.backward(loss)
    with pytest.raises(Rejected, match=r"^muon C8: a parameter is a matrix.*\(1,\)"):
        session.muon_step(grads=grads)
    assert (w.value, b.value, session.state(w)) == (tensor([[1.0, 2.0]]), tensor([1.0]), None)
    session.muon_step(grads={0: grads[0]})
    assert w.value != tensor([[1.0, 2.0]])
