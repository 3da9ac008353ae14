"""Binds a session's op to the page's functions for its provider, once per op and session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from torch import Tensor

from fast.answers import LISTS, unfamiliar
from fast.broadcasting import made_a_ref, refuse_swapped
from fast.device.options import Options
from fast.errors import Rejected, SessionError, Unsupported
from fast.kernels.page import Op, Value, Vjp
from fast.kernels.product import TF32
from fast.naturals import NatRef
from fast.ops import OPS
from fast.ref import Entry, Ref
from fast.tape import WRITES, Tape


class Bound(NamedTuple):
    """One op as a session runs it.

    What it saves need not be weighed where `plain`; `form` is that of its rule on a tape. `flags`
    are the attributes that are True or False.
    """

    check: Callable[..., None] | None
    value: Value
    vjp: Vjp | None
    plain: bool
    form: bool | None
    op: Op
    flags: tuple[str, ...] = ()

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
        raise unfamiliar("session", "op", name, OPS, LISTS)
    value: Value
    vjp: Vjp | None
    value, vjp = op.hosts(options.provider)
    if op.stops_gradients:
        # A zero cotangent would mark the leaves behind it as reached; none at all does not.
        vjp = None
    if options.precision == "tf32":
        value = _allowing_tf32(value)
    check = _check_of(op)
    if op.random or op.source:
        check, value = _making(op, value, options, known)
    # What has no real inputs can save none of them, nor be a view of one.
    plain = (op.plain or op.source) and op.results == 1 and not op.indices and not op.buffers
    form = WRITES if op.aten_writes and options.provider == "aten" else None
    flags = tuple(key for key, usual in op.attributes.items() if isinstance(usual, bool))
    known[name] = Bound(check, value, vjp, plain, form, op, flags)
    return known[name]


def _making(
    op: Op, value: Value, options: Options, calls: Bindings
) -> tuple[Callable[..., None], Value]:
    """Return check and value with what the session supplies; a value that is drawn takes a call."""
    place = {"dtype": options.compute, "device": options.device} if op.source else {}

    def supplied() -> dict[str, Any]:
        return {"counter": calls.next_call, **place} if op.random else place

    def check(*inputs: Tensor, **attributes: Any) -> None:
        known = supplied()
        for name in known:
            if name in attributes:
                raise Rejected(f"{op.name}: the session supplies {name!r}; leave it out")
        op.check(*inputs, **attributes, **known)

    def make(*inputs: Tensor, **attributes: Any) -> Any:
        made = value(*inputs, **attributes, **supplied())
        # Not in place: a counter may be a cell, which a backward pass reads again.
        calls.next_call = calls.next_call + op.random
        return made

    return check, make


def _check_of(op: Op) -> Callable[..., None] | None:
    """Return the page's check, without what holds on any tape: floating dtypes, one device."""
    if not op.entrywise or len(op.inputs) > 2:
        return op.check
    if len(op.inputs) == 1:
        return None

    def check(x: Tensor, y: Tensor) -> None:
        if x.shape != y.shape or x.dtype is not y.dtype:
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


def check_plain(bound: Bound, attributes: Mapping[str, Any]) -> None:
    """Refuse a ref in the place of an attribute, and a flag that is neither True nor False."""
    for name, given in attributes.items():
        if isinstance(given, Entry):
            rule = "is an attribute, which is plain data and takes no gradient"
            raise Rejected(f"{bound.op.name}: {name} {rule}; got {type(given).__name__}")
        if name in bound.flags and type(given) is not bool:
            raise Rejected(f"{bound.op.name}: {name} is True or False; got {given!r}")


def refuse(
    bound: Bound, inputs: Sequence[Any], attributes: Mapping[str, Any], error: Exception
) -> NoReturn:
    """Raise what a call is refused by that its page's check has refused, or could not read."""
    refusal = _refusal(bound, inputs, attributes, error)
    if refusal is error:
        raise error
    raise refusal from error


def _refusal(
    bound: Bound, inputs: Sequence[Any], attributes: Mapping[str, Any], error: Exception
) -> Exception:
    op = bound.op
    for position in op.index_inputs:
        if position < len(inputs) and isinstance(inputs[position], Ref):
            mask, name = position in op.mask_inputs, op.named(position)
            kind, dtype = ("truth values", "bool") if mask else ("integers", "numpy.int64")
            return Rejected(
                f"{error}; {name} is a ref, which input() makes of any data and run() of floats: "
                f"{kind} go in as they are, without input(), such as {name}.astype({dtype})"
            )
    if isinstance(error, Rejected):
        return error
    try:
        op.bind(inputs, attributes)
    except Rejected as misfit:
        return misfit
    came = ", ".join(f"{name}={value!r}" for name, value in attributes.items())
    return Rejected(f"{op.name}: it takes {op.usage()}, and cannot read {came}")


def foreign(
    what: str, came: Any, tape: Tape, op: Op | None = None, inputs: Sequence[Any] = ()
) -> Exception:
    """Say why something is no ref of the tape on which a session records, for an op or a method."""
    if isinstance(came, Entry):
        owner = came.tape.session
        if owner is None:
            return SessionError(
                f"{what}: this ref was recorded before reset_tape(), which forgot it"
            )
        if owner is not tape.session:
            return SessionError(
                f"{what}: this ref belongs to another session; value() and input() carry its data "
                "over"
            )
        if came.tape is not tape:
            return SessionError(
                f"{what}: this ref is on another tape of this session, as outside and inside a "
                "program that grad() or its kin runs; hand its value() in as an input"
            )
        if not isinstance(came, Ref):
            return Rejected(
                f"{what} takes numbers of this session; integers that an op has returned are "
                "indices of later ops only"
            )
        return Rejected(
            f"{what} takes data that no gradient reaches, and no ref: naturals of this session or "
            "integers for indices, booleans for a mask"
        )
    if isinstance(came, NatRef):
        return Rejected(f"{what} takes a ref of this session; a natural is only an index")
    rule = f"{what} is" if ":" in what else f"{what}: the argument is"
    came_as = type(came).__name__
    rule = f"{rule} a ref of this session{'' if op is None else _as_they_are(op)}"
    if op is not None:
        beside = [inputs[k] for k in op.index_inputs if k < len(inputs)]
        refuse_swapped(op.name, came, rule.removeprefix(f"{op.name}: "), beside, op.inputs)
    return Unsupported(f"{rule}; got {came_as}; {made_a_ref(came)}")


def _as_they_are(op: Op) -> str:
    """Say which inputs of an op are no refs, as who has swapped two wants to know."""
    return "".join(
        f", and {op.inputs[k]} takes {'truth values' if k in op.mask_inputs else 'integers'} as "
        "they are"
        for k in op.index_inputs
    )
