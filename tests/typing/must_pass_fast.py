# pyright: strict
"""What the type checkers know of the faces of `fast`: nothing that is public is Any."""

from __future__ import annotations

from typing import assert_type

import fast
from fast import Buffer, CompiledSession, GradMap, Param, Ref, Session
from fast.checkpoint import load
from fast.torch import AdamW


def sessions_are_sessions() -> None:
    assert_type(fast.Session, type[Session])
    assert_type(Session(), Session)
    assert_type(CompiledSession("aten"), CompiledSession)
    assert_type(fast.counters.uploads, int)


def parts_of_a_session_have_their_types(session: Session, buffer: Buffer) -> None:
    parameter = session.param([1.0], name="w")
    assert_type(parameter, Param)
    ref = session.use(parameter)
    assert_type(ref, Ref)
    assert_type(session.square(ref), Ref)
    grads = session.backward(session.sum(ref))
    assert_type(grads, GradMap)
    assert_type(buffer, fast.Buffer)
    assert_type(load("c", session), dict[str, int | float | str])


def errors_are_classes(optimizer: AdamW) -> None:
    assert_type(fast.Rejected("x"), fast.Rejected)
    assert_type(optimizer.load_state_dict({}), None)
