"""What the tests of compiled sessions share."""

from __future__ import annotations

import pytest

from fast.compiled.graph import cuda
from tests.fast.compiled.emulated import Emulator


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """Stand for a GPU's graphs; the stand-in counts what is captured and started."""
    found = Emulator(monkeypatch)
    monkeypatch.setattr(cuda, "require", lambda options: None)
    monkeypatch.setattr(cuda, "capture", found.capture)
    return found
