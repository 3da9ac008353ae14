"""A ref: the handle of one tape entry, bound to its session, with operators.

The operators insert `broadcast_to` where NumPy would broadcast; a number stands for a constant,
which the device makes: nothing crosses.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fast.answers import ABSENT, INSTEAD, LISTS, answering, call_of, hints, lacking
from fast.broadcasting import Number, combined, shape_of
from fast.device.integers import is_number
from fast.errors import Rejected, SessionError, Unknown, Unsupported, unknown
from fast.indexing import Indexed, Lengths, cuts, even, resolved
from fast.normalizing import Normalizing
from fast.tape import Tape


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
        kind, tape = type(self).__name__, self.tape
        if tape.session is None:
            return f"{kind}(x{self.id}, dead)"
        owner = tape.uses.get(self.id)
        name = tape.names[self.id] or "leaf" if owner is None else owner[0].name
        return f"{kind}(x{self.id} {name}, shape {self.shape})"

    def _stored(self) -> Tensor:
        self.session  # noqa: B018 - raises if the tape was reset
        return self.tape.values[self.id]


class IndexRef(Entry):
    """Integers that an op has returned: ops take them as indices, and no gradient reaches them."""

    __slots__ = ()


_VALUE = "write ops.value(x)[()] for the entry of a scalar"
_COMPARE = "compare ops.value(x); `where` chooses by a tensor of truth values"
_WRITTEN = "an entry of the record is never written; `where` and scatter_add make another one"
_BITS = ("and", "or", "xor", "lshift", "rshift")

NUMPY = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"}
"""Which ops NumPy's functions are that stand for operators."""


def _instead(name: str) -> str | None:
    """Say what is written for a name that another library has, or None where nothing is known."""
    return INSTEAD.get(name) or call_of(Normalizing, name)


@hints(
    {
        "__rpow__": "write ops.exp(y * constant), with the constant's logarithm",
        "__len__": "write x.shape[0]",
        "__contains__": _COMPARE,
        "__round__": "there is no such op",
        "__array__": "write ops.value(x)",
    }
    | dict.fromkeys(("__floordiv__", "__rfloordiv__"), "write x / y")
    | dict.fromkeys(("__mod__", "__rmod__", "__divmod__", "__rdivmod__"), "there is no such op")
    | dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__", "__invert__"), _COMPARE)
    | {f"__{reverse}{bits}__": _COMPARE for bits in _BITS for reverse in ("", "r")}
    | dict.fromkeys(("__setitem__", "__delitem__"), _WRITTEN)
    | dict.fromkeys(("__bool__", "__float__", "__int__", "__complex__", "__index__"), _VALUE)
)
@answering
class Ref(Indexed, Entry):
    """One tensor of numbers on a session's tape."""

    __slots__ = ()
    _answers_for_both = True  # An array or a tensor beside a ref is refused by the ref.

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **_: Any) -> Any:
        # A number of NumPy beside a ref is an operand; its functions of arrays have ops.
        op = NUMPY.get(function.__name__)
        if op is not None and method == "__call__":
            return getattr(self.session, op)(*inputs)
        name = function.__name__
        instead = _instead(name) or "ops.value(x)"
        raise Unsupported(f"Ref: numpy.{name} is of arrays; write {instead}")

    def __array_function__(self, function: Any, _: Any, inputs: Any, given: Any) -> Any:
        # Functions that ask a method, such as numpy.sum, go on; others have ops.
        name = function.__name__
        instead = None if hasattr(Ref, name) else _instead(name)
        if instead is None:
            return function._implementation(*inputs, **given)
        raise Unsupported(f"Ref: numpy.{name} is of arrays; write {instead}")

    def __format__(self, how: str) -> str:
        if how:
            raise Unsupported(f"Ref: a format such as {how!r} is of a number; {_VALUE}")
        return repr(self)

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
            instead = _instead(name)
            if instead is not None:
                raise Unknown(f"Ref: there is no x.{name}; write {instead}")
            raise unknown("Ref", "attribute", name, _public(Ref))

    def __add__(self, other: Ref | Number) -> Ref:
        return combined(self.session, "add", self, other)

    def __radd__(self, other: Number) -> Ref:
        return combined(self.session, "add", other, self)

    def __sub__(self, other: Ref | Number) -> Ref:
        return combined(self.session, "sub", self, other)

    def __rsub__(self, other: Number) -> Ref:
        return combined(self.session, "sub", other, self)

    def __mul__(self, other: Ref | Number) -> Ref:
        return combined(self.session, "mul", self, other)

    def __rmul__(self, other: Number) -> Ref:
        return combined(self.session, "mul", other, self)

    def __truediv__(self, other: Ref | Number) -> Ref:
        return combined(self.session, "div", self, other)

    def __rtruediv__(self, other: Number) -> Ref:
        return combined(self.session, "div", other, self)

    def __matmul__(self, other: Ref) -> Ref:
        return self.session.matmul(self, other)

    def __rmatmul__(self, other: Ref) -> Ref:
        return self.session.matmul(other, self)

    def __neg__(self) -> Ref:
        # The product with -1 is exact, and turns +0 into -0 where 0 - x would not.
        return combined(self.session, "mul", self, -1)

    def __pow__(self, power: Number) -> Ref:
        if not is_number(power):
            others = "write ops.exp(y * ops.log(x)) for others"
            came = type(power).__name__
            raise Unsupported(f"pow: a power is a number; {others}; got {came}")
        return self.session.pow(self, c=float(power))


@lacking(
    {name: f"write {instead}" for name, instead in INSTEAD.items()} | dict.fromkeys(ABSENT, LISTS),
    "session: there is no op or method {!r}",
)
class Interpreter(Normalizing[Ref]):
    """Whatever runs a program: it records each op, and each number, that the program asks for.

    What other libraries call otherwise is answered; any other name that there is not is refused by
    Python, with the nearest. A `__getattr__` here would say it in our words, and be paid for by
    every op: Python then finds no method or field of a session by its quick way.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Let every session take other libraries' names, and answer calls that do not fit."""
        super().__init_subclass__(**options)
        answering(cls, constructor=True)

    def reshape(self, x: Ref, *, shape: Any) -> Ref:
        """Lay the entries out in another shape, of which one extent may be -1."""
        wanted = resolved(x.shape, shape) if isinstance(x, Ref) else shape
        return super().reshape(x, shape=wanted)

    def split(self, x: Ref, lengths: Lengths, *, axis: int = 0) -> list[Ref]:
        """Cut along an axis into parts of a length, the last may be shorter, or of several."""
        at, parts = cuts(shape_of("split", x), lengths, axis)
        return [self.slice(x, axis=at, start=start, length=length) for start, length in parts]

    def chunk(self, x: Ref, count: int, *, axis: int = 0) -> list[Ref]:
        """Cut an axis into so many parts of one length; the last may be shorter, or missing."""
        return self.split(x, even(shape_of("chunk", x), count, axis), axis=axis)

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
        if not isinstance(keepdims, bool):
            raise Rejected(f"max_with_indices: keepdims is True or False; got {keepdims!r}")
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


def _public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]
