"""A ref: the handle of one tape entry, bound to its session, with operators.

The operators insert `broadcast_to` where NumPy would broadcast; a number stands for a constant,
which the device makes: nothing crosses.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from fast.device.integers import is_integer
from fast.errors import Rejected, SessionError, Unknown, unknown
from fast.indexing import Indexed, Lengths, cuts, even, resolved
from fast.protocol import Ops
from fast.tape import Tape

Number = int | float | Fraction


class Entry:
    """One value on a session's tape, numbers or integers; it is dead once the tape is reset."""

    __slots__ = ("id", "tape")

    id: int
    tape: Tape

    def __init__(self, tape: Tape, identity: int) -> None:
        self.tape = tape
        self.id = identity

    @property
    def session(self) -> Interpreter:
        """The session whose tape holds the value; raises after that tape was reset."""
        session: Interpreter | None = self.tape.session
        if session is None:
            raise SessionError(
                f"ref: entry {self.id} was recorded before reset_tape(), which forgot it; "
                "refs live as long as their tape"
            )
        return session

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self._stored().shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the value."""
        return self._stored().dtype

    def __repr__(self) -> str:
        kind = type(self).__name__
        if self.tape.session is None:
            return f"{kind}({self.id}, dead)"
        name = self.tape.names.get(self.id)
        return f"{kind}({self.id}{f' {name!r}' if name else ''}, {self.shape})"

    def _stored(self) -> Tensor:
        self.session  # noqa: B018 - raises if the tape was reset
        return self.tape.values[self.id]


class IndexRef(Entry):
    """Integers that an op has returned: ops take them as indices, and no gradient reaches them."""

    __slots__ = ()


class Ref(Indexed, Entry):
    """One tensor of numbers on a session's tape."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """Whether a trainable leaf feeds the value."""
        self._stored()
        return self.tape.rules[self.id] is not None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse a name, saying how it is written if a session has it."""
            if name.startswith("_"):
                raise AttributeError(f"'Ref' object has no attribute {name!r}")
            if hasattr(Ops, name):
                raise Unknown(f"Ref: there is no x.{name}; write ops.{name}(x)")
            raise unknown("Ref", "attribute", name, _public(Ref))

    def __add__(self, other: Ref | Number) -> Ref:
        return _binary("add", self, other)

    def __radd__(self, other: Number) -> Ref:
        return _binary("add", other, self)

    def __sub__(self, other: Ref | Number) -> Ref:
        return _binary("sub", self, other)

    def __rsub__(self, other: Number) -> Ref:
        return _binary("sub", other, self)

    def __mul__(self, other: Ref | Number) -> Ref:
        return _binary("mul", self, other)

    def __rmul__(self, other: Number) -> Ref:
        return _binary("mul", other, self)

    def __truediv__(self, other: Ref | Number) -> Ref:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Number) -> Ref:
        return _binary("div", other, self)

    def __matmul__(self, other: Ref) -> Ref:
        if not isinstance(other, Ref):
            raise _no_operand("matmul", other)
        return self.session.matmul(self, other)

    def __rmatmul__(self, other: object) -> NoReturn:
        raise _no_operand("matmul", other)

    def __neg__(self) -> Ref:
        # The product with -1 is exact, and turns +0 into -0 where 0 - x would not.
        return _binary("mul", self, -1)

    def __pow__(self, power: Number) -> Ref:
        if not _is_number(power):
            raise _no_operand("pow", power)
        return self.session.pow(self, c=float(power))


class Interpreter(Ops[Ref]):
    """Whatever runs a program: it records each op, and each number, that the program asks for.

    Python refuses a name that there is not, with the nearest. A `__getattr__` here would say it in
    our words, and be paid for by every op: Python then finds no method or field of a session by its
    quick way.
    """

    def reshape(self, x: Ref, *, shape: Any) -> Ref:
        """Lay the entries out in another shape, of which one extent may be -1."""
        wanted = resolved(x.shape, shape) if isinstance(x, Ref) else shape
        return super().reshape(x, shape=wanted)

    def split(self, x: Ref, lengths: Lengths, *, axis: int = 0) -> list[Ref]:
        """Cut along an axis into parts of a length, the last may be shorter, or of several."""
        at, parts = cuts(_shape("split", x), lengths, axis)
        return [self.slice(x, axis=at, start=start, length=length) for start, length in parts]

    def chunk(self, x: Ref, count: int, *, axis: int = 0) -> list[Ref]:
        """Cut an axis into so many parts of one length; the last may be shorter, or missing."""
        return self.split(x, even(_shape("chunk", x), count, axis), axis=axis)

    def max_with_indices(self, x: Ref, *, axis: int, keepdims: bool = False) -> tuple[Ref, Any]:
        """Take the largest entries along an axis, and find their places.

        Of a tie, the first has the whole cotangent; `max` shares it out. So it is in torch.
        """
        return self._with_indices("argmax", x, axis, keepdims)

    def min_with_indices(self, x: Ref, *, axis: int, keepdims: bool = False) -> tuple[Ref, Any]:
        """Take the smallest entries along an axis, and find their places, as for the largest."""
        return self._with_indices("argmin", x, axis, keepdims)

    def _with_indices(self, op: str, x: Ref, axis: int, keepdims: bool) -> tuple[Ref, Any]:
        """Find places, and gather what lies there; without the axis, places are found anew."""
        places = self.apply(op, (x,), {"axis": axis, "keepdims": True})
        found = self.gather(x, places, axis=axis)
        if keepdims:
            return found, places
        shape = list(places.shape)
        del shape[axis]
        return self.reshape(found, shape=tuple(shape)), self.apply(op, (x,), {"axis": axis})

    @abstractmethod
    def constant(self, value: Any, shape: tuple[int, ...] = (), like: Ref | None = None) -> Ref:
        """Record one number, rounded once and repeated to a shape."""


def _shape(name: str, x: object) -> tuple[int, ...]:
    if not isinstance(x, Ref):
        raise Rejected(
            f"{name} takes a ref of this session, got {type(x).__name__}; {made_a_ref(x)}"
        )
    return x.shape


def _public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def _binary(name: str, left: Any, right: Any) -> Ref:
    known = left if isinstance(left, Ref) else right
    session = known.session
    if not isinstance(left, Ref):
        if not _is_number(left):
            raise _no_operand(name, left)
        left = session.constant(left, like=known)
    elif not isinstance(right, Ref):
        if not _is_number(right):
            raise _no_operand(name, right)
        right = session.constant(right, like=known)
    a, b = left.shape, right.shape
    if a != b:
        shape = broadcast_shape(name, a, b)
        left = left if a == shape else session.broadcast_to(left, shape=shape)
        right = right if b == shape else session.broadcast_to(right, shape=shape)
    return session.apply(name, (left, right), {})


def _no_operand(name: str, came: object) -> TypeError:
    return TypeError(
        f"{name}: a ref is combined with a ref of its session or a number, "
        f"got {type(came).__name__}; {made_a_ref(came)}"
    )


def made_a_ref(came: object) -> str:
    """Say how what is no ref becomes one."""
    if isinstance(came, IndexRef):
        return "integers that an op has returned are indices of later ops only"
    if is_integer(came):
        return (
            "integers and booleans reach a program as they are, as labels do; write numbers to "
            "compute with as floats, such as 1.0, or x.float() of a tensor"
        )
    return "use() makes one of a parameter, input() and const() of data"


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def broadcast_shape(name: str, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which NumPy would broadcast two shapes, or raise naming both."""
    rank = max(len(x), len(y))
    a, b = (1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise Rejected(
            f"{name}: the shapes {x} and {y} do not broadcast; aligned at the right, two extents "
            "must be equal or one of them 1"
        )
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
