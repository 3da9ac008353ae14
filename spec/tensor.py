"""Chapter 7. Tensors: a tensor is a function on a finite set of indices.

`tabulate` writes the function down, row by row; from then on nothing changes it.
``Tensor[float, L2, L3]`` says in its type what it holds and of which shape, so that a type checker
rejects a mismatched product before anything runs; extents that come from values are plain ``int``
and are checked at run time.

If an extent is a symbol there is nothing to write down: the tensor stays the rule that made it, and
the same page then speaks of all sizes at once.

>>> x = tabulate((2, 3), lambda i, j: 10 * i + j)
>>> x
Tensor([[0, 1, 2], [10, 11, 12]])
>>> x[1, 2], x.map(lambda a: a + 1)[0, 0]
(12, 1)
>>> tensor(memoryview(bytes(range(4))).cast("B", (2, 2)))  # an array of NumPy, say
Tensor([[0, 1], [2, 3]])
"""

# This file is longer than the guide because a tensor reads, shows and converts itself.
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar, TypeVarTuple, cast

from spec.answers import telling
from spec.buffers import ACCEPTED, read
from spec.refusals import OutOfRange, Unknown, Unsupported, hints, nearest, refuse
from spec.scalar import CONSTANTS, remembered, zero_like
from spec.shape import Shape, indices, size

A = TypeVar("A")
B = TypeVar("B")
Dims = TypeVarTuple("Dims")

Nested = Any
"""A scalar, or a list of nested values of equal shape."""


TABLE = 400
"""How many entries a notebook shows as a table; of a larger tensor it shows the text."""

_APPLY = "write OPS['add'](x, y), as spec.ops has it, or record tensors and take a session's ops"
_SIGNS = ("add", "sub", "mul", "truediv", "matmul", "pow", "floordiv", "mod")
_READ = "write x[()] for the entry of a scalar, x.data for all entries, x.nested() for lists"
_COUNTED = (
    "tensor: index {} is outside shape {}; it is counted from the front, from 0; x.data[-1] is the "
    "last entry"
)
_OP = "write OPS[{0!r}](x) if there is such an op, or record x and take a session's ops"
_PUBLIC = ("shape", "rank", "data", "nested", "map", "rule")

_INSTEAD = {
    **dict.fromkeys(("item", "tolist", "numpy"), _READ),
    **dict.fromkeys(("size", "ndim", "dim"), "write x.shape, or x.rank"),
    **dict.fromkeys(("detach", "clone", "copy"), "a tensor is a value that nothing changes"),
    "grad": "a tensor keeps no gradient: grad(f)(x) returns it, and so does backward of a session",
    "requires_grad": "write session.input(x, requires_grad=True)",
    "backward": "write session.backward(y), of a ref y of a session",
}
"""What NumPy's arrays and PyTorch's tensors have, and what is written here; else there are ops."""


@hints(
    {f"__{reverse}{sign}__": _APPLY for sign in _SIGNS for reverse in ("", "r")}
    | dict.fromkeys(("__neg__", "__abs__", "__lt__", "__le__", "__gt__", "__ge__"), _APPLY)
    | dict.fromkeys(("__float__", "__int__", "__complex__", "__index__", "__round__"), _READ)
    | {"__len__": "write x.shape[0], or len(x.data) for the number of entries"}
)
class Tensor(Generic[A, *Dims]):
    """An immutable function from the indices of a shape to scalars of one world."""

    __slots__ = ("_data", "_rule", "shape")

    shape: tuple[*Dims]

    def __init__(self, shape: tuple[*Dims], data: Sequence[A]) -> None:
        """Hold data, the entries in row-major order; their number must be the shape's size."""
        entries = tuple(data)
        if len(entries) != size(_extents(shape)):
            raise refuse("tensor", f"the shape {shape} has {size(shape)} entries", len(entries))
        self.shape = shape
        self._data: tuple[A, ...] | None = entries
        self._rule: Callable[..., A] | None = None

    @classmethod
    def rule(cls, shape: tuple[*Dims], entry: Callable[..., A]) -> Tensor[A, *Dims]:
        """Hold a function of the index itself; the only form a symbolic shape allows."""
        tensor = cls.__new__(cls)
        tensor.shape = shape
        tensor._data = None
        tensor._rule = entry
        return tensor

    @property
    def data(self) -> tuple[A, ...]:
        """The entries in row-major order; a tensor of symbolic shape has none to list."""
        if self._data is None:
            raise ValueError(f"a tensor of symbolic shape {self.shape} cannot list its entries")
        return self._data

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> A:
        """Return one entry; the index has as many components as there are axes."""
        position: Any = index
        if not isinstance(index, tuple):
            position = (index,)
        shape: Any = self.shape
        if self._data is None:
            return cast("Callable[..., A]", self._rule)(*position)
        flat = 0
        if len(position) != len(shape):
            # This is no IndexError, by which Python would take the end of a loop.
            rule = "an index is an integer for each axis; x[()] is the entry of a scalar"
            raise refuse("tensor", rule, f"{position} for shape {shape}")
        try:
            for extent, i in zip(shape, position):  # noqa: B905 - of one length; this is in all loops
                if not 0 <= i < extent:
                    raise OutOfRange(_COUNTED.format(position, shape))
                flat = flat * extent + i
            return self._data[flat]
        except TypeError:
            rule = "an index is an integer for each axis, counted from the front"
            raise refuse("tensor", rule, f"{position} for shape {shape}") from None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse a name, saying how it is written, by which op, or which is nearest."""
            if name.startswith("_"):
                raise AttributeError(f"'Tensor' object has no attribute {name!r}")
            near = nearest(name, _PUBLIC)
            other = f"the nearest are {', '.join(near)}" if near else _OP.format(name)
            raise Unknown(f"Tensor: there is no x.{name}; {_INSTEAD.get(name, other)}")

    def __bool__(self) -> bool:
        """Be true: a tensor is something, whatever it holds, and only None is nothing."""
        return True

    def __format__(self, how: str) -> str:
        """Show it in a text; what formats a number is Unsupported."""
        if how:
            raise Unsupported(f"Tensor: a format such as {how!r} is of a number; {_READ}")
        return repr(self)

    def map(self, function: Callable[[A], B]) -> Tensor[B, *Dims]:
        """Apply a function to every entry."""
        if self._data is None:
            return tabulate(self.shape, lambda *index: function(self[index]))
        return Tensor(self.shape, [function(a) for a in self._data])

    def nested(self) -> Nested:
        """Return the entries as nested lists; the scalar tensor returns its entry."""
        return _nest(cast("tuple[int, ...]", self.shape), self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return an array of NumPy, who asks for it, of this shape and with these entries.

        What NumPy has no type for, such as a Fraction, stays an object in it.
        """
        numpy = sys.modules["numpy"]
        if copy is False:
            raise refuse("tensor", "an array of a tensor is a copy", "copy=False")
        empty = numpy.empty(self.shape, object)
        empty[...] = numpy.array([*self.data, None], object)[:-1].reshape(self.shape)
        plain = {type(entry) for entry in self.data} <= {bool, int, float}
        if dtype is None and plain:
            dtype = numpy.asarray(list(self.data)).dtype
        return empty.astype(object if dtype is None else dtype)

    def __dlpack__(self, **how: Any) -> Any:
        """Hand a copy to PyTorch and others who ask in this way, by NumPy, if it is loaded.

        What they have no type for, such as a Fraction, is Rejected.
        """
        numpy = sys.modules.get("numpy")
        held = None if numpy is None else numpy.array(self)
        if held is None or held.dtype.kind not in "biuf":
            rule = "floats, integers and truth values are handed on, where numpy is imported"
            raise refuse("tensor", rule, "another world" if numpy else "no numpy")
        return held.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Say that its entries are in the memory of the host."""
        return (1, 0)

    def __eq__(self, other: object) -> bool:
        """Compare shape and every entry."""
        if not is_tensor(other):
            return NotImplemented
        return self.shape == other.shape and self.data == other.data

    def __hash__(self) -> int:
        """Hash shape and entries, as equality compares them."""
        return hash((self.shape, self.data))

    def __repr__(self) -> str:
        """Show the entries as nested lists, or the shape where they cannot be listed."""
        if self._data is None:
            return f"Tensor(symbolic shape {self.shape})"
        return f"Tensor({self.nested()!r})"

    def _repr_html_(self) -> str | None:
        """Let a notebook show a vector or a matrix as a table; others are shown as text."""
        if self._data is None or not 1 <= len(self._data) <= TABLE or len(self.shape) > 2:
            return None
        shape = cast("tuple[int, ...]", self.shape)
        wide = shape[-1] if shape else 1
        cells = [f"<td>{escape(str(entry))}</td>" for entry in self._data]
        rows = ("".join(cells[k : k + wide]) for k in range(0, len(cells), wide))
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def is_tensor(x: object) -> TypeGuard[Tensor[Any, *tuple[Any, ...]]]:
    """Tell whether x is a tensor, of any shape and any world."""
    return isinstance(x, Tensor)


def _extents(shape: Any) -> Shape:
    """Return a shape unchanged, or refuse what is none."""
    if not _is_shape(shape):
        raise refuse("tensor", "a shape is a tuple of extents; for one, write (2,)", repr(shape))
    return shape


def _is_shape(shape: Any) -> TypeGuard[Shape]:
    return isinstance(shape, tuple)


def _nest(shape: tuple[int, ...], data: Sequence[Any]) -> Nested:
    if not shape:
        return data[0]
    step = size(shape[1:])
    return [_nest(shape[1:], data[k * step : (k + 1) * step]) for k in range(shape[0])]


@remembered.register(object)
def _forgotten(extent: Any, entry: Callable[..., Any]) -> Callable[..., Any]:
    # A world whose entries are computed when they are asked for registers how to keep them.
    return entry


def tabulate(shape: tuple[*Dims], entry: Callable[..., A]) -> Tensor[A, *Dims]:
    """Return the tensor whose entry at (i, j, ...) is entry(i, j, ...)."""
    extents = _extents(shape)
    if all(isinstance(extent, int) for extent in extents):
        return Tensor(shape, [entry(*index) for index in indices(extents)])
    symbol = next(extent for extent in extents if not isinstance(extent, int))
    kept = cast("Callable[..., A]", remembered(symbol, entry))
    return Tensor[A, *Dims].rule(shape, kept)


@telling
def tensor(nested: Nested) -> Tensor[Any, *tuple[int, ...]]:
    """Read a number, an array, or nested lists of equal lengths, whose shape is that of the firsts.

    Arrays are read as `spec.buffers` says, numbers of other libraries too. Rejected is what holds
    no number of any world, and what is ragged.

    >>> tensor([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    shape: list[int] = []
    level: Any = nested
    held = None if type(nested) in (list, tuple, float, Tensor, *CONSTANTS) else read(nested)
    if held is not None:
        return Tensor(*held)
    while isinstance(level, (list, tuple)):
        row = cast("Sequence[Any]", level)
        shape.append(len(row))
        if not row:
            break
        level = row[0]
    entries: list[Any] = []
    _flatten(nested, tuple(shape), entries)
    strange = set(map(type, entries)).difference(CONSTANTS, zero_like.rules)
    return Tensor(tuple(shape), [_number(a) if type(a) in strange else a for a in entries])


def _number(x: Any) -> Any:
    """Return an entry of a type that no world has registered as a number of one, or refuse it."""
    held = None if is_tensor(x) else read(x)
    if held is not None and held[0] == ():
        return held[1][0]
    if held is None and isinstance(x, tuple(zero_like.rules)):
        return x
    if held is not None:
        raise refuse("tensor", "an array is read alone, not in a list", type(x).__name__)
    kind = cast("type[object]", type(x))
    came = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    rule = (
        "entries are floats, ints, Fractions, truth values or scalars of another world, in lists "
        f"or in an array of {ACCEPTED} (bfloat16 has no buffer format; x.tolist() makes lists)"
    )
    raise refuse("tensor", rule, came)


def _flatten(nested: Nested, shape: tuple[int, ...], into: list[Any]) -> None:
    if not shape:
        if isinstance(nested, (list, tuple)):
            raise _ragged()
        into.append(nested)
        return
    if not isinstance(nested, (list, tuple)):
        raise _ragged()
    row = cast("Sequence[Any]", nested)
    if len(row) != shape[0]:
        raise refuse("tensor", f"nested lists of one length, {shape[0]} here", len(row))
    for part in row:
        _flatten(part, shape[1:], into)


def _ragged() -> ValueError:
    return refuse("tensor", "nested lists of one depth: every row has the same shape", "another")


def zip_map(
    function: Callable[..., B], first: Tensor[Any, *Dims], *rest: Tensor[Any, *Dims]
) -> Tensor[B, *Dims]:
    """Apply a function to the entries of tensors of one shape, index by index.

    >>> zip_map(lambda a, b: a + b, tensor([1, 2]), tensor([10, 20]))
    Tensor([11, 22])
    """
    if all(isinstance(extent, int) for extent in cast("Shape", first.shape)):
        for other in rest:
            if not is_tensor(other) or other.shape != first.shape:
                came = other.shape if is_tensor(other) else type(other).__name__
                raise refuse("tensor", f"tensors of one shape, {first.shape}, are joined", came)
        columns = zip(first.data, *(t.data for t in rest), strict=True)
        return Tensor(first.shape, [function(*column) for column in columns])
    return tabulate(first.shape, lambda *i: function(first[i], *(t[i] for t in rest)))
