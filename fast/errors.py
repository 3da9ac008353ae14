"""What `fast` raises: every refusal names the rule, what came, and what would be accepted."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches

NEAR = 0.7
"""How much of two names is the same, of 1, where one may be a slip of the other."""


def extra(name: str) -> str:
    """Say how an extra of this distribution, which is on no index, is installed."""
    ways = f"pip install '.[{name}]', from a wheel, pip install 'FILE.whl[{name}]'"
    return f"the extra [{name}] installs: in a checkout of twingrad, {ways}"


class Rejected(ValueError):
    """The caller's arguments break a rule that an op, an optimizer or a session states."""


class Unknown(Rejected, AttributeError, KeyError):
    """A name stands for nothing here; the message has the names that are nearest to it."""

    def __str__(self) -> str:
        """Show the sentence; a KeyError alone would show it in quotes."""
        return str(self.args[0])


class Unsupported(Rejected, TypeError):
    """An operator that is not offered; the message says what to write."""


class Misfit(Rejected, TypeError):
    """A call that a method cannot take; the message says which arguments it takes."""


class Unwritable(Rejected, PermissionError):
    """A file cannot be written where it was asked for; the message names it."""


class Released(RuntimeError):
    """A buffer was used after its owner released it."""


class Stale(RuntimeError):
    """A saved version of a parameter is older than the parameter now."""


class Unavailable(RuntimeError):
    """What was asked for cannot run in this process, on this machine or with this installation."""


class SessionError(RuntimeError):
    """A session was used against its life cycle, for instance with another session's refs."""


class Unverified(UserWarning):
    """A file was read that carries no digest, so that damage inside of it may go unseen."""


class Frozen(UserWarning):
    """A program that was recorded has read data from outside, which later calls do not see anew."""


class OtherThreads(UserWarning):
    """A checkpoint was made with another number of threads; what follows may round otherwise."""


class Unmoved(UserWarning):
    """A step has updated no parameter; the message says why."""


class Interpreted(UserWarning):
    """Triton's kernels run in its interpreter, on the CPU, where they are slow."""


def outside() -> int:
    """Return the level of the caller's own line, for a warning: how far above it `fast` ends."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("fast."):
        frame, depth = frame.f_back, depth + 1
    return depth


def unknown(who: str, what: str, name: object, known: Iterable[str], lists: str = "") -> Unknown:
    """Build the refusal of a name: the nearest that are known; if none is, what lists all, or all.

    A name that differs in its capitals only is the nearest.
    """
    names = list(known)
    near = nearest(name, names) if isinstance(name, str) else []
    every = lists or f"there are {', '.join(names) or 'none'}"
    rest = f"the nearest are {', '.join(near)}" if near else every
    return Unknown(f"{who}: there is no {what} {name!r}; {rest}")


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return which of the names this one may be a slip of."""
    every = {*names}
    same = [one for one in every if one.lower() == name.lower()]
    return same or get_close_matches(name.lower(), every, cutoff=NEAR)
