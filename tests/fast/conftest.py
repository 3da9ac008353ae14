"""What the tests of `fast` share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture
def settled() -> None:
    """Collect what earlier tests left in cycles, so that the counters change by this test alone."""
    gc.collect()
