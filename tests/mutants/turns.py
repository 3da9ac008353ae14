"""Which patches are tried in each change: one of so many; `make full` tries all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def in_turns(cases: Sequence[tuple[Any, ...]], every: int) -> list[Any]:
    """Return the cases as parameters, of which all but the last of so many are left to `full`."""
    return [
        pytest.param(*case, marks=[] if number % every == every - 1 else [pytest.mark.full])
        for number, case in enumerate(cases)
    ]
