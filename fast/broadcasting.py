"""Ops of refs whose shapes differ, and of refs and numbers; the twin of spec.broadcasting.

The page of an op of two tensors wants one shape. Here a number becomes a constant of the other
input's dtype, which the device makes, so that nothing crosses; and a shape that NumPy would
broadcast becomes a `broadcast_to`.
"""

# This file is longer than the guide because every op that sessions call otherwise stands here.

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from fast.device.integers import is_integer, is_number
from fast.einsum import contracted
from fast.errors import Rejected, Unsupported
from fast.indexing import is_mask
from fast.products import common, is_shared, product_axes
from fast.protocol import Ops

Number = int | float | Fraction
R = TypeVar("R")

OPERAND = "an operand is a ref of this session or a number"
"""The rule under which an operand that is neither is refused."""


class Broadcasting(Ops[R]):
    """Ops of several inputs that a session calls with one shape, whatever it is given."""

    __slots__ = ()

    def add(self, x: R | Number, y: R | Number) -> R:
        """Add, broadcasting as NumPy would; a number is a constant of the other's dtype."""
        return combined(self, "add", x, y)

    def sub(self, x: R | Number, y: R | Number) -> R:
        """Subtract, broadcasting as NumPy would."""
        return combined(self, "sub", x, y)

    def mul(self, x: R | Number, y: R | Number) -> R:
        """Multiply entry by entry, broadcasting as NumPy would."""
        return combined(self, "mul", x, y)

    def div(self, x: R | Number, y: R | Number) -> R:
        """Divide entry by entry, broadcasting as NumPy would."""
        return combined(self, "div", x, y)

    def maximum(self, x: R | Number, y: R | Number) -> R:
        """Take the larger entries, broadcasting as NumPy would."""
        return combined(self, "maximum", x, y)

    def minimum(self, x: R | Number, y: R | Number) -> R:
        """Take the smaller entries, broadcasting as NumPy would."""
        return combined(self, "minimum", x, y)

    def where(self, mask: Any, x: R | Number, y: R | Number) -> R:
        """Take x where the mask is true and else y, which broadcast to each other and to the mask.

        Either or both may be numbers; both alone are of the session's own precision.
        """
        ops: Any = self
        _need_mask(mask, x, y)
        one: Any = ops.constant(x) if is_number(x) and is_number(y) else x
        one, other = _refs(ops, "where", one, y)
        shaped = (tensor for tensor in (mask, one, other) if hasattr(tensor, "shape"))
        shape = common("where", *(tuple(tensor.shape) for tensor in shaped))
        return self.apply("where", (mask, _wide(one, shape), _wide(other, shape)), {})

    def linear(self, x: R, w: R, b: R | None = None) -> R:
        """Multiply by w transposed, and add the bias b to every row, if there is one."""
        if b is not None:
            return self.apply("linear", (x, w, b), {})
        wide, deep = shape_of("linear", x), shape_of("linear", w)
        if len(deep) != 2 or wide[-1:] != deep[1:]:
            raise Rejected(
                "linear C2: the last extents of x and w are equal, w has two axes; "
                f"got x of {wide}, w of {deep}"
            )
        rows = self.reshape(x, shape=(math.prod(wide[:-1]), deep[1]))
        product = self.matmul(rows, self.permute(w, axes=(1, 0)))
        return self.reshape(product, shape=(*wide[:-1], deep[0]))

    def matmul(self, x: R, y: R) -> R:
        """Multiply by torch's rules: vectors, matrices, and batches of them, which broadcast.

        A vector in front is a row, and one behind a column, whose axis of one the result lacks.
        """
        ops: Any = self
        a, b = getattr(x, "shape", ()), getattr(y, "shape", ())
        if len(a) == len(b) == 2 or not (_is_own(ops, x) and _is_own(ops, y)):
            return self.apply("matmul", (x, y), {})
        return _multiplied(ops, x, y, a, b)

    def dot(self, x: R, y: R) -> R:
        """Multiply two vectors entry by entry, and add the products up."""
        _need_vectors("dot", shape_of("dot", x), shape_of("dot", y))
        return self.matmul(x, y)

    def outer(self, x: R, y: R) -> R:
        """Multiply each entry of a vector by each of another: a row for each of the first."""
        column = shape_of("outer", x)
        _need_vectors("outer", column, shape_of("outer", y))
        return self.mul(self.reshape(x, shape=(*column, 1)), y)

    def einsum(self, equation: str, *operands: Any) -> R:
        """Sum products over named axes, such as "bij,bjk->bik"; operands are arguments, or a list.

        Rejected says which constraint of fast.einsum is broken.
        """
        ops: Any = self
        given = _listed(operands)
        for x in given:
            shape_of("einsum", x)
            if not _is_own(ops, x):
                ops.apply("mul", (x, x), {})  # It is refused.
        result: R = contracted(equation, given)
        return result

    def concat(self, *xs: Any, axis: int) -> R:
        """Join along an axis; the parts are arguments, or one list."""
        return self.apply("concat", _listed(xs), {"axis": axis})

    def stack(self, *xs: Any, axis: int) -> R:
        """Join along a new axis; the parts are arguments, or one list."""
        return self.apply("stack", _listed(xs), {"axis": axis})


def combined(ops: Any, name: str, x: Any, y: Any) -> Any:
    """Run an op of two tensors on refs that broadcast; of two operands one may be a number."""
    # Every operator of a program comes by here: two refs show their shapes without a call.
    try:
        a, b = x.tape.values[x.id].shape, y.tape.values[y.id].shape
    except (AttributeError, IndexError):
        # One is no ref, or its tape was reset and holds nothing.
        x, y = _refs(ops, name, x, y)
        a, b = x.shape, y.shape
    if a != b:
        shape = common(name, tuple(a), tuple(b))
        x, y = _wide(x, shape), _wide(y, shape)
    return ops.apply(name, (x, y), {})


def refuse_swapped(
    who: str, came: object, rule: str, beside: Sequence[object], inputs: Sequence[str]
) -> None:
    """Refuse integers in the place of a ref, where a ref stands in the place of the integers."""
    if not _is_entry(came) and any(map(_is_entry, beside)) and _integers(came):
        order = f"the order is {who}({', '.join(inputs)})"
        raise Unsupported(f"{who}: {rule}; got {type(came).__name__}; {order}")


def _integers(came: object) -> bool:
    return not is_number(came) and is_integer(came)


def made_a_ref(came: object) -> str:
    """Say how what is no ref becomes one."""
    if hasattr(came, "made_a_ref"):
        return f"{came.made_a_ref}"
    if _integers(came):
        return (
            "integers and truth values are labels and masks, which some ops take as they are; "
            "ops.input(...) makes a ref of numbers to compute with"
        )
    return "input() and const() make a ref of a tensor, use() of a Param, constant() of a number"


def shape_of(name: str, x: Any) -> tuple[int, ...]:
    """Return the shape of a ref, or refuse what is none."""
    if not _is_entry(x):
        came = type(x).__name__
        rule = "the argument is a ref of this session"
        raise Unsupported(f"{name}: {rule}; got {came}; {made_a_ref(x)}")
    return tuple(x.shape)


def _need_mask(mask: Any, x: Any, y: Any) -> None:
    """Refuse what can be no mask of `where`, before numbers beside it are recorded."""
    for one in (x, y):
        refuse_swapped("where", one, OPERAND, (mask,), ("mask", "x", "y"))
    given = isinstance(mask, (list, np.ndarray, Tensor))
    if (given and not is_mask(mask)) or not (given or hasattr(mask, "shape")):
        came = type(mask).__name__
        raise Rejected(f"where C2: the mask is boolean: its entries are True or False; got {came}")


def _is_entry(x: object) -> bool:
    """Say whether this is an entry of a tape, of whichever session, which an op then asks."""
    return hasattr(x, "tape") and hasattr(x, "shape")


def _refs(ops: Any, name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Return two operands as refs, where a number is a constant of the other one's dtype."""
    one, other = _is_entry(x), _is_entry(y)
    if one and other:
        return x, y
    for came, known in ((x, one), (y, other)):
        if not known and not is_number(came):
            raise Unsupported(f"{name}: {OPERAND}; got {type(came).__name__}; {made_a_ref(came)}")
    if not (one or other):
        both = f"{type(x).__name__} and {type(y).__name__}"
        raise Unsupported(f"{name}: of two operands, one at least is a ref; got {both}")
    ref = x if one else y
    if ref.tape is not ops._tape:
        ops.apply(name, (ref, ref), {})  # It is refused, and no constant is recorded before.
    return (x, ops.constant(y, like=x)) if one else (ops.constant(x, like=y), y)


def _wide(x: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast a ref to a shape, where it has another."""
    return x if x.shape == shape else x.session.broadcast_to(x, shape=shape)


def _is_own(ops: Any, x: Any) -> bool:
    """Say whether this holds numbers on the tape on which an op is to be recorded."""
    return _is_entry(x) and x.tape is ops._tape and x.dtype.is_floating_point


def _need_vectors(name: str, *shapes: tuple[int, ...]) -> None:
    if any(len(shape) != 1 for shape in shapes):
        came = " and ".join(map(str, shapes))
        raise Rejected(f"{name}: both operands are vectors; got {came}")


def _multiplied(ops: Any, x: Any, y: Any, a: tuple[int, ...], b: tuple[int, ...]) -> Any:
    """Multiply operands of which one at least is no matrix; a and b are their shapes."""
    lead, rows, columns = product_axes(a, b)
    if x.dtype is not y.dtype:
        raise Rejected(f"matmul: inputs have one dtype, got {x.dtype} and {y.dtype}")
    inner, m, n = a[-1], math.prod(rows), math.prod(columns)
    if is_shared(b):
        # The rows of every place meet the same matrix: they are rows of one product.
        many = _under(x, (math.prod(lead) * m, inner))
        z = ops.apply("matmul", (many, _under(y, (inner, n))), {})
    else:
        z = ops.apply("bmm", (_placed(x, (*lead, m, inner)), _placed(y, (*lead, inner, n))), {})
    return _under(z, (*lead, *rows, *columns))


def _under(x: Any, shape: tuple[int, ...]) -> Any:
    """Read a ref under a shape, where it has another."""
    return x if x.shape == shape else x.session.reshape(x, shape=shape)


def _placed(x: Any, shape: tuple[int, ...]) -> Any:
    """Lay matrices out along one axis, a batch, to which they broadcast."""
    places, matrix = math.prod(shape[:-2]), shape[-2:]
    if is_shared(x.shape):
        return _wide(_under(x, matrix), (places, *matrix))
    return _under(_wide(x, shape), (places, *matrix))


def _listed(xs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(xs[0]) if len(xs) == 1 and isinstance(xs[0], (list, tuple)) else xs
