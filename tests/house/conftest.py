"""Fixtures of the house rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[str, str], None]:
    """Return what writes one file of a small tree that breaks a rule on purpose."""

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write
