"""Chapter 9. The kinds: two derivatives read off one statement.

Each constructor takes what its kind states and returns the `Op`.
Nothing else in this book says how a derivative of an operation is formed.
A tangent or cotangent of None stands for zero and costs nothing.

>>> from spec.tensor import tensor
>>> def rule(x):
...     return same_shape("cube", x)
>>> cube = pointwise("cube", rule, lambda x: x.map(lambda a: a**3), lambda a: (3 * a**2,))
>>> x, g = tensor([2, 3]), tensor([1, 10])
>>> cube(x), cube.jvp((x,), (g,)), cube.vjp((x,), g)
(Tensor([8, 27]), Tensor([12, 270]), (Tensor([12, 270]),))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter, mul
from typing import Any, TypedDict, Unpack

from spec.op import AnyTensor, Edge, Elsewhere, IndexRange, Jvp, Op, Type, Vjp, plus, zeros_like
from spec.refusals import Miss, refuse
from spec.scalar import is_zero, select, zero_like
from spec.tensor import zip_map

TypeRule = Callable[..., Type]
Value = Callable[..., Any]
Directions = Sequence["AnyTensor | None"]


class Facts(TypedDict, total=False):
    """What every kind of page may say of itself beside its maps: the fields of these names."""

    edges: tuple[Edge, ...]
    refused: tuple[Miss, ...]
    tried: Mapping[str, tuple[Any, ...]]
    elsewhere: Elsewhere


class IndexFacts(Facts, total=False):
    """What a page says beside that which reads indices."""

    index_inputs: tuple[int, ...]
    index_ranges: tuple[IndexRange, ...]


def same_shape(name: str, *types: Type) -> Type:
    """The type rule of pointwise ops: C1, all shapes are equal; there is no broadcasting."""
    first = types[0]
    for other in types[1:]:
        if other.shape != first.shape:
            raise refuse(f"{name} C1", "all shapes are equal", f"{first} and {other}")
    return first


UNEQUAL = (
    Miss("C1", ([1.0, 2.0], [1.0])),
    Miss("C1", ([1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]])),
    Miss("C1", ([[1.0], [2.0]], [[1.0, 2.0]])),
    Miss("C1", ([1.0], 1.0)),
)
"""Two inputs of different shapes, which other rules than ours would broadcast."""


def absorb(direction: Any, partial: Any) -> Any:
    """Multiply by a partial that may be infinite; a zero direction absorbs it, lest a masked
    logarithm or a dead root leak NaN (CHOICE)."""
    return select(is_zero(direction), zero_like(direction), partial * direction)


def chosen(direction: Any, share: Any) -> Any:
    """Multiply a direction by a share; what was not chosen gives 0, also of infinity (CHOICE)."""
    return select(is_zero(share), zero_like(direction), share * direction)


def pointwise(
    name: str,
    type_rule: TypeRule,
    value: Value,
    partials: Callable[..., tuple[Any, ...]],
    *,
    absorbing: bool = False,
    choosing: bool = False,
    **facts: Unpack[Facts],
) -> Op:
    """Make an op of single numbers; partials(*scalars, **attributes) are rates or shares, None
    where nothing depends on the number, whatever the direction is."""
    multiply: Callable[[Any, Any], Any] = chosen if choosing else absorb if absorbing else mul

    def every(direction: Any, *scalars: Any, **attributes: Any) -> list[Any]:
        factors = partials(*scalars, **attributes)
        return [zero_like(direction) if f is None else multiply(direction, f) for f in factors]

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions, **attributes: Any) -> AnyTensor:
        total: AnyTensor | None = None
        for k, tangent in enumerate(tangents):
            if tangent is not None:
                moved = zip_map(partial(every, **attributes), tangent, *inputs)
                total = plus(total, moved.map(itemgetter(k)))
        return zeros_like(inputs[0]) if total is None else total

    def vjp(
        inputs: Sequence[AnyTensor], cotangent: AnyTensor, **attributes: Any
    ) -> tuple[AnyTensor | None, ...]:
        shares = zip_map(partial(every, **attributes), cotangent, *inputs)
        return tuple(shares.map(itemgetter(k)) for k in range(len(inputs)))

    return Op(name, "pointwise", type_rule, value, jvp, vjp, **facts)


def jointly_linear(
    name: str,
    type_rule: TypeRule,
    value: Value,
    transposes: Callable[..., tuple[AnyTensor | None, ...]],
    *,
    index_inputs: tuple[int, ...] = (),
    mask_inputs: tuple[int, ...] = (),
    index_ranges: tuple[IndexRange, ...] = (),
    **facts: Unpack[Facts],
) -> Op:
    """Make an op that is linear in all its inputs at once, but for indices and masks.

    transposes(cotangent, *inputs, **attributes) returns a cotangent per input, None at indices;
    of the inputs it may read the shapes and the indices.
    """

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions, **attributes: Any) -> AnyTensor:
        moved = [
            x if k in index_inputs else zeros_like(x) if t is None else t
            for k, (x, t) in enumerate(zip(inputs, tangents, strict=True))
        ]
        result: AnyTensor = value(*moved, **attributes)
        return result

    def vjp(
        inputs: Sequence[AnyTensor], cotangent: AnyTensor, **attributes: Any
    ) -> tuple[AnyTensor | None, ...]:
        return transposes(cotangent, *inputs, **attributes)

    return Op(
        name,
        "linear",
        type_rule,
        value,
        jvp,
        vjp,
        index_inputs,
        index_ranges=index_ranges,
        mask_inputs=mask_inputs,
        **facts,
    )


def linear(
    name: str,
    type_rule: TypeRule,
    value: Value,
    transpose: Callable[..., AnyTensor],
    **facts: Unpack[IndexFacts],
) -> Op:
    """Make an op that is linear in its first input; the others, if any, are indices.

    transpose(cotangent, shape, *indices, **attributes) returns a tensor of the input's shape.
    """

    def transposes(
        cotangent: AnyTensor, x: AnyTensor, *indices: AnyTensor, **attributes: Any
    ) -> tuple[AnyTensor | None, ...]:
        back = transpose(cotangent, x.shape, *indices, **attributes)
        return (back, *(None for _ in indices))

    return jointly_linear(name, type_rule, value, transposes, **facts)


def bilinear(
    name: str,
    type_rule: TypeRule,
    value: Value,
    transposes: tuple[Callable[..., AnyTensor], Callable[..., AnyTensor]],
    **facts: Unpack[Facts],
) -> Op:
    """Make an op that is linear in each of two inputs.

    transposes[0](cotangent, y) and transposes[1](cotangent, x) are the transposes per slot.
    """

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions) -> AnyTensor:
        (x, y), (dx, dy) = inputs, tangents
        left = None if dx is None else value(dx, y)
        right = None if dy is None else value(x, dy)
        total = plus(left, right)
        return zeros_like(value(x, y)) if total is None else total

    def vjp(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> tuple[AnyTensor | None, ...]:
        x, y = inputs
        return transposes[0](cotangent, y), transposes[1](cotangent, x)

    return Op(name, "bilinear", type_rule, value, jvp, vjp, **facts)


def irregular(
    name: str,
    type_rule: TypeRule,
    value: Value,
    jvp: Jvp,
    vjp: Vjp,
    *,
    stops_gradients: bool = False,
    **facts: Unpack[IndexFacts],
) -> Op:
    """Make an op that states both maps itself, by a convention that its page names."""
    return Op(
        name, "irregular", type_rule, value, jvp, vjp, stops_gradients=stops_gradients, **facts
    )


def source(
    name: str,
    type_rule: TypeRule,
    value: Value,
    **facts: Unpack[IndexFacts],
) -> Op:
    """Make an op of no inputs but indices: nothing moves it, and it hands no cotangent on.

    value takes, beside its attributes, `like`: a scalar of the world in which it answers.
    """

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions, **attributes: Any) -> AnyTensor:
        return zeros_like(value(*inputs, **attributes))

    def vjp(
        inputs: Sequence[AnyTensor], cotangent: AnyTensor, **attributes: Any
    ) -> tuple[AnyTensor | None, ...]:
        return (None,) * len(inputs)

    return Op(name, "source", type_rule, value, jvp, vjp, **facts)


def positions(name: str, type_rule: TypeRule, value: Value, **facts: Unpack[Facts]) -> Op:
    """Make an op that answers with indices into its inputs: nothing moves these either."""

    def none(inputs: Sequence[AnyTensor], _: AnyTensor, **__: Any) -> tuple[AnyTensor, ...]:
        return tuple(map(zeros_like, inputs))

    unmoved = source(name, type_rule, value, **facts)
    return replace(unmoved, kind="positions", vjp=none, stops_gradients=True)
