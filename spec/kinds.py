"""Chapter 6. The five kinds: two derivatives read off one statement.

Each constructor takes what its kind states and returns the `Op`.
Nothing else in this book says how a derivative of an operation is formed.

A tangent or cotangent of None stands for zero and costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, Edge, Jvp, Op, Type, Vjp, plus, refuse, zeros_like
from spec.scalar import is_zero, lift, select, zero_like
from spec.shape import Shape
from spec.tensor import tabulate, zip_map

TypeRule = Callable[..., Type]
Value = Callable[..., Any]
Directions = Sequence["AnyTensor | None"]


def same_shape(name: str, *types: Type) -> Type:
    """The type rule of pointwise ops: C1, all shapes are equal; there is no broadcasting."""
    first = types[0]
    for other in types[1:]:
        if other.shape != first.shape:
            raise refuse(f"{name} C1", "all shapes are equal", f"{first} and {other}")
    return first


def absorb(direction: Any, partial: Any) -> Any:
    """Multiply a direction by a partial that may be infinite: a zero direction gives zero.

    OPS.md calls this absorbing: a masked logarithm or a dead root leaks no NaN.
    """
    return select(is_zero(direction), zero_like(direction), partial * direction)


def pointwise(
    name: str,
    type_rule: TypeRule,
    value: Value,
    partials: Callable[..., tuple[Any, ...]],
    *,
    absorbing: bool = False,
    edges: tuple[Edge, ...] = (),
) -> Op:
    """Make an op that acts entry by entry; partials(*scalars) are its derivatives by each input."""

    def apply(k: int) -> Callable[..., Any]:
        def product(direction: Any, *scalars: Any) -> Any:
            partial = partials(*scalars)[k]
            return absorb(direction, partial) if absorbing else partial * direction

        return product

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions) -> AnyTensor:
        total: AnyTensor | None = None
        for k, tangent in enumerate(tangents):
            if tangent is not None:
                total = plus(total, zip_map(apply(k), tangent, *inputs))
        return zeros_like(inputs[0]) if total is None else total

    def vjp(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> tuple[AnyTensor | None, ...]:
        return tuple(zip_map(apply(k), cotangent, *inputs) for k in range(len(inputs)))

    return Op(name, "pointwise", type_rule, value, jvp, vjp, edges=edges)


def linear(
    name: str,
    type_rule: TypeRule,
    value: Value,
    transpose: Callable[..., AnyTensor],
    *,
    index_inputs: tuple[int, ...] = (),
    refuse_indices: Callable[..., None] | None = None,
    edges: tuple[Edge, ...] = (),
) -> Op:
    """Make an op that is linear in its first input; the others, if any, are indices.

    transpose(cotangent, shape, *indices, **attributes) returns a tensor of the input's shape.
    """

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions, **attributes: Any) -> AnyTensor:
        tangent = zeros_like(inputs[0]) if tangents[0] is None else tangents[0]
        result: AnyTensor = value(tangent, *inputs[1:], **attributes)
        return result

    def vjp(
        inputs: Sequence[AnyTensor], cotangent: AnyTensor, **attributes: Any
    ) -> tuple[AnyTensor | None, ...]:
        back = transpose(cotangent, inputs[0].shape, *inputs[1:], **attributes)
        return (back, *(None for _ in inputs[1:]))

    return Op(name, "linear", type_rule, value, jvp, vjp, index_inputs, edges, None, refuse_indices)


def bilinear(
    name: str,
    type_rule: TypeRule,
    value: Value,
    transposes: tuple[Callable[..., AnyTensor], Callable[..., AnyTensor]],
    *,
    edges: tuple[Edge, ...] = (),
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

    return Op(name, "bilinear", type_rule, value, jvp, vjp, edges=edges)


def irregular(
    name: str,
    type_rule: TypeRule,
    value: Value,
    jvp: Jvp,
    vjp: Vjp,
    *,
    edges: tuple[Edge, ...] = (),
) -> Op:
    """Make an op that states both maps itself, by a convention that its page names."""
    return Op(name, "irregular", type_rule, value, jvp, vjp, edges=edges)


class _Ref:
    """A value inside a composite's program; slot is None for constants."""

    __slots__ = ("slot", "tensor")

    def __init__(self, tensor: AnyTensor, slot: int | None) -> None:
        self.tensor = tensor
        self.slot = slot

    @property
    def shape(self) -> Shape:
        """The shape, as programs ask for it."""
        return tuple(self.tensor.shape)


class _Trace:
    """The operations that a composite's program may use, recording each step it takes."""

    def __init__(self, uses: tuple[Op, ...], inputs: Sequence[AnyTensor], count: int) -> None:
        self._uses = {op.name: op for op in uses}
        self.slots = count
        self.steps: list[tuple[Op, tuple[Any, ...], dict[str, Any], int]] = []
        self.refs = [_Ref(x, k) for k, x in enumerate(inputs)]

    def __getattr__(self, name: str) -> Callable[..., _Ref]:
        op = self._uses[name]
        return lambda *arguments, **attributes: self._apply(op, arguments, attributes)

    def _apply(self, op: Op, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> _Ref:
        tensors = [a.tensor if isinstance(a, _Ref) else a for a in arguments]
        out = _Ref(op.value(*tensors, **attributes), self.slots)
        self.slots += 1
        self.steps.append((op, arguments, attributes, self.slots - 1))
        return out

    def constant(self, value: Any, shape: Shape, like: _Ref) -> _Ref:
        """Return a tensor filled with an exact constant, lifted into the world of like."""
        lifted = lift(like.tensor.data[0], Fraction(value)) if _has_entries(like) else value
        return _Ref(tabulate(shape, lambda *_: lifted), None)


def _has_entries(ref: _Ref) -> bool:
    return all(isinstance(n, int) for n in ref.shape) and len(ref.tensor.data) > 0


def _tensors(arguments: tuple[Any, ...]) -> list[AnyTensor]:
    return [a.tensor if isinstance(a, _Ref) else a for a in arguments]


def _slots(arguments: tuple[Any, ...]) -> list[int | None]:
    return [a.slot if isinstance(a, _Ref) else None for a in arguments]


def composite(
    name: str,
    type_rule: TypeRule,
    program: Callable[..., Any],
    uses: tuple[Op, ...],
    *,
    index_inputs: tuple[int, ...] = (),
    refuse_indices: Callable[..., None] | None = None,
    edges: tuple[Edge, ...] = (),
) -> Op:
    """Make an op that is a program over earlier pages; its derivatives go through the program.

    program(ops, *inputs, **attributes) finds in ops the pages in `uses` and
    ``ops.constant(value, shape, like=ref)``; index inputs reach it as plain tensors.
    """

    def run(inputs: Sequence[AnyTensor], attributes: dict[str, Any]) -> tuple[_Trace, _Ref]:
        trace = _Trace(uses, inputs, len(inputs))
        refs = [x if k in index_inputs else trace.refs[k] for k, x in enumerate(inputs)]
        return trace, program(trace, *refs, **attributes)

    def value(*inputs: AnyTensor, **attributes: Any) -> AnyTensor:
        return run(inputs, attributes)[1].tensor

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions, **attributes: Any) -> AnyTensor:
        trace, out = run(inputs, attributes)
        known: dict[int | None, AnyTensor | None] = dict(enumerate(tangents))
        for op, arguments, chosen, slot in trace.steps:
            ahead = [known.get(s) for s in _slots(arguments)]
            if any(t is not None for t in ahead):
                known[slot] = op.jvp(_tensors(arguments), ahead, **chosen)
        tangent = known.get(out.slot)
        return zeros_like(out.tensor) if tangent is None else tangent

    def vjp(
        inputs: Sequence[AnyTensor], cotangent: AnyTensor, **attributes: Any
    ) -> tuple[AnyTensor | None, ...]:
        trace, out = run(inputs, attributes)
        found: dict[int | None, AnyTensor | None] = {out.slot: cotangent}
        for op, arguments, chosen, slot in reversed(trace.steps):
            behind = found.pop(slot, None)
            if behind is None:
                continue
            back = op.vjp(_tensors(arguments), behind, **chosen)
            for s, contribution in zip(_slots(arguments), back, strict=True):
                if s is not None:
                    found[s] = plus(found.get(s), contribution)
        return tuple(
            None if k in index_inputs else found.get(k) or zeros_like(x)
            for k, x in enumerate(inputs)
        )

    signature = inspect.signature(program)
    own = [p for n, p in signature.parameters.items() if n != "ops"]
    value.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    return Op(
        name, "composite", type_rule, value, jvp, vjp, index_inputs, edges, program, refuse_indices
    )
