"""Chapter 4. Tensors: a tensor is a function on a finite set of indices.

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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeGuard, TypeVar, TypeVarTuple, cast

from spec.shape import Shape, indices, size

A = TypeVar("A")
B = TypeVar("B")
Dims = TypeVarTuple("Dims")

Nested = Any
"""A scalar, or a list of nested values of equal shape."""


class Tensor(Generic[A, *Dims]):
    """An immutable function from the indices of a shape to scalars of one world."""

    __slots__ = ("_data", "_rule", "shape")

    shape: tuple[*Dims]

    def __init__(self, shape: tuple[*Dims], data: Sequence[A]) -> None:
        """Hold data, the entries in row-major order; their number must be the shape's size."""
        entries = tuple(data)
        if len(entries) != size(shape):
            raise ValueError(
                f"a tensor of shape {shape} has {size(shape)} entries, got {len(entries)}"
            )
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
        position = index if _is_index(index) else (index,)
        if self._data is None:
            return cast("Callable[..., A]", self._rule)(*position)
        shape = cast("tuple[int, ...]", self.shape)
        flat = 0
        if len(position) != len(shape):
            raise IndexError(f"index {position} does not fit shape {shape}")
        for extent, i in zip(shape, position, strict=True):
            if not 0 <= i < extent:
                raise IndexError(f"index {position} is outside shape {shape}")
            flat = flat * extent + i
        return self._data[flat]

    def map(self, function: Callable[[A], B]) -> Tensor[B, *Dims]:
        """Apply a function to every entry."""
        if self._data is None:
            return tabulate(self.shape, lambda *index: function(self[index]))
        return Tensor(self.shape, [function(a) for a in self._data])

    def nested(self) -> Nested:
        """Return the entries as nested lists; the scalar tensor returns its entry."""
        return _nest(cast("tuple[int, ...]", self.shape), self.data)

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


def is_tensor(x: object) -> TypeGuard[Tensor[Any, *tuple[Any, ...]]]:
    """Tell whether x is a tensor, of any shape and any world."""
    return isinstance(x, Tensor)


def _is_index(index: Any) -> TypeGuard[Shape]:
    return isinstance(index, tuple)


def _nest(shape: tuple[int, ...], data: Sequence[Any]) -> Nested:
    if not shape:
        return data[0]
    step = size(shape[1:])
    return [_nest(shape[1:], data[k * step : (k + 1) * step]) for k in range(shape[0])]


def tabulate(shape: tuple[*Dims], entry: Callable[..., A]) -> Tensor[A, *Dims]:
    """Return the tensor whose entry at (i, j, ...) is entry(i, j, ...)."""
    extents = cast("Shape", shape)
    if all(isinstance(extent, int) for extent in extents):
        return Tensor(shape, [entry(*index) for index in indices(extents)])
    return Tensor[A, *Dims].rule(shape, entry)


def tensor(nested: Nested) -> Tensor[Any, *tuple[int, ...]]:
    """Read nested lists of equal lengths; the shape is read off the first of each.

    >>> tensor([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    shape: list[int] = []
    level: Any = nested
    while isinstance(level, (list, tuple)):
        row = cast("Sequence[Any]", level)
        shape.append(len(row))
        if not row:
            break
        level = row[0]
    entries: list[Any] = []
    _flatten(nested, tuple(shape), entries)
    return Tensor(tuple(shape), entries)


def _flatten(nested: Nested, shape: tuple[int, ...], into: list[Any]) -> None:
    if not shape:
        if isinstance(nested, (list, tuple)):
            raise ValueError("nested lists have unequal depths; every row needs the same shape")
        into.append(nested)
        return
    if not isinstance(nested, (list, tuple)):
        raise ValueError("nested lists have unequal depths; every row needs the same shape")
    row = cast("Sequence[Any]", nested)
    if len(row) != shape[0]:
        raise ValueError(
            f"nested lists have unequal lengths: expected {shape[0]} entries, got {len(row)}"
        )
    for part in row:
        _flatten(part, shape[1:], into)


def zip_map(
    function: Callable[..., B], first: Tensor[Any, *Dims], *rest: Tensor[Any, *Dims]
) -> Tensor[B, *Dims]:
    """Apply a function to the entries of tensors of one shape, index by index.

    >>> zip_map(lambda a, b: a + b, tensor([1, 2]), tensor([10, 20]))
    Tensor([11, 22])
    """
    if all(isinstance(extent, int) for extent in cast("Shape", first.shape)):
        columns = zip(first.data, *(t.data for t in rest), strict=True)
        return Tensor(first.shape, [function(*column) for column in columns])
    return tabulate(first.shape, lambda *i: function(first[i], *(t[i] for t in rest)))
