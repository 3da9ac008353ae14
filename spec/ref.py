"""Chapter 23. Refs: what a program holds in its hands, handles with the operators of a tensor.

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

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spec.indexing import Indexed, Parts, resolved
from spec.op import AnyTensor, Op, checked, refuse
from spec.ops import OPS
from spec.protocol import Ops
from spec.record import Record
from spec.refusals import Unknown, hints, listed, members, unknown
from spec.rng import Draws
from spec.scalar import lift, zero_like
from spec.several import apart
from spec.shape import Shape, broadcast, is_extent
from spec.tensor import is_tensor, tabulate
from spec.worlds import Number, is_number

T = TypeVar("T", bound=Record)


_VALUE = "write ops.value(x)[()] for the entry of a scalar"
_COMPARE = "compare ops.value(x); `where` chooses by a tensor of truth values"


@hints(
    {
        "__rpow__": "write ops.exp(y * constant), with the constant's logarithm",
        "__floordiv__": "write x / y",
        "__rfloordiv__": "write x / y",
        "__mod__": "there is no such op",
        "__rmod__": "there is no such op",
        "__rmatmul__": "a product of matrices is of two refs",
        "__len__": "write x.shape[0]",
    }
    | dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__"), _COMPARE)
    | dict.fromkeys(("__bool__", "__float__", "__int__"), _VALUE)
)
class Ref(Indexed):
    """A handle on an entry of an interpreter's record, with the operators of a tensor."""

    __slots__ = ("id", "session", "tape")
    session: Interpreter[Any]
    __array_ufunc__ = None  # NumPy leaves operators to the ref, which refuses its arrays by name.

    def __init__(self, session: Interpreter[Any], id: int) -> None:
        """Point at an entry of what the interpreter records on at present."""
        self.session = session
        self.tape: Record = session.tape
        self.id = id

    @property
    def shape(self) -> Shape:
        """The shape of the entry's value."""
        return tuple(self.tape.value(self.id).shape)

    def __repr__(self) -> str:
        """Show which entry it is, of what name or made by which op, and its shape."""
        return f"Ref(x{self.id} {self.tape.label(self.id)}, shape {self.shape})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse a name, saying how it is written if a session has it."""
            if name.startswith("_") or name in Ref.__slots__:
                raise AttributeError(f"'Ref' object has no attribute {name!r}")
            if hasattr(type(self.session), name):
                raise Unknown(f"Ref: there is no x.{name}; write ops.{name}(x)")
            raise unknown("Ref", "attribute", name, members(self))

    def __add__(self, other: Ref | Number) -> Ref:
        """Add, broadcasting as NumPy would; a number is a constant of this ref's world."""
        return self.session.add(*_aligned(self, self._operand(other)))

    def __radd__(self, other: Number) -> Ref:
        """Add to a number."""
        return self.session.add(*_aligned(self._operand(other), self))

    def __sub__(self, other: Ref | Number) -> Ref:
        """Subtract, broadcasting as NumPy would."""
        return self.session.sub(*_aligned(self, self._operand(other)))

    def __rsub__(self, other: Number) -> Ref:
        """Subtract from a number."""
        return self.session.sub(*_aligned(self._operand(other), self))

    def __mul__(self, other: Ref | Number) -> Ref:
        """Multiply entry by entry, broadcasting as NumPy would."""
        return self.session.mul(*_aligned(self, self._operand(other)))

    def __rmul__(self, other: Number) -> Ref:
        """Multiply a number."""
        return self.session.mul(*_aligned(self._operand(other), self))

    def __truediv__(self, other: Ref | Number) -> Ref:
        """Divide entry by entry, broadcasting as NumPy would."""
        return self.session.div(*_aligned(self, self._operand(other)))

    def __rtruediv__(self, other: Number) -> Ref:
        """Divide a number."""
        return self.session.div(*_aligned(self._operand(other), self))

    def __matmul__(self, other: Ref) -> Ref:
        """Multiply matrices; a number is none."""
        return self.session.matmul(self, other)

    def __neg__(self) -> Ref:
        """Multiply by -1, which is exact and takes +0 to -0, where 0 - x would not."""
        return self * -1

    def _operand(self, other: object) -> Ref:
        """Return the other operand as a ref, or refuse what is neither one nor a number."""
        if is_number(other):
            return self.session.constant(other, like=self)
        if not isinstance(other, Ref):
            rule = "an operand is a ref of this session, an int, a float or a Fraction"
            raise refuse("operator", f"{rule} ({_REFS})", type(other).__name__)
        return self.session.own("operator", other)


TAKES = "a program is a function of an interpreter and a ref for each of its tensors"
"""The rule under which a program that is none is refused."""

_REFS = "use() makes a ref of a Param, input() and const() of a tensor, constant() of a number"


def _aligned(x: Ref, y: Ref) -> tuple[Ref, Ref]:
    """Insert the broadcasts that an operator implies."""
    if x.shape == y.shape:
        return x, y
    shape = broadcast(x.shape, y.shape)
    if shape is None:
        raise refuse("operator", "the shapes broadcast to a common one", f"{x.shape}, {y.shape}")
    both = (r if r.shape == shape else r.session.broadcast_to(r, shape=shape) for r in (x, y))
    first, second = both
    return first, second


class Interpreter(Draws, Parts, Ops[Ref], Generic[T]):
    """Whatever runs a program: it records each op that the program asks for."""

    def __init__(self, tape: T) -> None:
        """Record on what is given: a tape, or what stands in its place."""
        self.tape = tape

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse the name of an op or a method that there is not, with the nearest."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise unknown("session", "op or method", name, OPS, members(self))

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
        """Apply an op to refs of this interpreter; index inputs may also be tensors of ints.

        Several results are a tuple. What is Rejected, or fails as it computes, leaves no trace.
        """
        op = OPS.get(name)
        if op is None:
            raise unknown("session", "op", name, OPS)
        given = [
            x if k in op.index_inputs and is_tensor(x) else self._given(op, k, x).id
            for k, x in enumerate(inputs)
        ]
        whole = self.with_counter(op, attributes)
        made = Ref(self, self.tape.apply(op, *given, **whole))
        self.count_call(op)
        return made if op.results is None else apart(self, made, op, inputs, whole)

    def _given(self, op: Op, k: int, x: object) -> Ref:
        """Return an input of an op, or refuse it; what an index input takes is more."""
        if k in op.index_inputs and not isinstance(x, Ref):
            entries = "truth values" if k in op.mask_inputs else "integers"
            rule = f"{op.inputs[k]} is a ref of this session or a tensor of {entries}"
            raise refuse(op.name, rule, type(x).__name__)
        ref = self.own(op.name, x)
        maker = self.tape.maker(ref.id)
        if k not in op.index_inputs and maker is not None and maker.kind == "positions":
            raise refuse(op.name, "integers of an op are taken for indices only", maker.name)
        return ref

    def own(self, who: str, ref: object) -> Ref:
        """Return a ref unchanged, or refuse what is none, or none of the present record."""
        rule = "arguments are refs of this session, made since its last reset"
        if not isinstance(ref, Ref):
            raise refuse(who, f"{rule} ({_REFS})", type(ref).__name__)
        if ref.tape is not self.tape:
            raise refuse(who, rule, f"node {ref.id} of another tape")
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
