"""Chapter 37. The linked session: the same programs, recorded as a graph.

It answers what a tape cannot: how an output moves along tangents of the leaves, what the values are
at other inputs, and which tape a program compiles to.
Backward passes here are the graph's own; that the compiled tape's loop agrees is the theorem of
proofs_notes/tape_equals_graph.md.

A graph has its leaves first: parameters are used, inputs and integers recorded, before the first
op. Constants may come at any time, and are no leaves.

>>> from spec.tensor import tensor
>>> s = GraphSession()
>>> w = s.param(tensor([1.0, -2.0]), name="w")
>>> x, y = s.use(w), s.input(tensor([3.0, 1.0]), name="y")
>>> loss = s.sum(x * y)
>>> print(s.graph)
x0: real[2] = leaf w
x1: real[2] = input y
x2: real[2] = mul x0 x1
x3: real[] = sum x2 axes=None keepdims=False
>>> s.value(loss), s.jvp(loss, [tensor([10.0, 1.0]), None])
(Tensor(1.0), Tensor(31.0))
>>> s.sgd_step(lr=0.5, grads=s.backward(loss))
>>> w.value
Tensor([-0.5, -2.5])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spec.graph import Graph
from spec.naturals import Integers
from spec.op import AnyTensor, Op, refuse, type_read_off
from spec.ref import Ref
from spec.session import Sessions
from spec.tape import Dense, Tape


class Recording:
    """A graph with the inputs and values that it was recorded on; here it is a session's tape."""

    def __init__(self) -> None:
        """Start empty."""
        self.graph = Graph()
        self.inputs: list[AnyTensor] = []
        self._values: list[AnyTensor] = []
        self._has_ops = False

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._values)

    def value(self, id: int) -> AnyTensor:
        """Return the value of an entry."""
        self.graph.entry(id)
        return self._values[id]

    def label(self, id: int) -> str:
        """Return the name of an entry, or what made it."""
        entry = self.graph.entry(id)
        return entry.name or entry.rule

    def maker(self, id: int) -> Op | None:
        """Return the op that made an entry, None of a leaf."""
        return self.graph.entry(id).op

    def leaf(self, value: AnyTensor, requires_grad: bool = True, name: str | None = None) -> int:
        """Append a leaf; refused after the first op, and then, as ever, nothing is appended."""
        self.refuse_late("leaf")
        id = self.graph.leaf(type_read_off("graph", value), requires_grad, name)
        self.inputs.append(value)
        self._values.append(value)
        return id

    def const(self, value: AnyTensor) -> int:
        """Append a tensor that takes no gradient; it is no leaf, and may come at any time."""
        id = self.graph.const(value)
        self._values.append(value)
        return id

    def apply(self, op: Op, *parents: int | AnyTensor, **attributes: Any) -> int:
        """Append an op applied to earlier entries, or to constants; nothing if it is refused."""
        value = op(*(self.value(p) if isinstance(p, int) else p for p in parents), **attributes)
        ids = [p if isinstance(p, int) else self.const(p) for p in parents]
        id = self.graph.apply(op, *ids, **attributes)
        self._values.append(value)
        self._has_ops = True
        return id

    def backward_dense(self, out: int, seed: AnyTensor | None = None) -> Dense:
        """Return a cotangent for every entry, zero where the seed does not reach."""
        return self.graph.backprop_all(self.inputs, {out: seed})

    def backward(self, out: int, seed: AnyTensor | None = None) -> dict[int, AnyTensor]:
        """Return the cotangents of the trainable leaves that the seed reaches, by leaf id."""
        every = self.backward_dense(out, seed)
        return {
            id: every[id]
            for id in self.graph.leaves
            if id in every.reached and self.graph.entry(id).requires_grad
        }

    def refuse_late(self, what: str) -> None:
        """Refuse what has to come before the first op."""
        if self._has_ops:
            rule = f"a {what} comes before the first op (reset_tape() starts a new graph)"
            raise refuse("graph session", rule, f"one after {len(self)} entries")


class GraphSession(Sessions[Recording]):
    """A session on a graph: one that knows forward mode, and whose tape can be compiled.

    Leaves (`use`, `input`) and integers (`nat`, `nat_vec`) come before the first op, constants at
    any time; what comes late is Rejected, and so is a bad op, and all stays as it was.
    """

    def _fresh(self) -> Recording:
        return Recording()

    @property
    def graph(self) -> Graph:
        """What has been recorded since the last reset."""
        return self.tape.graph

    def nat_vec(self, values: Integers) -> int:
        """Record integers side by side, before the first op; return the handle of the first.

        One after the first op is Rejected, as is what an eager session refuses.
        """
        self.tape.refuse_late("natural number")
        return super().nat_vec(values)

    def evaluate(self, out: Ref, inputs: Sequence[AnyTensor] | None = None) -> AnyTensor:
        """Evaluate the graph anew, at other inputs if given: one for each leaf, in their order.

        A count or a shape that does not fit the leaves is Rejected, naming the position.
        """
        id = self.own("evaluate", out).id
        return self.graph.evaluate(self.tape.inputs if inputs is None else inputs)[id]

    def jvp(self, out: Ref, tangents: Sequence[AnyTensor | None]) -> AnyTensor:
        """Return the tangent of an output, of its shape, along tangents of all leaves.

        There is one for each leaf in their order, of the leaf's shape, or None for zero; a Rejected
        names the position that does not fit. Leaves move whether they require a gradient or not.
        """
        id = self.own("jvp", out).id
        return self.graph.jvp(self.tape.inputs, tangents)[id]

    def jvp_leaf(self, out: Ref, leaf: Ref, tangent: AnyTensor) -> AnyTensor:
        """Return the tangent of an output if only one leaf moves; any other ref is Rejected."""
        id, leaves = self.own("jvp", leaf).id, self.graph.leaves
        if id not in leaves:
            raise refuse("jvp", f"the leaves are {', '.join(f'x{k}' for k in leaves)}", f"x{id}")
        return self.jvp(out, [tangent if k == id else None for k in leaves])

    def jvp_scalar_leaf(self, loss: Ref, leaf: Ref, tangent: AnyTensor) -> AnyTensor:
        """Return the tangent of a scalar loss if only one leaf moves; no other shape is taken."""
        if self.own("jvp", loss).shape != ():
            raise refuse("jvp", "the loss is a scalar", f"shape {loss.shape}")
        return self.jvp_leaf(loss, leaf, tangent)

    def compile_tape(self) -> Tape:
        """Return a new tape of the graph at the inputs of this session; ids are the same."""
        return self.graph.compile_tape(self.tape.inputs)
