"""A session of `fast` and one of the reference, side by side, and what judges them.

The reference's session may be of any kind: a tape, or a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fast
from equivalence.sessions.judge import SessionJudge
from equivalence.sessions.numbers import whole_numbers
from spec.protocol import Ops
from spec.session import Ref as SpecRef
from spec.session import Sessions
from spec.tensor import is_tensor
from spec.updates import Param as SpecParam

if TYPE_CHECKING:
    from fast.ref import Ref as FastRef
    from fast.runtime.param import Param as FastParam


@dataclass(frozen=True, slots=True)
class RefPair:
    """The refs of one value that was computed twice."""

    fast: FastRef
    spec: SpecRef

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the reference."""
        return tuple(self.spec.shape)


@dataclass(frozen=True, slots=True)
class ParamPair:
    """A parameter of both sessions."""

    fast: FastParam
    spec: SpecParam


class SessionPair(SessionJudge):
    """A new session of `fast`, and one of the reference that computes in balls."""

    def __init__(
        self, reference: Sessions[Any], provider: str = "aten", precision: str = "fp32"
    ) -> None:
        """Start the session of `fast`, and let the reference compute by its contract."""
        self.fast = fast.Session(provider, precision, "cpu")
        super().__init__(self.fast.options)
        self.spec = reference
        self.bound(reference)


class Listed(Ops[Any]):
    """A session of either side that keeps the refs of all ops that a program asks for, in order.

    Indices and masks that a program holds are tensors of the reference; `fast` gets torch's.
    """

    def __init__(self, session: Any) -> None:
        """Run programs on a session."""
        self.session = session
        self.made: list[Any] = []
        self._given: Callable[[Any], Any] = _torch if isinstance(session, fast.Session) else _same

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Run an op, and keep the ref of its result, or those of all of them."""
        made = self.session.apply(name, tuple(map(self._given, inputs)), attributes)
        self.made += made if isinstance(made, tuple) else (made,)
        return made


def _torch(x: Any) -> Any:
    return whole_numbers(x.data).reshape(x.shape) if is_tensor(x) else x


def _same(x: Any) -> Any:
    return x
