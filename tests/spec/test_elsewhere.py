"""What a page says that it stands for elsewhere exists there."""

from __future__ import annotations

import importlib
import inspect
import re
from operator import attrgetter

import pytest

from spec.ops import OPS

NAMES = {"torch": r"torch(?:\.\w+)+", "JAX": r"jax(?:\.\w+)+"}


def named(op: str, where: str) -> str | None:
    """Return the dotted name that a page gives, None where it says that there is none."""
    page = inspect.getdoc(importlib.import_module(f"spec.ops.{op}")) or ""
    says = re.search(r"^.*\bElsewhere: ([^;]+); (.+)\.$", page, re.MULTILINE)
    assert says is not None, f"spec/ops/{op}.py: no line 'Elsewhere: torch...; jax....'"
    part = says[1 if where == "torch" else 2]
    found = re.match(NAMES[where], part)
    assert found or part == f"none in {where}", f"spec/ops/{op}.py: {part!r} is no name in {where}"
    return found and found[0]


def test_a_page_names_both_or_says_that_there_is_none() -> None:
    for op in OPS:
        for where in NAMES:
            named(op, where)


@pytest.mark.parametrize("where", NAMES)
def test_the_names_exist(where: str) -> None:
    pytest.importorskip("torch" if where == "torch" else "jax", reason=f"{where} is not here")
    for module in ("torch.nn.functional", "jax.nn", "jax.scipy.special", "jax.random"):
        if module.startswith(where.lower()):
            importlib.import_module(module)
    for name in filter(None, (named(op, where) for op in OPS)):
        root, _, rest = name.partition(".")
        assert attrgetter(rest)(importlib.import_module(root)) is not None, name
