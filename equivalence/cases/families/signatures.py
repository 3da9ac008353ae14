"""The structure of a call, its shapes and its attributes, and what a page says of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.domains import usual
from spec.op import Op, Rejected

Shape = tuple[int, ...]

Signature = tuple[tuple[Shape, ...], dict[str, Any]]
"""The shapes of the inputs, and the attributes."""

Draw = Callable[[st.SearchStrategy[Any]], Any]


def results(op: Op, signature: Signature) -> tuple[Shape, ...] | None:
    """Return the shapes of a call's results, or None where the page refuses the call."""
    try:
        return _checked(op, signature)
    except Rejected:
        return None


def refusal(op: Op, signature: Signature) -> str | None:
    """Return the sentence by which a page refuses a call, or None where it accepts it."""
    try:
        _checked(op, signature)
    except Rejected as refused:
        return str(refused)
    return None


def _checked(op: Op, signature: Signature) -> tuple[Shape, ...]:
    shapes, attributes = signature
    made = op.types_of_results(*op.types_at(*shapes), **attributes)
    return tuple(each.shape for each in made.values())


def always(*signatures: Signature) -> Callable[[Op], tuple[Signature, ...]]:
    """Return the same calls for every op."""
    return lambda op: signatures


def required(op: Op) -> dict[str, Any]:
    """Return the plainest values of the attributes that the page tries and that have no default."""
    return {n: v for n, v in usual(op).items() if op.attributes[n] is inspect.Parameter.empty}


def said(op: Op, levels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the levels of the attributes that the page tries; what is the default goes unsaid."""
    return {n: levels[n] for n in op.tried if levels[n] != op.attributes[n]}


def chosen(draw: Draw, op: Op) -> dict[str, Any]:
    """Draw each attribute that the page tries from the values that it tries."""
    return {name: draw(st.sampled_from(among)) for name, among in op.tried.items()}
