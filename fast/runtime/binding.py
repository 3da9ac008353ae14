"""Binds a session's op to the page's functions for its provider, once per op and session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from fast.device.options import Options
from fast.errors import Rejected, SessionError, unknown
from fast.kernels.page import Op, Value, Vjp
from fast.kernels.product import TF32
from fast.naturals import NatRef
from fast.ops import OPS
from fast.ref import Ref
from fast.tape import WRITERS

if TYPE_CHECKING:
    from fast.session import Session


UNARY = frozenset(("square", "exp", "log", "sqrt", "tanh", "relu"))
BINARY = frozenset(("add", "sub", "mul", "div", "maximum", "minimum"))

RANDOM = frozenset(("rand_uniform", "rand_normal", "bernoulli_mask", "dropout"))

PLAIN = UNARY | BINARY | RANDOM | {"matmul", "linear"}
"""Ops with a fresh result that save no tensor but inputs and result: they need no weighing."""


class Bound(NamedTuple):
    """One op as a session runs it."""

    check: Callable[..., None] | None
    value: Value
    vjp: Vjp | None
    plain: bool
    op: Op

    def describe(self, position: int) -> str:
        """Name an input for a message."""
        return f"{self.op.name}: {self.op.named(position)}"


class Bindings(dict[str, Bound]):
    """The ops that a session has bound, and the counter that its next random call takes."""

    next_call = 0


def bind(name: str, options: Options, known: Bindings) -> Bound:
    """Look an op up, pick its functions, and remember them in `known`."""
    op = OPS.get(name)
    if op is None:
        raise unknown("session", "op", name, OPS)
    value: Value
    vjp: Vjp | None
    value, vjp = op.hosts(options.provider)
    if name == "detach":
        # A zero cotangent would mark the leaves behind it as reached; none at all does not.
        vjp = None
    if options.precision == "tf32":
        value = _allowing_tf32(value)
    if op.aten_writes and options.provider == "aten":
        WRITERS.add(op.aten_vjp)
    check = _check_of(op)
    if op.random:
        check, value = _drawing(op, value, options, known)
    known[name] = Bound(check, value, vjp, name in PLAIN, op)
    return known[name]


def _drawing(
    op: Op, value: Value, options: Options, calls: Bindings
) -> tuple[Callable[..., None], Value]:
    """Return check and value with what the session supplies; a value that is made takes a call."""
    place = {"dtype": options.compute, "device": options.device} if op.source else {}

    def check(*inputs: Tensor, **attributes: Any) -> None:
        supplied = {"counter": calls.next_call, **place}
        for name in supplied:
            if name in attributes:
                raise Rejected(f"{op.name}: the session supplies {name!r}; leave it out")
        op.check(*inputs, **attributes, **supplied)

    def draw(*inputs: Tensor, **attributes: Any) -> Any:
        drawn = value(*inputs, **attributes, counter=calls.next_call, **place)
        calls.next_call += 1
        return drawn

    return check, draw


def _check_of(op: Op) -> Callable[..., None] | None:
    """Return the page's check, without what holds on any tape: one floating dtype, one device."""
    if op.name in UNARY:
        return None
    if op.name not in BINARY:
        return op.check

    def check(x: Tensor, y: Tensor) -> None:
        if x.shape != y.shape:
            op.check(x, y)

    return check


def _allowing_tf32(value: Value) -> Value:
    def run(*inputs: Any, **attributes: Any) -> Any:
        token = TF32.set(True)
        try:
            return value(*inputs, **attributes)
        finally:
            TF32.reset(token)

    return run


def foreign(what: str, came: Any, session: Session) -> Exception:
    """Say why something is no ref of the session's tape."""
    if isinstance(came, Ref):
        owner = came.tape.session
        if owner is None:
            return SessionError(
                f"{what}: this ref was recorded before reset_tape(), which forgot it"
            )
        if owner is not session:
            return SessionError(
                f"{what}: this ref belongs to another session; value() and input() carry its data "
                "over"
            )
        if came.tape is not session._tape:
            return SessionError(
                f"{what}: this ref is on another tape of this session, as outside and inside a "
                "program that grad() or its kin runs; hand its value() in as an input"
            )
        return Rejected(
            f"{what} takes data that no gradient reaches, and no ref: naturals of this session or "
            "integers for indices, booleans for a mask"
        )
    if isinstance(came, NatRef):
        return Rejected(f"{what} takes a ref of this session; a natural is only an index")
    return Rejected(
        f"{what} takes a ref of this session, got {type(came).__name__}; input() and const() make "
        "one of data"
    )
