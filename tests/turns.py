"""Which of many cases of one kind each change tries: one of so many; `make full` tries all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from tools.rotation import differing
from tools.tree import ROOT

SHARE = 12
"""Where more pages have changed than one in so many, all are left to `full` as if none had."""


def in_turns(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the cases as parameters, of which all but the last of so many are left to `full`.

    A case is one parameter, or a tuple of several.
    """
    return _parameters(cases, every, lambda case: False)


def of_pages(
    cases: Iterable[Any], every: int, page: Callable[[Any], str] | None = None
) -> list[Any]:
    """Return the cases of pages likewise, but leave none to `full` whose page has changed.

    A page has changed if the last `make full` judged another one. A case is a page's name, or a
    tuple that begins with it, or whatever `page` finds a name in.
    """
    named = page or _first
    return _parameters(cases, every, lambda case: named(case) in _changed())


def _parameters(cases: Iterable[Any], every: int, always: Callable[[Any], bool]) -> list[Any]:
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[] if number % every == every - 1 or always(case) else [pytest.mark.full],
        )
        for number, case in enumerate(cases)
    ]


def _first(case: Any) -> str:
    return str(case[0] if isinstance(case, tuple) else case)


@cache
def _changed() -> set[str]:
    return differing(ROOT, SHARE)
