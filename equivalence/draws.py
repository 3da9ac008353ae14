"""Draws of Hypothesis that depend on nothing but their seed.

Hypothesis draws now and then a number that is written in a module of the user's, of those that are
imported at that moment. That finds mistakes in tests of one's own code; it makes what a seed draws
depend on what else a process has imported, or on an edit anywhere. A judge that names its seed must
draw the same in every process.

Hypothesis has no setting for it, so one method of its provider gives way. A Hypothesis that has no
such method draws no such numbers, or `tests/equivalence/test_draws.py` fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis.internal.conjecture.providers import HypothesisProvider

CONSTANTS = "_maybe_draw_constant"
"""The method that draws a constant, or says that none is due."""


def none_due(*_: Any, **__: Any) -> None:
    """Say that no constant is due, whatever is drawn."""


@contextmanager
def reproducible() -> Iterator[None]:
    """Within this context, what Hypothesis draws depends on the seed alone."""
    if not hasattr(HypothesisProvider, CONSTANTS):
        yield
        return
    before = getattr(HypothesisProvider, CONSTANTS)
    setattr(HypothesisProvider, CONSTANTS, none_due)
    try:
        yield
    finally:
        setattr(HypothesisProvider, CONSTANTS, before)
