"""Bytes are counted launch by launch: what is read twice is moved twice, and needed once."""

from __future__ import annotations

import torch

from fast.binaries.traffic import counting, traffic
from fast.ops import OPS


def test_a_streaming_kernel_moves_what_it_must() -> None:
    value, vjp, repeated = traffic("square")[:3]
    assert value == {"moved": 2048 * 8, "least": 2048 * 8, "elements": 2048}
    assert vjp == {"moved": 2048 * 12, "least": 2048 * 12, "elements": 2048}
    # Every element of the repeated cotangent is one number, and is loaded for each.
    assert repeated == {"moved": 2048 * 12, "least": 2048 * 8 + 4, "elements": 2048}


def test_a_long_row_is_read_twice_by_a_softmax() -> None:
    with counting() as tallies:
        OPS["softmax"].value(torch.ones(1, 600), axis=1)
    (counted,) = [tally.summary() for tally in tallies]
    row, block, statistics = 600 * 4, 256 * 4, 2 * 4
    assert counted["least"] == 2 * row + statistics
    assert counted["elements"] == 600
    # The first block of a row is kept; the rest is read again. Rows past the last repeat it.
    assert counted["moved"] == 4 * (2 * row - block) + row + statistics


def test_counting_ends() -> None:
    with counting() as tallies:
        pass
    OPS["square"].value(torch.ones(8))
    assert tallies == []
