"""The form of a chain: torch takes its steps one by one, each in torch's own form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.budgets.forms.curves import CURVES
from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from spec.composite import composite
from spec.op import Op


def _followed(page: Op) -> Op:
    """Return a page with the programs that torch follows in the place of its own."""
    for form in CURVES.get(page.name, ()):
        page = replace(page, value=form.value or page.value, vjp=form.vjp or page.vjp)
    return page


def _chain() -> Form:
    page = OPS["chain"]
    assert page.program is not None
    own = composite(page.name, page.type_rule, page.program, tuple(map(_followed, page.uses)))
    return Form("the steps in forms of their own", own.value, own.vjp)


CHAINS: Mapping[str, tuple[Form, ...]] = {"chain": (_chain(),)}
"""By op: the program that torch follows at every dtype."""
