"""Two numbers of a difference are written so that a reader sees that they differ."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

from fractions import Fraction

import pytest

from equivalence.exact.points import told_apart


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        (Fraction(1, 2), Fraction(1, 4), ("0.5", "0.25")),
        (Fraction(10**9 + 1), Fraction(10**9), ("1000000001", "1000000000")),
        (Fraction(10**30 + 1), Fraction(10**30), ("1e+30 + 1", "1e+30")),
    ],
)
def test_numbers_that_differ_are_written_apart(
    here: Fraction, there: Fraction, said: tuple[str, str]
) -> None:
    assert told_apart(here, there) == said
