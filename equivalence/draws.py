"""Draws of Hypothesis that depend on nothing but their seed, and not on each other.

Hypothesis draws now and then a number that is written in a module of the user's, of those that are
imported at that moment. That finds mistakes in tests of one's own code; it makes what a seed draws
depend on what else a process has imported, or on an edit anywhere. A judge that names its seed must
draw the same in every process.

It also makes up to six cases out of each that it draws, by copying one part over another: that
finds what needs two equal parts. Of 80 runs of a state machine some 60 are such near copies, so
they show little more than the other 20; where a run is long and costly, each should be drawn anew.

Hypothesis has no setting for either, so a method of its own gives way. A Hypothesis that has no
such method does no such thing, or `tests/equivalence/test_draws.py` fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hypothesis.internal.conjecture.engine import ConjectureRunner
from hypothesis.internal.conjecture.providers import HypothesisProvider

CONSTANTS = "_maybe_draw_constant"
"""The method that draws a constant, or says that none is due."""

COPIES = "generate_mutations_from"
"""The method that makes cases out of one that was drawn."""


def nothing(*_: object, **__: object) -> None:
    """Draw no constant, and make no copies, whatever is drawn."""


@contextmanager
def reproducible() -> Iterator[None]:
    """Within this context, what Hypothesis draws depends on the seed alone."""
    with _replaced(HypothesisProvider, CONSTANTS, nothing):
        yield


@contextmanager
def independent() -> Iterator[None]:
    """Within this context, no case that Hypothesis draws is made out of another."""
    with _replaced(ConjectureRunner, COPIES, nothing):
        yield


@contextmanager
def _replaced(owner: type, name: str, method: Callable[..., None]) -> Iterator[None]:
    """Put a method in the place of one that a class has, if it has one."""
    if not hasattr(owner, name):
        yield
        return
    before = getattr(owner, name)
    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, before)
