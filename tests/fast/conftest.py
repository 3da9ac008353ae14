"""What the tests of `fast` share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from fast.kernels import tiles


@pytest.fixture
def settled() -> None:
    """Collect what earlier tests left in cycles, so that the counters change by this test alone."""
    gc.collect()


@pytest.fixture
def one_is_enough() -> Iterator[None]:
    """Let a result that fills one large tile take it, as one of hundreds of them does."""
    with tiles.one_is_enough():
        yield
