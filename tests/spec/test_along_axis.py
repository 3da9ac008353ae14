"""Moves along an axis: what is sent where, several inputs at once, and sessions that run them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from spec.axes import sum_at
from spec.op import Rejected
from spec.ops import OPS
from spec.ops.scatter_add import op as scatter_add
from spec.session import Session
from spec.tensor import tensor


def test_what_is_sent_elsewhere_is_no_part_of_the_sum() -> None:
    terms = [float("inf"), 2.0, float("nan"), 3.0]

    def total(place: int, **onto: float) -> Any:
        return sum_at(place, (4,), lambda j: (9, 7, 8, 7)[j], lambda j: terms[j], **onto)

    assert total(7) == 5.0
    assert total(7, onto=10.0) == 15.0
    assert str(total(0, onto=-0.0)) == "-0.0"
    assert (total(0), total(9)) == (0, float("inf"))


def test_an_absent_direction_is_zero_in_each_input() -> None:
    x, y = tensor([Fraction(1), Fraction(2)]), tensor([Fraction(3)])
    concat, scatter = OPS["concat"], scatter_add
    assert concat.jvp((x, y), (None, y), axis=0) == tensor([0, 0, 3])
    assert concat.jvp((x, y), (x, None), axis=0) == tensor([1, 2, 0])
    inputs = (x, tensor([1]), y)
    assert scatter.jvp(inputs, (None, None, y), axis=0) == tensor([0, 3])
    assert scatter.jvp(inputs, (x, None, None), axis=0) == x


def test_a_session_joins_any_number_of_refs() -> None:
    s = Session()
    w = s.param(tensor([1.0, 2.0]), "w")
    x = s.use(w)
    z = s.concat(x, s.square(x), x, axis=0)
    assert s.value(z) == tensor([1.0, 2.0, 1.0, 4.0, 1.0, 2.0])
    grads = s.backward(z, tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert grads[x.id] == tensor([1 + 2 * 3.0 + 5, 2 + 4 * 4.0 + 6])
    assert s.value(s.concat(x, axis=-1)) == s.value(x)


def test_a_refused_join_leaves_the_tape_as_it_was() -> None:
    s = Session()
    x = s.use(s.param(tensor([1.0, 2.0]), "w"))
    before = len(s.tape)
    with pytest.raises(Rejected, match=r"^concat C1: "):
        s.concat(axis=0)
    with pytest.raises(Rejected, match=r"^concat: xs\[1\] is a ref"):
        s.concat(x, tensor([1.0]), axis=0)  # type: ignore[arg-type]
    with pytest.raises(Rejected, match=r"^scatter_add C3: "):
        s.scatter_add(x, tensor([0, 2]), x, axis=0)
    assert len(s.tape) == before


def test_naturals_are_positions() -> None:
    s = Session()
    x = s.use(s.param(tensor([1.0, 2.0]), "w"))
    z = s.scatter_add(x, s.indices(s.nat_vec([1, 1]), 2), s.square(x), axis=0)
    assert s.value(z) == tensor([1.0, 7.0])
    assert s.backward(z, tensor([1.0, 10.0]))[x.id] == tensor([1 + 20.0, 10 + 40.0])
