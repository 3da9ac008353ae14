"""Chapter 29. Refs: what a program holds in its hands, handles with the operators of a tensor.

A program is run by an interpreter, which records what it does: on a tape, or in a graph.
A number beside a ref is a constant of the ref's world.
A refused op leaves no trace there.

>>> from spec.tape import Tape
>>> from spec.tensor import tensor
>>> ops = Interpreter(Tape())
>>> x, y = ops.const(tensor([[6.0], [8.0]])), ops.const(tensor([2.0, 1.0]))
>>> ops.value(ops.sum(x * y, axes=(0,))), ops.value(1 - y / 2)
(Tensor([28.0, 14.0]), Tensor([0.0, 0.5]))
"""

# This file is longer than the guide because a ref and what hands it out are one thing.
from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spec.answers import INSTEAD, LISTS, answering, call_of, unfamiliar
from spec.broadcasting import OPERAND
from spec.indexing import Indexed, Parts, resolved
from spec.named import Holding
from spec.normalizing import Normalizing
from spec.op import AnyTensor, Op, checked, holds, holds_integers, refuse
from spec.ops import OPS
from spec.record import Record
from spec.refusals import Rejected, Unknown, Unsupported, hints, listed, members, unknown
from spec.rng import Draws
from spec.scalar import lift, zero_like
from spec.several import apart, types_of
from spec.shape import Shape, is_extent
from spec.tensor import is_tensor, tabulate, tensor
from spec.worlds import Number, is_number

T = TypeVar("T", bound=Record)


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
class Ref(Indexed):
    """A handle on an entry of an interpreter's record, with the operators of a tensor."""

    __slots__ = ("id", "session", "tape")
    session: Interpreter[Any]
    _answers_for_both = True  # An array or a tensor beside a ref is refused by the ref.

    def __init__(self, session: Interpreter[Any], id: int) -> None:
        """Point at an entry of what the interpreter records on at present."""
        self.session = session
        self.tape: Record = session.tape
        self.id = id

    @property
    def shape(self) -> Shape:
        """The shape of the entry's value."""
        return tuple(self.tape.value(self.id).shape)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """Answer NumPy: a number beside a ref is an operand, and functions of arrays have ops."""
        op = NUMPY.get(function.__name__)
        if op is not None and method == "__call__":
            return getattr(self.session, op)(*inputs)
        name = function.__name__
        instead = _instead(name) or "ops.value(x)"
        raise Unsupported(f"Ref: numpy.{name} is of arrays; write {instead}")

    def __array_function__(self, function: Any, _: Any, inputs: Any, given: Any) -> Any:
        """Answer NumPy's functions of arrays: those that ask a method go on, others have ops."""
        name = function.__name__
        instead = None if hasattr(Ref, name) else _instead(name)
        if instead is None:
            return function._implementation(*inputs, **given)
        raise Unsupported(f"Ref: numpy.{name} is of arrays; write {instead}")

    def __format__(self, how: str) -> str:
        """Show it in a text; what formats a number is Unsupported."""
        if how:
            raise Unsupported(f"Ref: a format such as {how!r} is of a number; {_VALUE}")
        return repr(self)

    def __repr__(self) -> str:
        """Show which entry it is, of what name or made by which op, and its shape."""
        return f"Ref(x{self.id} {self.tape.label(self.id)}, shape {self.shape})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse a name, saying how it is written if a session has it."""
            if name.startswith("_") or name in Ref.__slots__:
                raise AttributeError(f"'Ref' object has no attribute {name!r}")
            instead = _instead(name)
            if instead is not None:
                raise Unknown(f"Ref: there is no x.{name}; write {instead}")
            raise unknown("Ref", "attribute", name, members(self))

    def __add__(self, other: Ref | Number) -> Ref:
        """Add, broadcasting as NumPy would; a number is a constant of this ref's world."""
        return self.session.add(self, other)

    def __radd__(self, other: Number) -> Ref:
        """Add to a number."""
        return self.session.add(other, self)

    def __sub__(self, other: Ref | Number) -> Ref:
        """Subtract, broadcasting as NumPy would."""
        return self.session.sub(self, other)

    def __rsub__(self, other: Number) -> Ref:
        """Subtract from a number."""
        return self.session.sub(other, self)

    def __mul__(self, other: Ref | Number) -> Ref:
        """Multiply entry by entry, broadcasting as NumPy would."""
        return self.session.mul(self, other)

    def __rmul__(self, other: Number) -> Ref:
        """Multiply a number."""
        return self.session.mul(other, self)

    def __truediv__(self, other: Ref | Number) -> Ref:
        """Divide entry by entry, broadcasting as NumPy would."""
        return self.session.div(self, other)

    def __rtruediv__(self, other: Number) -> Ref:
        """Divide a number."""
        return self.session.div(other, self)

    def __matmul__(self, other: Ref) -> Ref:
        """Multiply matrices; a number is none."""
        return self.session.matmul(self, other)

    def __rmatmul__(self, other: Ref) -> Ref:
        """Refuse what is no ref in front of one."""
        return self.session.matmul(other, self)

    def __neg__(self) -> Ref:
        """Multiply by -1, which is exact and takes +0 to -0, where 0 - x would not."""
        return self * -1


def refuse_swapped(
    who: str, came: object, rule: str, beside: Sequence[object], inputs: Sequence[str]
) -> None:
    """Refuse integers in the place of a ref, where a ref stands in the place of the integers."""
    if not isinstance(came, Ref) and any(isinstance(x, Ref) for x in beside) and _integers(came):
        order = f"the order is {who}({', '.join(inputs)})"
        raise Unsupported(f"{who}: {rule}; got {type(came).__name__}; {order}")


TAKES = "a program is called as f(ops, *refs), where ops has the ops, with a ref for each tensor"
"""The rule under which a program that is none is refused."""

RETURNS = "a program returns a ref of its session"
"""The rule under which a result that is none is refused."""

_RULE = "the argument is a ref of this session"


def _read(x: Any) -> Any:
    """Return integers or truth values of an index input as a tensor; a ref is one already."""
    if isinstance(x, Ref) or is_tensor(x) or not (isinstance(x, list) or hasattr(x, "shape")):
        return x
    return tensor(x)


def _as_they_are(op: Op) -> str:
    """Say which inputs of an op are no refs, as who has swapped two wants to know."""
    return "".join(
        f", and {op.inputs[k]} takes {'truth values' if k in op.mask_inputs else 'integers'} as "
        "they are"
        for k in op.index_inputs
    )


def _integers(came: object) -> bool:
    """Say whether this holds integers or truth values, which no op computes with."""
    try:
        held = _read(came)
    except Rejected:
        return False  # Nothing that a tensor can be read off.
    return is_tensor(held) and holds_integers(held)


def _made(came: object) -> str:
    """Say how what is no ref becomes one."""
    if _integers(came):
        return (
            "integers and truth values are labels and masks, which some ops take as they are; "
            "ops.input(...) makes a ref of numbers to compute with"
        )
    return "input() and const() make a ref of a tensor, use() of a Param, constant() of a number"


class Interpreter(Draws, Holding, Parts, Normalizing[Ref], Generic[T]):
    """Whatever runs a program: it records each op that the program asks for."""

    def __init__(self, tape: T) -> None:
        """Record on what is given: a tape, or what stands in its place."""
        self.tape = tape

    def __init_subclass__(cls, **options: Any) -> None:
        """Let every session take other libraries' names, and answer calls that do not fit."""
        super().__init_subclass__(**options)
        answering(cls, constructor=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse the name of an op or a method, saying what is written here or is nearest."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            known = (*OPS, *members(self))
            raise unfamiliar("session", "op or method", name, known, LISTS)

    def const(self, value: AnyTensor) -> Ref:
        """Record a tensor of any shape that takes no gradient; at any time.

        What is no tensor is Rejected; `constant` takes numbers.
        """
        return Ref(self, self.tape.const(checked("const", value)))

    def constant(self, value: Any, shape: Shape = (), like: Ref | None = None) -> Ref:
        """Record one number, rounded once and repeated to a shape; it takes no gradient.

        The value is an int, a float or a Fraction; it enters the world of like's entries, or of the
        session's own `like` where like is None or empty. What does not fit is Rejected.
        """
        entries = () if like is None else self.tape.value(self.own("constant", like).id).data
        if not is_number(value):
            raise refuse("constant", "the value is an int, a float or a Fraction", repr(value))
        extents = listed("constant", "the shape is a tuple of integers >= 0", shape)
        if not all(is_extent(n) for n in extents):
            raise refuse("constant", "every extent is an integer >= 0", tuple(extents))
        number = _entered(value, entries[0] if entries else self.like)
        return self.const(tabulate(tuple(extents), lambda *_: number))

    def reshape(self, x: Ref, *, shape: Any) -> Ref:
        """Lay the entries out in another shape, of which one extent may be -1."""
        return super().reshape(x, shape=resolved(self.own("reshape", x).shape, shape))

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Apply an op to refs of this interpreter; index inputs may also be integers as they are.

        Several results are a tuple. What is Rejected, or fails as it computes, leaves no trace.
        """
        asked: Any = name
        op = OPS.get(name) if isinstance(asked, str) else None
        if op is None:
            raise unfamiliar("session", "op", name, OPS, LISTS)
        for attribute, value in attributes.items():
            if isinstance(value, Ref):
                rule = f"{attribute} is an attribute, which is plain data and takes no gradient"
                raise refuse(op.name, rule, "Ref")
        read = [_read(x) if k in op.index_inputs else x for k, x in enumerate(inputs)]
        held = self._contents(op, inputs)
        given = [
            held[k]
            if k in held
            else x
            if k in op.index_inputs and is_tensor(x)
            else self._given(op, k, read).id
            for k, x in enumerate(read)
        ]
        whole = self._with_counter(op, attributes)
        made = Ref(self, self.tape.apply(op, *given, **whole))
        self._count_call(op)
        if op.results is None:
            return made
        if not held:
            return apart(self, made, op, inputs, whole)
        types = types_of(op, inputs, whole)
        self._update_buffers(op, inputs, self.value(made), types)
        first, *others = apart(self, made, op, inputs, whole, len(types) - len(held))
        return (first, *others) if others else first

    def _given(self, op: Op, k: int, inputs: Sequence[object]) -> Ref:
        """Return an input of an op, or refuse it; what an index input takes is more."""
        x = inputs[k]
        if k in op.index_inputs and not isinstance(x, Ref):
            entries = "truth values" if k in op.mask_inputs else "integers"
            rule = f"{op.inputs[k]} is a ref of this session or a tensor of {entries}"
            raise refuse(op.name, rule, type(x).__name__)
        rule = f"{op.input_name(k)} is a ref of this session{_as_they_are(op)}"
        if not isinstance(x, Ref):
            beside = [inputs[j] for j in op.index_inputs if j < len(inputs)]
            refuse_swapped(op.name, x, rule, beside, op.inputs)
        ref = self.own(op.name, x, rule)
        maker = self.tape.maker(ref.id)
        if k not in op.index_inputs and maker is not None and maker.kind == "positions":
            raise refuse(op.name, "integers of an op are taken for indices only", maker.name)
        return ref

    def need_mask(self, mask: object, x: object, y: object) -> None:
        """Refuse what can be no mask of `where`, before numbers beside it are recorded."""
        for one in (x, y):
            refuse_swapped("where", one, OPERAND, (mask,), ("mask", "x", "y"))
        held = _read(mask)
        if isinstance(held, Ref):
            self.own("where", held)
        elif not is_tensor(held) or not holds(held, bool):
            rule = "mask is a ref of this session or a tensor of truth values"
            raise refuse("where", rule, type(mask).__name__)

    def own(self, who: str, ref: object, rule: str = _RULE) -> Ref:
        """Return a ref unchanged, or refuse what is none, or none of the present record."""
        if not isinstance(ref, Ref):
            raise Unsupported(f"{who}: {rule}; got {type(ref).__name__}; {_made(ref)}")
        if ref.tape is not self.tape:
            whose = "from before reset_tape()" if ref.session is self else "of another session"
            remedy = "what a program uses comes in by its arguments, or by ops.const(tensor)"
            raise refuse(who, rule, f"x{ref.id} {whose}; {remedy}")
        return ref

    def value(self, ref: Ref) -> AnyTensor:
        """Return the value of an entry, a tensor that nobody can change.

        A ref of another session, or from before a reset, is Rejected.
        """
        return self.tape.value(self.own("value", ref).id)


def _entered(value: Number, like: Any) -> Any:
    """Take a number into the world of like; infinities and NaN only where that world has them."""
    if isinstance(value, float) and not math.isfinite(value):
        special = zero_like(like) + value
        if type(special) is not type(like):
            raise refuse("constant", f"a number of the world {type(like).__name__}", value)
        return special
    number = lift(like, Fraction(value))
    # No fraction is -0.0, so its sign comes in afterwards.
    return -number if value == 0 and math.copysign(1.0, value) < 0 else number
