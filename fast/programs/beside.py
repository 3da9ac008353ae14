"""A tape beside a session's own: a program runs on it, and the session's own stays as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from fast.errors import Rejected
from fast.runtime.seed import start_at
from fast.session import Session
from fast.tape import Tape


def check_session(who: str, session: Session | None, options: dict[str, Any]) -> None:
    """Refuse what is no session, and options beside one."""
    if session is not None and not isinstance(session, Session):
        raise Rejected(f"{who}: session is a fast.Session, got {type(session).__name__}")
    if session is not None and options:
        raise Rejected(
            f"{who}: the options {', '.join(options)} are for a new session; the one that was "
            "given has its own"
        )


def session_of(who: str, session: Session | None, options: dict[str, Any]) -> Session:
    """Return the session given, or a new one with the options; not both are given."""
    check_session(who, session, options)
    return Session(**options) if session is None else session


class Beside:
    """A tape for one program in a session: the one given, or a new one made with the options."""

    def __init__(self, who: str, session: Session | None, options: dict[str, Any]) -> None:
        """Make the tape, and the session if none is given; `who` is named in refusals."""
        self._made = session is None
        self.session = session_of(who, session, options)
        self.tape = Tape(self.session)

    @contextmanager
    def entered(self) -> Iterator[Session]:
        """Let the session record here; on any exit it goes back to its own tape."""
        with self.session._on(self.tape):
            yield self.session

    def start(self, out: int, seed: Any = None) -> Tensor:
        """Return the cotangent from which a pass over the program starts; see `start_at`."""
        return start_at(out, self.tape.values[out], seed, self.session._one)

    def release(self) -> None:
        """Free what the program has recorded; a second call does nothing."""
        self.tape.clear()
        if self._made:
            # The tape and its session name each other, and would wait for a collector of cycles.
            self.session._tape.clear()
