"""Chapter 24. Broadcasting: ops of refs whose shapes differ, and of refs and numbers.

The page of an op of two tensors wants one shape, so that its derivatives say nothing of shapes. A
session makes it so: a number becomes a constant of the other input's world, and a shape that NumPy
would broadcast becomes a `broadcast_to`, the derivative of which is a sum.

>>> common("add", (2, 1), (3,))
(2, 3)
"""

# This file is longer than the guide because every op that sessions call otherwise stands here.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from spec.protocol import Ops
from spec.refusals import Unsupported, refuse
from spec.shape import Shape, broadcast
from spec.worlds import Number, is_number

R = TypeVar("R")

OPERAND = "an operand is a ref of this session or a number"
"""The rule under which an operand that is neither is refused."""


def common(who: str, *shapes: Shape) -> Shape:
    """Return the shape to which NumPy broadcasts all of these; who is named where there is none."""
    found: Shape = ()
    for shape in shapes:
        both = broadcast(found, shape)
        if both is None:
            came = " and ".join(map(str, shapes))
            raise refuse(who, "the shapes broadcast to a common one", came)
        found = both
    return found


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

    def layer_norm(
        self,
        x: R,
        gamma: R | None = None,
        beta: R | None = None,
        *,
        eps: float = 1e-5,
        normalized_shape: Sequence[int] | None = None,
    ) -> R:
        """Normalize the last axes, those of gamma and beta; without both, of normalized_shape.

        A gamma that is None is ones, and a beta zeros.
        """
        given: tuple[Any, ...] = (gamma, beta)
        if gamma is None or beta is None or normalized_shape is not None:
            given = self._lines("layer_norm", x, given, (1, 0), eps, normalized_shape)
        return self.apply("layer_norm", (x, *given), {"eps": eps})

    def rms_norm(
        self,
        x: R,
        gamma: R | None = None,
        *,
        eps: float = 2**-23,
        normalized_shape: Sequence[int] | None = None,
    ) -> R:
        """Divide the last axes, those of gamma, by their root mean square; without it, by ones.

        Then normalized_shape says which axes these are.
        """
        given: tuple[Any, ...] = (gamma,)
        if gamma is None or normalized_shape is not None:
            given = self._lines("rms_norm", x, given, (1,), eps, normalized_shape)
        return self.apply("rms_norm", (x, *given), {"eps": eps})

    def group_norm(
        self,
        x: R,
        gamma: R | None = None,
        beta: R | None = None,
        *,
        groups: int,
        eps: float = 1e-5,
    ) -> R:
        """Normalize groups of channels; a gamma that is None is ones, and a beta zeros."""
        given: tuple[Any, ...] = (gamma, beta)
        if gamma is None or beta is None:
            given = self._of_channels(x, given, groups, eps)
        return self.apply("group_norm", (x, *given), {"groups": groups, "eps": eps})

    def instance_norm(
        self, x: R, gamma: R | None = None, beta: R | None = None, *, eps: float = 1e-5
    ) -> R:
        """Normalize each channel by itself: `group_norm`, with as many groups as channels."""
        ops: Any = self
        channels = ops.own("instance_norm", x).shape[1:2]
        return self.group_norm(x, gamma, beta, groups=max((1, *channels)), eps=eps)

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
        lead, rows, columns = _multiplied(left, right)
        inner = left[-1]
        if math.prod(right[:-2]) == 1:
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

    def concat(self, *xs: Any, axis: int) -> R:
        """Join along an axis; the parts are arguments, or one list."""
        return self.apply("concat", _listed(xs), {"axis": axis})

    def stack(self, *xs: Any, axis: int) -> R:
        """Join along a new axis; the parts are arguments, or one list."""
        return self.apply("stack", _listed(xs), {"axis": axis})

    def _lines(
        self,
        name: str,
        x: Any,
        given: Sequence[Any],
        numbers: Sequence[int],
        eps: float,
        normalized_shape: Sequence[int] | None,
    ) -> tuple[Any, ...]:
        """Return the parameters of a normalizer: of those that are None, one number repeated.

        What is refused here would be by the op, but then these would be recorded already.
        """
        ops: Any = self
        wide = ops.own(name, x).shape
        shapes = {ops.own(name, one).shape for one in given if one is not None}
        if normalized_shape is not None:
            shapes.add(_shape(name, normalized_shape))
        if len(shapes) != 1:
            rule = (
                "a parameter or normalized_shape says which of the last axes are normalized, such "
                f"as normalized_shape={wide[-1:]}, and all that are given agree"
            )
            raise refuse(f"{name} C2", rule, " and ".join(map(str, sorted(shapes))) or "neither")
        (shape,) = shapes
        if not 0 < len(shape) <= len(wide) or wide[-len(shape) :] != shape:
            raise refuse(f"{name} C2", f"the last axes of x, one or more, are {shape}", wide)
        if not (is_number(eps) and 0 < eps < math.inf):
            raise refuse(f"{name} C3", "eps is finite and > 0", eps)
        return tuple(
            ops.constant(number, shape, like=x) if one is None else one
            for one, number in zip(given, numbers, strict=True)
        )

    def _of_channels(
        self, x: Any, given: Sequence[Any], groups: int, eps: float
    ) -> tuple[Any, ...]:
        """Return gamma and beta: of those that are None, ones and zeros for the channels of x."""
        ops: Any = self
        wide = ops.own("group_norm", x).shape
        others = [ops.own("group_norm", one) for one in given if one is not None]
        if not (is_number(eps) and 0 < eps < math.inf):
            raise refuse("group_norm C4", "eps is finite and > 0", eps)
        fits = len(wide) > 1 and type(groups) is int and groups > 0 and wide[1] % groups == 0
        if not (fits and all(one.shape == wide[1:2] for one in others)):
            one = others[0] if others else x
            # It is refused.
            self.apply("group_norm", (x, one, one), {"groups": groups, "eps": eps})
        return tuple(
            ops.constant(number, wide[1:2], like=x) if one is None else one
            for one, number in zip(given, (1, 0), strict=True)
        )

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


def _shape(name: str, shape: Any) -> Shape:
    """Return a normalized shape, or refuse what is no tuple or list of integers."""
    listed: Any = shape if type(shape) in (list, tuple) else (None,)
    if not all(type(n) is int for n in listed):
        rule = "normalized_shape is a tuple of integers, (2,) for one axis"
        raise refuse(f"{name} C2", rule, repr(shape))
    return tuple(listed)


def _wide(x: Any, shape: Shape) -> Any:
    """Broadcast a ref to a shape, where it has another."""
    return x if x.shape == shape else x.session.broadcast_to(x, shape=shape)


def _multiplied(left: Shape, right: Shape) -> tuple[Shape, Shape, Shape]:
    """Return the axes of a product: those of the batch, those of its rows and of its columns."""
    came = f"{left} and {right}"
    if not left or not right:
        raise refuse("matmul", "each operand has an axis at least; * takes single numbers", came)
    if left[-1] != right[-2 if len(right) > 1 else -1]:
        raise refuse("matmul C2", "the inner extents are equal", came)
    lead = common("matmul", left[:-2], right[:-2])
    return lead, left[-2:-1], right[-1:] if len(right) > 1 else ()


def _laid(x: Any, shape: Shape) -> Any:
    """Lay a ref out in a shape, where it has another."""
    return x if x.shape == shape else x.session.reshape(x, shape=shape)


def _placed(x: Any, shape: Shape) -> Any:
    """Lay matrices out along one axis, a batch, to which they broadcast."""
    places, matrix = math.prod(shape[:-2]), shape[-2:]
    if math.prod(x.shape[:-2]) == 1:
        return _wide(_laid(x, matrix), (places, *matrix))
    return _laid(_wide(x, shape), (places, *matrix))


def _listed(xs: tuple[Any, ...]) -> tuple[Any, ...]:
    first: Any = xs[0] if len(xs) == 1 else None
    return tuple(first) if type(first) in (list, tuple) else xs
