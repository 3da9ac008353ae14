"""Ops made for a test, which a session runs as it runs those of pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from fast.kernels.page import Op
from fast.ref import Ref
from fast.runtime.binding import Bound
from fast.session import Session

Rule = Callable[..., Any]


def node(
    session: Session, value: Tensor, parents: Sequence[Ref], rule: Rule, saved: tuple[Any, ...] = ()
) -> Ref:
    """Append an op of that value whose rule is a function of the cotangent."""

    def vjp(saved: tuple[Any, ...], cotangent: Tensor, needs: tuple[bool, ...]) -> Any:
        return rule(cotangent)

    return run(session, lambda *inputs: (value, saved), vjp, parents)


def run(session: Session, value: Rule, vjp: Rule, parents: Sequence[Ref]) -> Ref:
    """Append an op with the hosts of a page."""
    op = Op("made", _anything, value, vjp, value, vjp, tuple(f"x{k}" for k in range(len(parents))))
    session._bound["made"] = Bound(None, value, vjp, False, False, op)
    try:
        return session.apply("made", tuple(parents), {})
    finally:
        del session._bound["made"]


def _anything(*inputs: Tensor) -> None:
    """Refuse nothing."""
