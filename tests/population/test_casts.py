"""Casts that round twice, or round ties otherwise, are caught; those that round once are not."""

from __future__ import annotations

import pytest

from population.judged.verdicts import judged
from population.registry import named

WRONG = (
    "to bf16 by way of fp32",
    "to fp16 by way of fp32",
    "ties away from zero",
    "halves end at the largest",
    "small halves cut off",
    "gradient by way of fp32",
)
RIGHT = ("counted in units", "gradient counted in units", "half of the last place added")


@pytest.mark.parametrize("name", WRONG)
def test_who_rounds_otherwise_is_caught(name: str) -> None:
    """At quick, and so at every profile: its cases come first."""
    assert judged(named(f"cast: {name}"), "quick", seeds=5).accepted is False


@pytest.mark.parametrize("name", RIGHT)
def test_who_rounds_once_is_not(name: str) -> None:
    assert judged(named(f"cast: {name}"), "quick", seeds=2).accepted is True
