"""Chapter 27. Broadcasting: ops of refs whose shapes differ, and of refs and numbers.

The page of an op of two tensors wants one shape, so that its derivatives say nothing of shapes. A
session makes it so: a number becomes a constant of the other input's world, and a shape that NumPy
would broadcast becomes a `broadcast_to`, the derivative of which is a sum.

>>> from spec.session import Session
>>> from spec.tensor import tensor
>>> ops = Session()
>>> column, row = ops.input(tensor([[1], [2]])), ops.input(tensor([10, 20]))
>>> ops.value(ops.add(column, row))
Tensor([[11, 21], [12, 22]])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.einsum import contracted
from spec.products import common, is_shared, product_axes
from spec.protocol import Ops
from spec.refusals import Unsupported, refuse
from spec.shape import Shape
from spec.worlds import Number, is_number

R = TypeVar("R")

OPERAND = "an operand is a ref of this session or a number"
"""The rule under which an operand that is neither is refused."""


class Broadcasting(Ops[R]):
    """Ops of several inputs that a session calls with one shape, whatever it is given."""

    def add(self, x: R | Number, y: R | Number) -> R:
        """Add, broadcasting as NumPy would; a number is a constant of the other's world."""
        return self._of_two("add", x, y)

    def sub(self, x: R | Number, y: R | Number) -> R:
        """Subtract, broadcasting as NumPy would."""
        return self._of_two("sub", x, y)

    def mul(self, x: R | Number, y: R | Number) -> R:
        """Multiply entry by entry, broadcasting as NumPy would."""
        return self._of_two("mul", x, y)

    def div(self, x: R | Number, y: R | Number) -> R:
        """Divide entry by entry, broadcasting as NumPy would."""
        return self._of_two("div", x, y)

    def maximum(self, x: R | Number, y: R | Number) -> R:
        """Take the larger entries, broadcasting as NumPy would."""
        return self._of_two("maximum", x, y)

    def minimum(self, x: R | Number, y: R | Number) -> R:
        """Take the smaller entries, broadcasting as NumPy would."""
        return self._of_two("minimum", x, y)

    def where(self, mask: Any, x: R | Number, y: R | Number) -> R:
        """Take x where the mask is true and else y, which broadcast to each other and to the mask.

        Either or both may be numbers; both alone are of the session's own world.
        """
        ops: Any = self
        ops.need_mask(mask, x, y)
        one: Any = ops.constant(x) if is_number(x) and is_number(y) else x
        one, other = self._refs("where", one, y)
        shaped = (tensor for tensor in (mask, one, other) if hasattr(tensor, "shape"))
        shape = common("where", *(tuple(tensor.shape) for tensor in shaped))
        return self.apply("where", (mask, _wide(one, shape), _wide(other, shape)), {})

    def linear(self, x: R, w: R, b: R | None = None) -> R:
        """Multiply by w transposed, and add the bias b to every row, if there is one."""
        if b is not None:
            return self.apply("linear", (x, w, b), {})
        ops: Any = self
        wide, deep = ops.own("linear", x).shape, ops.own("linear", w).shape
        if len(deep) != 2 or wide[-1:] != deep[1:]:
            rule = "the last extents of x and w are equal, w has two axes"
            raise refuse("linear C2", rule, f"x of {wide}, w of {deep}")
        rows = self.reshape(x, shape=(math.prod(wide[:-1]), deep[1]))
        product = self.matmul(rows, self.permute(w, axes=(1, 0)))
        return self.reshape(product, shape=(*wide[:-1], deep[0]))

    def matmul(self, x: R, y: R) -> R:
        """Multiply by torch's rules: vectors, matrices, and batches of them, which broadcast.

        A vector in front is a row, and one behind a column, whose axis of one the result lacks.
        """
        ops: Any = self
        if any(getattr(one, "session", None) is not self for one in (x, y)):
            # What is no ref of this session is refused there.
            return self.apply("matmul", (x, y), {})
        left, right = ops.own("matmul", x).shape, ops.own("matmul", y).shape
        if len(left) == len(right) == 2:
            return self.apply("matmul", (x, y), {})
        lead, rows, columns = product_axes(left, right)
        inner = left[-1]
        if is_shared(right):
            # One matrix for all places multiplies the rows of all of them.
            many = _laid(x, (math.prod(left[:-1]), inner))
            product = self.matmul(many, _laid(y, (inner, math.prod(columns))))
        else:
            many = _placed(x, (*lead, math.prod(rows), inner))
            product = self.bmm(many, _placed(y, (*lead, inner, *columns)))
        result: R = _laid(product, (*lead, *rows, *columns))
        return result

    def dot(self, x: R, y: R) -> R:
        """Multiply two vectors entry by entry, and add the products up."""
        ops: Any = self
        shapes = ops.own("dot", x).shape, ops.own("dot", y).shape
        if not len(shapes[0]) == len(shapes[1]) == 1:
            raise refuse("dot", "both operands are vectors", f"{shapes[0]} and {shapes[1]}")
        return self.matmul(x, y)

    def outer(self, x: R, y: R) -> R:
        """Multiply each entry of a vector by each of another: a row for each of the first."""
        ops: Any = self
        shapes = ops.own("outer", x).shape, ops.own("outer", y).shape
        if not len(shapes[0]) == len(shapes[1]) == 1:
            raise refuse("outer", "both operands are vectors", f"{shapes[0]} and {shapes[1]}")
        return self.mul(self.reshape(x, shape=(*shapes[0], 1)), y)

    def einsum(self, equation: str, *operands: Any) -> R:
        """Sum products over named axes, such as "bij,bjk->bik"; operands are arguments, or a list.

        Rejected says which constraint of spec.einsum is broken.
        """
        ops: Any = self
        result: R = contracted(equation, [ops.own("einsum", x) for x in _listed(operands)])
        return result

    def concat(self, *xs: Any, axis: int) -> R:
        """Join along an axis; the parts are arguments, or one list."""
        return self.apply("concat", _listed(xs), {"axis": axis})

    def stack(self, *xs: Any, axis: int) -> R:
        """Join along a new axis; the parts are arguments, or one list."""
        return self.apply("stack", _listed(xs), {"axis": axis})

    def _of_two(self, name: str, x: Any, y: Any) -> R:
        x, y = self._refs(name, x, y)
        shape = common(name, x.shape, y.shape)
        return self.apply(name, (_wide(x, shape), _wide(y, shape)), {})

    def _refs(self, name: str, x: Any, y: Any) -> tuple[Any, Any]:
        """Return two operands as refs, where a number is a constant of the other one's world."""
        ops: Any = self
        if is_number(x) and is_number(y):
            came = f"{type(x).__name__} and {type(y).__name__}"
            raise Unsupported(f"{name}: of two operands, one at least is a ref; got {came}")
        for one in (x, y):
            if not is_number(one):
                ops.own(name, one, OPERAND)
        if is_number(x):
            return ops.constant(x, like=y), y
        return x, ops.constant(y, like=x) if is_number(y) else y


def _wide(x: Any, shape: Shape) -> Any:
    """Broadcast a ref to a shape, where it has another."""
    return x if x.shape == shape else x.session.broadcast_to(x, shape=shape)


def _laid(x: Any, shape: Shape) -> Any:
    """Lay a ref out in a shape, where it has another."""
    return x if x.shape == shape else x.session.reshape(x, shape=shape)


def _placed(x: Any, shape: Shape) -> Any:
    """Lay matrices out along one axis, a batch, to which they broadcast."""
    places, matrix = math.prod(shape[:-2]), shape[-2:]
    if is_shared(x.shape):
        return _wide(_laid(x, matrix), (places, *matrix))
    return _laid(_wide(x, shape), (places, *matrix))


def _listed(xs: tuple[Any, ...]) -> tuple[Any, ...]:
    first: Any = xs[0] if len(xs) == 1 else None
    return tuple(first) if type(first) in (list, tuple) else xs
