"""The laws that every page obeys, as functions that raise Breach where one is broken.

Three anchors hold each other up, because each alone has a hole: dual numbers know the derivative
but not the transpose; the transpose law knows that one map is the other's transpose but not that
either is the derivative; linearity knows neither.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any

from equivalence.cases.probes import Call, Probe
from spec.dual import Dual
from spec.op import AnyTensor, Op, Type, holds, plus, type_of, zeros_like
from spec.ops import OPS
from spec.scalar import equal, lift
from spec.several import written
from spec.tape import Tape
from spec.tensor import tabulate, zip_map

Directions = Sequence[AnyTensor | None]


class Breach(Exception):
    """A law is broken; the message says in which way."""


class Inexact(Exception):
    """Floats differ, which may be their rounding."""


def need(holds: bool, says: str) -> None:
    """Raise Breach unless something holds."""
    if not holds:
        raise Breach(says)


def same(x: AnyTensor | None, y: AnyTensor | None) -> bool:
    """Tell whether two tensors are equal, as far as their world can tell: balls may overlap."""
    if x is None or y is None:
        return x is y
    pairs = zip(x.data, y.data, strict=False)
    return tuple(x.shape) == tuple(y.shape) and all(_same(a, b) for a, b in pairs)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Fraction | int) and isinstance(b, Fraction | int):
        return a == b
    agree = equal(a, b) is not False
    if not agree and (isinstance(a, float) or isinstance(b, float)):
        raise Inexact("the laws hold of exact numbers, and the page made floats; write Fractions")
    return agree


def dual_inputs(inputs: Sequence[AnyTensor], tangents: Directions, op: Op) -> list[AnyTensor]:
    """Pair every entry with its tangent; index inputs stay as they are."""
    return [
        x if k in op.index_inputs else zip_map(Dual, x, t if t is not None else zeros_like(x))
        for k, (x, t) in enumerate(zip(inputs, tangents, strict=True))
    ]


def parts(result: AnyTensor) -> tuple[AnyTensor, AnyTensor]:
    """Split a result on duals; an entry that is an exact constant has tangent 0."""
    return (
        result.map(lambda a: a.value if isinstance(a, Dual) else a),
        result.map(lambda a: a.tangent if isinstance(a, Dual) else 0),
    )


def inner(x: AnyTensor, y: AnyTensor) -> Any:
    """The inner product of two tensors of one shape."""
    return sum(zip_map(operator.mul, x, y).data)


def scaled(factor: Fraction, x: AnyTensor) -> AnyTensor:
    """Multiply every entry by one number."""
    return x.map(lambda a: factor * a)


def pulled(call: Call, cotangent: AnyTensor) -> tuple[AnyTensor | None, ...]:
    """Return the cotangents of a call's inputs, of which there is one for each."""
    back = call.op.vjp(call.inputs, cotangent, **call.attributes)
    need(len(back) == len(call.inputs), f"vjp returns {len(back)} for {len(call.inputs)} inputs")
    return back


def pushforward(probe: Probe) -> None:
    """The page run on dual numbers is (value, jvp)."""
    call, tangents = probe.call, probe.tangents
    duals = dual_inputs(call.inputs, tangents, call.op)
    value, tangent = parts(call.op.value(*duals, **call.attributes))
    need(same(value, call.value), "the value on duals is another one")
    ahead = call.op.jvp(call.inputs, tangents, **call.attributes)
    need(same(tangent, ahead), "jvp is not the derivative that dual numbers carry")


def transpose(probe: Probe) -> None:
    """<cotangent, J tangents> = <J' cotangent, tangents>."""
    call, cotangent = probe.call, probe.cotangents[0]
    ahead = call.op.jvp(call.inputs, probe.tangents, **call.attributes)
    back = pulled(call, cotangent)
    pairs = zip(back, probe.tangents, strict=True)
    right = sum(inner(b, t) for b, t in pairs if b is not None and t is not None)
    need(_same(inner(cotangent, ahead), right), "vjp is not the transpose of jvp")


def linearity(probe: Probe) -> None:
    """The VJP is linear in the cotangent."""
    call, (u, w), (a, b) = probe.call, probe.cotangents, probe.factors
    mixed = plus(scaled(a, u), scaled(b, w))
    assert mixed is not None
    found = [pulled(call, cotangent) for cotangent in (mixed, u, w)]
    for k, (both, left, right) in enumerate(zip(*found, strict=True)):
        if both is not None and left is not None and right is not None:
            apart = plus(scaled(a, left), scaled(b, right))
            need(same(both, apart), f"the cotangent of input {k} is not linear")


def types(probe: Probe) -> None:
    """The type rule says what value returns, and derivatives live where their inputs live."""
    call = probe.call
    declared = call.type()
    made = type_of(call.value, index=declared.index and holds(call.value, int))
    if call.op.results is not None:
        each_type(call)
    need(declared == made, f"declared {declared}, got {made}")
    ahead = call.op.jvp(call.inputs, probe.tangents, **call.attributes)
    need(ahead.shape == declared.shape, "a tangent has the shape of the result")
    back = pulled(call, probe.cotangents[0])
    for k, (gradient, x) in enumerate(zip(back, call.inputs, strict=True)):
        if k in call.op.index_inputs:
            need(gradient is None, f"input {k} holds indices and has no cotangent")
        else:
            right = gradient is not None and gradient.shape == x.shape
            need(right, f"the cotangent of input {k} has the shape of the input")


class Node:
    """A node of a tape, as a composite's program sees it."""

    def __init__(self, tape: Tape, id: int) -> None:
        """Point at a node."""
        self.tape = tape
        self.id = id

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the node's value."""
        return tuple(self.tape.value(self.id).shape)


class OnTape:
    """Operations that append to a tape, for running a composite's program step by step."""

    def __init__(self, *steps: Op) -> None:
        """Start with an empty tape; steps are those of a program's own."""
        self.tape = Tape()
        self._steps = {op.name: op for op in steps}

    def __getattr__(self, name: str) -> Any:
        """Find an op by its name."""

        def apply(*inputs: Any, **attributes: Any) -> Node:
            ids = [x.id if isinstance(x, Node) else self.tape.const(x) for x in inputs]
            op = self._steps.get(name) or OPS[name]
            return Node(self.tape, self.tape.apply(op, *ids, **attributes))

        return apply

    def constant(self, value: Any, shape: tuple[int, ...], like: Node) -> Node:
        """Append a tensor filled with an exact constant."""
        data = self.tape.value(like.id).data
        entry = lift(data[0], Fraction(value)) if data else value
        return Node(self.tape, self.tape.const(tabulate(shape, lambda *_: entry)))


def program_on_tape(call: Call, cotangent: AnyTensor) -> tuple[AnyTensor, list[AnyTensor | None]]:
    """Run a composite's program on a tape; return its value and what reaches its inputs."""
    assert call.op.program is not None
    ops, nodes = on_tape(call)
    out = call.op.program(ops, *nodes, **call.attributes)
    gradients = ops.tape.backward_dense(out.id, cotangent)
    back = [gradients[node.id] if isinstance(node, Node) else None for node in nodes]
    return ops.tape.value(out.id), back


def on_tape(call: Call) -> tuple[OnTape, list[Any]]:
    """Put the inputs of a composite's call on a tape."""
    ops = OnTape(*(op for op in call.op.uses if op.name not in OPS))
    nodes = [
        x if k in call.op.index_inputs else Node(ops.tape, ops.tape.leaf(x))
        for k, x in enumerate(call.inputs)
    ]
    return ops, nodes


def each_type(call: Call) -> None:
    """The type rule says what each of several results is."""
    types = call.op.types_at(*(tuple(x.shape) for x in call.inputs))
    declared = call.op.types_of_results(*types, **call.attributes)
    ops, nodes = on_tape(call)
    made = written(call.op)(ops, *nodes, **call.attributes)
    need(len(made) == len(declared), f"declared {len(declared)} results, got {len(made)}")
    for (name, one), node in zip(declared.items(), made, strict=True):
        need(one.shape == node.shape, f"{name}: declared {one}, got {Type(node.shape)}")


def through_tape(probe: Probe) -> None:
    """A composite's value and VJP are those of its program, taken step by step on the tape."""
    call, cotangent = probe.call, probe.cotangents[0]
    if call.op.kind != "composite":
        return
    value, back = program_on_tape(call, cotangent)
    need(same(value, call.value), "the program on the tape has another value")
    need(all(map(same, pulled(call, cotangent), back)), "vjp is not backprop through the program")


LAWS: dict[str, Callable[[Probe], None]] = {
    "pushforward": pushforward,
    "transpose": transpose,
    "linearity": linearity,
    "types": types,
    "through_tape": through_tape,
}
"""Every law by its name; a law that does not speak of a kind of op holds of it."""


def broken(probe: Probe, among: Collection[str] = LAWS) -> dict[str, str]:
    """Check some laws on one probe, all unless they are named; return what the broken ones say."""
    found: dict[str, str] = {}
    for name in (name for name in LAWS if name in among):
        try:
            LAWS[name](probe)
        except Breach as error:
            found[name] = str(error)
    return found
