"""Tables: what is asked for again and again is computed once, and is what it would be otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from equivalence.budgets.arrays import Allowed, Call, allowed
from equivalence.worlds.contract import FP32, Contract
from equivalence.worlds.vectorized import tables, terms
from equivalence.worlds.vectorized.arrays import held
from equivalence.worlds.vectorized.numbers import Many, Truth, constant, working
from equivalence.worlds.vectorized.terms import VectorExtent
from equivalence.worlds.vectorized.widths import Widths
from spec import scalar
from spec.tensor import tabulate

PLAIN = Contract("plain", FP32, FP32)


def gradients(entries: int) -> Call:
    """Return a call whose page sees groups of entries as rows, and goes back to them from these."""
    source = np.random.default_rng(entries)
    x, g = (source.standard_normal((2, 4, entries)) for _ in range(2))
    return Call("group_norm", [x, np.ones(4), np.zeros(4)], {"groups": 2}, g)


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Count the terms of each sum."""
    total, sizes = terms._total, [0]

    def counting(found: Any, *rest: Any) -> Any:
        sizes.append(np.size(getattr(found, "v", found)))
        return total(found, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "_total", counting)
        yield sizes


def most_terms(entries: int) -> int:
    with _counted() as sizes:
        allowed(gradients(entries), PLAIN)
    return max(sizes)


def test_a_page_under_another_shape_forms_the_sums_of_a_row_once() -> None:
    assert [most_terms(n) for n in (32, 256)] == [8 * 32, 8 * 256]


def test_without_tables_there_is_a_sum_for_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted, so that the count above can fail: a sum of 64 terms lies behind another one."""
    monkeypatch.setattr(tables, "box_of_repeats", lambda index: None)
    assert most_terms(32) == 8 * 32 * 64 * 64


def test_a_table_says_what_its_entries_say(monkeypatch: pytest.MonkeyPatch) -> None:
    by_tables = allowed(gradients(16), PLAIN)
    monkeypatch.setattr(tables, "box_of_repeats", lambda index: None)
    for found, due in zip(by_tables, allowed(gradients(16), PLAIN), strict=True):
        assert isinstance(found, Allowed) and isinstance(due, Allowed)
        assert np.array_equal(found.v, due.v) and np.array_equal(found.b, due.b)


REPEATED = np.array([3, 1, 3, 2, 1, 3])


def asked(entry: Any, *index: Any) -> Any:
    return tabulate((VectorExtent(5), VectorExtent(5))[: len(index)], entry)[index]


def test_a_box_begins_where_the_first_index_is() -> None:
    seen: list[Any] = []

    def entry(i: Any) -> Many:
        seen.append(i.ravel().tolist())
        return Many(i * 10.0, i * 1.0)

    with working(Widths(PLAIN), axes=1):
        found = asked(entry, REPEATED)
    assert seen == [[1, 2, 3]]
    assert found.v.tolist() == [30.0, 10.0, 30.0, 20.0, 10.0, 30.0]
    assert found.b.tolist() == [3.0, 1.0, 3.0, 2.0, 1.0, 3.0]


def test_indices_and_answers_have_tables_too() -> None:
    with working(Widths(PLAIN), axes=1):
        assert asked(lambda i: i * i, REPEATED).tolist() == [9, 1, 9, 4, 1, 9]
        answer = asked(lambda i: Truth(i > 1, i > 2), REPEATED)
    assert answer.value.tolist() == [True, False, True, True, False, True]
    assert answer.known.tolist() == [True, False, True, False, False, True]


def test_what_depends_on_one_axis_of_a_box_is_repeated_along_the_other() -> None:
    with working(Widths(PLAIN), axes=1):
        found = asked(lambda i, j: Many(j * 1.0), REPEATED % 2, np.array([0, 1, 0, 1, 0, 1]))
    assert found.v.tolist() == [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]


def test_a_constant_stays_one_and_a_rule_stays_a_rule() -> None:
    """That a 0 is a constant and no array of zeros lets a sum with it be exact."""
    with working(Widths(PLAIN), axes=1):
        assert asked(lambda i: 0, REPEATED) == 0
        one = asked(lambda i: constant(1), REPEATED)
        assert isinstance(one, Many) and one.v.shape == ()
        assert asked(lambda i: lambda count: i + count, REPEATED)(1).tolist() == [4, 2, 4, 3, 2, 4]


def test_an_entry_that_reads_an_index_from_outside_has_no_table() -> None:
    """A page may make a tensor for each entry of another: its axes are not those of a table."""
    x = held(np.arange(12.0).reshape(3, 4))

    def row(i: Any) -> Any:
        inner = tabulate((VectorExtent(4),), lambda k: scalar.square(x[i, k]))
        return inner[np.array([1, 3, 1, 3, 1, 1])]

    with working(Widths(PLAIN), axes=2):
        found = row(np.arange(3).reshape(3, 1))
    assert found.v.tolist() == [[a * a, b * b, a * a, b * b, a * a, a * a]
                                for a, b in ((1, 3), (5, 7), (9, 11))]  # fmt: skip
