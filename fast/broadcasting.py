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
from fast.errors import Rejected, Unsupported
from fast.indexing import is_mask
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
            given = _lines(self, "layer_norm", x, given, (1, 0), eps, normalized_shape)
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
            given = _lines(self, "rms_norm", x, given, (1,), eps, normalized_shape)
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
            given = _of_channels(self, x, given, groups, eps)
        return self.apply("group_norm", (x, *given), {"groups": groups, "eps": eps})

    def instance_norm(
        self, x: R, gamma: R | None = None, beta: R | None = None, *, eps: float = 1e-5
    ) -> R:
        """Normalize each channel by itself: `group_norm`, with as many groups as channels."""
        channels = shape_of("instance_norm", x)[1:2]
        return self.group_norm(x, gamma, beta, groups=max((1, *channels)), eps=eps)

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

    def concat(self, *xs: Any, axis: int) -> R:
        """Join along an axis; the parts are arguments, or one list."""
        return self.apply("concat", _listed(xs), {"axis": axis})

    def stack(self, *xs: Any, axis: int) -> R:
        """Join along a new axis; the parts are arguments, or one list."""
        return self.apply("stack", _listed(xs), {"axis": axis})


def combined(ops: Any, name: str, x: Any, y: Any) -> Any:
    """Run an op of two tensors on refs that broadcast; of two operands one may be a number."""
    # Every operator of a program comes by here: two refs are told apart without a call.
    if not (hasattr(x, "tape") and hasattr(y, "tape")):
        x, y = _refs(ops, name, x, y)
    try:
        a, b = x.shape, y.shape
    except AttributeError:
        _refs(ops, name, x, y)  # A natural is on a tape, too, and is no ref.
        raise
    if a != b:
        shape = common(name, a, b)
        x, y = _wide(x, shape), _wide(y, shape)
    return ops.apply(name, (x, y), {})


def _lines(
    ops: Any,
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
    wide, present = shape_of(name, x), [one for one in given if one is not None]
    shapes = {shape_of(name, one) for one in present}
    if normalized_shape is not None:
        _need_shape(name, normalized_shape)
        shapes.add(tuple(normalized_shape))
    if len(shapes) != 1:
        came = " and ".join(map(str, sorted(shapes))) or "neither"
        raise Rejected(
            f"{name} C2: a parameter or normalized_shape says which of the last axes are "
            f"normalized, such as normalized_shape={wide[-1:]}, and all that are given agree; "
            f"got {came}"
        )
    (shape,) = shapes
    if not 0 < len(shape) <= len(wide) or wide[-len(shape) :] != shape:
        raise Rejected(f"{name} C2: the last axes of x, one or more, are {shape}; got {wide}")
    if not (is_number(eps) and 0 < eps < math.inf):
        raise Rejected(f"{name} C3: eps is finite and > 0; got {eps}")
    for one in present:
        if one.dtype != x.dtype or one.tape is not x.tape:
            ops.apply(name, (x, *(one for _ in given)), {"eps": eps})  # It is refused.
    if x.tape is not ops._tape:
        ops.apply(name, (x, *(x for _ in given)), {"eps": eps})
    return tuple(
        ops.constant(number, shape, like=x) if one is None else one
        for one, number in zip(given, numbers, strict=True)
    )


def _of_channels(
    ops: Any, x: Any, given: Sequence[Any], groups: int, eps: float
) -> tuple[Any, ...]:
    """Return gamma and beta: of those that are None, ones and zeros for the channels of x."""
    wide = shape_of("group_norm", x)
    others = [one for one in given if one is not None]
    shapes = [shape_of("group_norm", one) for one in others]
    if not (is_number(eps) and 0 < eps < math.inf):
        raise Rejected(f"group_norm C4: eps is finite and > 0; got {eps}")
    fits = len(wide) > 1 and type(groups) is int and groups > 0 and wide[1] % groups == 0
    alike = all(one.dtype == x.dtype and one.tape is ops._tape for one in (x, *others))
    if not (fits and alike and all(shape == wide[1:2] for shape in shapes)):
        one = others[0] if others else x
        ops.apply("group_norm", (x, one, one), {"groups": groups, "eps": eps})  # It is refused.
    return tuple(
        ops.constant(number, wide[1:2], like=x) if one is None else one
        for one, number in zip(given, (1, 0), strict=True)
    )


def _need_shape(name: str, shape: Any) -> None:
    """Refuse a normalized shape that is no tuple or list of integers."""
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int for n in shape):
        raise Rejected(
            f"{name} C2: normalized_shape is a tuple of integers, (2,) for one axis; got {shape!r}"
        )


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


def common(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which NumPy would broadcast these, or raise naming all."""
    rank = max(map(len, shapes))
    found = []
    for extents in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {n for n in extents if n != 1} or {1}
        if len(wide) > 1:
            came = " and ".join(map(str, shapes))
            raise Rejected(f"{name}: the shapes broadcast to a common one; got {came}")
        found += wide
    return tuple(found)


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
    if not a or not b:
        raise Rejected(
            f"matmul: each operand has an axis at least; * takes single numbers; got {a} and {b}"
        )
    left, right = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise Rejected(f"matmul C2: the inner extents are equal; got {a} and {b}")
    if x.dtype is not y.dtype:
        raise Rejected(f"matmul: inputs have one dtype, got {x.dtype} and {y.dtype}")
    batch = common("matmul", left[:-2], right[:-2])
    count, (m, k), n = math.prod(batch), left[-2:], right[-1]
    if all(extent == 1 for extent in right[:-2]):
        # The rows of every place meet the same matrix: they are rows of one product.
        z = ops.apply("matmul", (_under(x, (count * m, k)), _under(y, (k, n))), {})
    else:
        xs, ys = _in_batch(x, left, batch, count), _in_batch(y, right, batch, count)
        z = ops.apply("bmm", (xs, ys), {})
    kept = (*batch, *((m,) if len(a) > 1 else ()), *((n,) if len(b) > 1 else ()))
    return _under(z, kept)


def _under(x: Any, shape: tuple[int, ...]) -> Any:
    """Read a ref under a shape, where it has another."""
    return x if x.shape == shape else x.session.reshape(x, shape=shape)


def _in_batch(x: Any, shape: tuple[int, ...], batch: tuple[int, ...], count: int) -> Any:
    """Bring matrices of a shape, which broadcast to a batch, in line along one axis."""
    matrix = shape[-2:]
    if all(extent == 1 for extent in shape[:-2]):
        return _wide(_under(x, matrix), (count, *matrix))
    return _under(_wide(x, (*batch, *matrix)), (count, *matrix))


def _listed(xs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(xs[0]) if len(xs) == 1 and isinstance(xs[0], (list, tuple)) else xs
