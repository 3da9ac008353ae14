"""Chapter 10. The fifth kind: a composite is a program over earlier pages, and nothing else.

Running the program records its steps; a tangent goes through them from the first to the last, and a
cotangent from the last to the first.
So a fused kernel with a backward pass derived by hand becomes a claim that can be tested.

>>> from spec.kinds import pointwise, same_shape
>>> from spec.tensor import tensor, zip_map
>>> def value(x, y):
...     return zip_map(lambda a, b: a * b, x, y)
>>> def rule(*types):
...     return same_shape("mul", *types)
>>> mul = pointwise("mul", rule, value, lambda a, b: (b, a))
>>> cube = composite("cube", lambda x: x, lambda ops, x: ops.mul(ops.mul(x, x), x), (mul,))
>>> cube(tensor([2, 3])), cube.vjp((tensor([2, 3]),), tensor([1, 1]))
(Tensor([8, 27]), (Tensor([12, 27]),))
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, SupportsIndex, Unpack

from spec.kinds import Directions, Facts, TypeRule
from spec.op import AnyTensor, IndexRange, Op, misstated, plus, zeros_like
from spec.refusals import unknown
from spec.scalar import lift
from spec.shape import Shape
from spec.tensor import tabulate
from spec.worlds import is_number


class Held:
    """A value inside a composite's program; slot is None for constants."""

    __slots__ = ("slot", "tensor")

    def __init__(self, tensor: AnyTensor, slot: int | None) -> None:
        self.tensor = tensor
        self.slot = slot

    @property
    def shape(self) -> Shape:
        """The shape, as programs ask for it."""
        return tuple(self.tensor.shape)


class Trace:
    """The operations that a composite's program may use, recording each step it takes."""

    def __init__(self, uses: tuple[Op, ...], inputs: Sequence[AnyTensor], count: int) -> None:
        self._uses = {op.name: op for op in uses}
        self.slots = count
        self.steps: list[tuple[Op, tuple[Any, ...], dict[str, Any], int]] = []
        self.refs = [Held(x, k) for k, x in enumerate(inputs)]

    def __getattr__(self, name: str) -> Callable[..., Held]:
        op = self._uses.get(name)
        if op is None:
            raise unknown("a composite's program", "op in uses", name, self._uses)
        return lambda *arguments, **attributes: self._apply(op, arguments, attributes)

    def _apply(self, op: Op, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Held:
        out = Held(op.value(*_tensors(arguments), **attributes), self.slots)
        self.slots += 1
        self.steps.append((op, arguments, attributes, self.slots - 1))
        return out

    def constant(self, value: Any, shape: Shape, like: Held) -> Held:
        """Return a tensor filled with an exact constant, lifted into the world of like."""
        exact = _exact(value)
        lifted = lift(like.tensor.data[0], exact) if _has_entries(like) else exact
        return Held(tabulate(shape, lambda *_: lifted), None)


def _exact(value: Any) -> Any:
    """Return a number as the exact constant that it is; a symbol stays one."""
    if is_number(value):
        return Fraction(value)
    return Fraction(operator.index(value)) if isinstance(value, SupportsIndex) else value


def _has_entries(ref: Held) -> bool:
    return all(isinstance(n, int) for n in ref.shape) and len(ref.tensor.data) > 0


def _tensors(arguments: tuple[Any, ...]) -> list[AnyTensor]:
    return [a.tensor if isinstance(a, Held) else a for a in arguments]


def _slots(arguments: tuple[Any, ...]) -> list[int | None]:
    return [a.slot if isinstance(a, Held) else None for a in arguments]


def traced(
    op: Op, inputs: Sequence[AnyTensor], attributes: Mapping[str, Any]
) -> tuple[Trace, Held]:
    """Run a composite's program; return the steps that it took, and its result."""
    trace = Trace(op.uses, inputs, len(inputs))
    refs = [x if k in op.index_inputs else trace.refs[k] for k, x in enumerate(inputs)]
    program: Any = op.program
    out = program(trace, *refs, **attributes)
    if not isinstance(out, Held):
        raise misstated(op.name, "the program returns one result of its steps", out)
    return trace, out


def composite(
    name: str,
    type_rule: TypeRule,
    program: Callable[..., Any],
    uses: tuple[Op, ...],
    *,
    index_inputs: tuple[int, ...] = (),
    mask_inputs: tuple[int, ...] = (),
    index_ranges: tuple[IndexRange, ...] = (),
    **facts: Unpack[Facts],
) -> Op:
    """Make an op that is a program over earlier pages; its derivatives go through the program.

    program(ops, *inputs, **attributes) finds in ops the pages in `uses` and
    ``ops.constant(value, shape, like=ref)``; index inputs and masks reach it as plain tensors.
    """

    def run(inputs: Sequence[AnyTensor], attributes: dict[str, Any]) -> tuple[Trace, Held]:
        return traced(made, inputs, attributes)

    def value(*inputs: AnyTensor, **attributes: Any) -> AnyTensor:
        return run(inputs, attributes)[1].tensor

    def jvp(inputs: Sequence[AnyTensor], tangents: Directions, **attributes: Any) -> AnyTensor:
        trace, out = run(inputs, attributes)
        known: dict[int | None, AnyTensor | None] = dict(enumerate(tangents))
        for op, arguments, chosen, slot in trace.steps:
            ahead = [known.get(s) for s in _slots(arguments)]
            if not op.stops_gradients and any(t is not None for t in ahead):
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
            if behind is None or op.stops_gradients:
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
    made = Op(
        name,
        "composite",
        type_rule,
        value,
        jvp,
        vjp,
        index_inputs,
        program=program,
        uses=uses,
        index_ranges=index_ranges,
        mask_inputs=mask_inputs,
        **facts,
    )
    return made
