"""Which of many cases of one kind each change tries: one of so many; `make full` tries all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def in_turns(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the cases as parameters, of which all but the last of so many are left to `full`.

    A case is one parameter, or a tuple of several.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[] if number % every == every - 1 else [pytest.mark.full],
        )
        for number, case in enumerate(cases)
    ]
