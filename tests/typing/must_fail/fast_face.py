# pyright: strict
"""What the type checkers refuse of the faces of `fast`: every marked line is an error."""

from __future__ import annotations

import fast
from fast import CompiledSession, Session
from fast.checkpoint import save


def calls_that_cannot_be(session: Session) -> None:
    Session(prvider="aten")  # error
    CompiledSession(deterministic="yes")  # error
    session.backwards(session.constant(1))  # error
    save("c", session, {"epoch": None})  # error
    session.linear(session.constant(1))  # error


def names_that_are_not_there() -> None:
    fast.Sesion()  # error
