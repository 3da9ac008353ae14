"""Chapter 20. The tape: reverse mode, defined by running.

Every operation appends a node: what was applied, to which earlier nodes, with what result.
Going through the nodes from the last to the first, each hands its cotangent to its parents by its
op's VJP; where two paths meet, cotangents add.
That is all of backpropagation.

Why from the last to the first? In b = a + a, c = b + b, both of b's contributions have to be there
before b hands on: b's cotangent is 1 + 1 = 2, and then a's is 2 + 2 = 4. A walk that went on from b
as soon as the first came would tell a of 1 and 1, and later of 2 and 2 again. A node's readers all
stand behind it on the tape, so the walk from its end meets them first; no other sorting is needed.

>>> from spec.ops import OPS
>>> from spec.tensor import tensor
>>> tape = Tape()
>>> a = tape.leaf(tensor(3), name="a")
>>> b = tape.apply(OPS["add"], a, a)
>>> c = tape.apply(OPS["add"], b, b)
>>> [int(g[()]) for g in tape.backward_dense(c)]
[4, 2, 1]

A node that no cotangent has reached is never asked: 1/x far from the loss stays silent at x = 0.

Observers see every event, so that a reader can watch, and two tapes can be laid side by side.

>>> tape = Tape()
>>> x = tape.leaf(tensor(3.0), name="x")
>>> y = tape.apply(OPS["square"], x)
>>> z = tape.apply(OPS["add"], y, x)  # x reaches z along two paths
>>> tape.value(z), tape.backward(z)
(Tensor(12.0), {0: Tensor(7.0)})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spec.op import AnyTensor, Op, checked, need_shape, plus, zeros_like
from spec.refusals import need, need_id, refuse
from spec.scalar import zero_like


@dataclass(frozen=True)
class Node:
    """One line of the tape: a leaf (op None), or an op applied to earlier nodes."""

    value: AnyTensor
    op: Op | None
    parents: tuple[int, ...]
    attributes: Mapping[str, Any]
    requires_grad: bool
    name: str | None

    @property
    def rule(self) -> str:
        """What makes the value, in one word."""
        if self.op is not None:
            return self.op.name
        return "leaf" if self.requires_grad else "const"


@dataclass(frozen=True)
class Seed:
    """Backward starts: the node named receives the seed as its cotangent."""

    node: int
    cotangent: AnyTensor


@dataclass(frozen=True)
class Pull:
    """A node is about to hand its cotangent to its parents."""

    node: int
    cotangent: AnyTensor


@dataclass(frozen=True)
class Accumulate:
    """A parent received a contribution from a node; total is its cotangent so far."""

    node: int
    parent: int
    contribution: AnyTensor
    total: AnyTensor


Seeds = Mapping[int, AnyTensor | None]
"""Where backward starts, by id, and with what; None stands for 1, at a scalar."""

Event = Seed | Pull | Accumulate
Observer = Callable[[Event], None]


class Dense(list[AnyTensor]):
    """One cotangent per node; those of nodes not in `reached` are zero because none arrived."""

    def __init__(self, cotangents: Iterable[AnyTensor], reached: Iterable[int]) -> None:
        """List the cotangents by node, and say which were reached."""
        super().__init__(cotangents)
        self.reached = frozenset(reached)


class Tape:
    """A record of operations that can be run backward; ids count nodes from 0 and never change."""

    def __init__(self, observer: Observer | None = None) -> None:
        """Start empty; the observer, if any, is called with every event of backward passes."""
        if observer is not None and not callable(observer):
            rule = "an observer is a function of one event"
            raise refuse("tape", rule, type(observer).__name__)
        self._nodes: list[Node] = []
        self._observer = observer

    def unobserved(self) -> Tape:
        """Return the same nodes as a tape that nobody observes."""
        same = Tape()
        same._nodes = self._nodes
        return same

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self._nodes)

    def node(self, id: int) -> Node:
        """Return a node, or refuse an id that is not on the tape."""
        need_id("tape", id, len(self._nodes))
        return self._nodes[id]

    def label(self, id: int) -> str:
        """Return the name of a node, or what made it."""
        node = self.node(id)
        return node.name or node.rule

    def maker(self, id: int) -> Op | None:
        """Return the op that made a node, None of a leaf."""
        return self.node(id).op

    def value(self, id: int) -> AnyTensor:
        """Return the value of a node."""
        return self.node(id).value

    def leaf(self, value: AnyTensor, requires_grad: bool = True, name: str | None = None) -> int:
        """Append a leaf: an input, a parameter or a constant; what is no tensor is Rejected."""
        return self._append(Node(checked("tape", value), None, (), {}, requires_grad, name))

    def param(self, value: AnyTensor, name: str | None = None) -> int:
        """Append a trainable leaf of any shape, and return its id."""
        return self.leaf(value, True, name)

    def const(self, value: AnyTensor, name: str | None = None) -> int:
        """Append a leaf that takes no gradient, and return its id.

        That is data, labels, masks, frozen tensors; backward has no entry for it, dense has zero.
        """
        return self.leaf(value, False, name)

    def apply(self, op: Op, *parents: int | AnyTensor, **attributes: Any) -> int:
        """Append an op applied to earlier nodes; nothing is appended if it is refused.

        A tensor in the place of a parent, such as labels, becomes a constant in front of the op.
        """
        need("tape", "an op is an Op, such as OPS['add']", Op, op)
        values = [self.value(p) if isinstance(p, int) else p for p in parents]
        value = op(*values, **attributes)
        ids = tuple(p if isinstance(p, int) else self.const(p) for p in parents)
        wants = op.wants_cotangent(*(self._nodes[id].requires_grad for id in ids))
        return self._append(Node(value, op, ids, attributes, wants, None))

    def backward_dense(self, out: int, seed: AnyTensor | None = None) -> Dense:
        """Return a cotangent for every node, zero where the seed does not reach.

        The seed has the shape of the node out; a scalar's is 1 unless given. What does not fit, and
        an id that is not on the tape, are Rejected.
        """
        return self.backward_from({out: seed})

    def backward_from(self, seeds: Seeds) -> Dense:
        """Return a cotangent for every node, starting at several nodes at once."""
        found = self._sweep(seeds)
        every = (found.get(id) or zeros_like(node.value) for id, node in enumerate(self._nodes))
        return Dense(every, found)

    def backward(self, out: int, seed: AnyTensor | None = None) -> dict[int, AnyTensor]:
        """Return the cotangents of the trainable leaves that the seed reaches, by leaf id."""
        found = self._sweep({out: seed})
        return {
            id: cotangent
            for id, cotangent in sorted(found.items())
            if self._nodes[id].op is None and self._nodes[id].requires_grad
        }

    def _append(self, node: Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _sweep(self, seeds: Seeds) -> dict[int, AnyTensor]:
        """Hand cotangents from the seeded nodes towards the leaves; the heart of the chapter."""
        found: dict[int, AnyTensor] = {}
        need("tape", "seeds are a mapping from ids to cotangents", Mapping, seeds)
        for id, seed in seeds.items():
            found[id] = first_cotangent("tape", id, self.value(id), seed)
            self._tell(Seed(id, found[id]))
        for id in range(max(found, default=-1), -1, -1):
            node = self._nodes[id]
            if id not in found or node.op is None or not node.requires_grad:
                continue
            self._tell(Pull(id, found[id]))
            inputs = [self._nodes[parent].value for parent in node.parents]
            contributions = node.op.vjp(inputs, found[id], **node.attributes)
            for parent, contribution in zip(node.parents, contributions, strict=True):
                if contribution is not None and self._nodes[parent].requires_grad:
                    self._accumulate(found, id, parent, contribution)
        return found

    def _accumulate(
        self, found: dict[int, AnyTensor], id: int, parent: int, contribution: AnyTensor
    ) -> None:
        total = plus(found.get(parent), contribution) or contribution
        found[parent] = total
        self._tell(Accumulate(id, parent, contribution, total))

    def _tell(self, event: Event) -> None:
        if self._observer is not None:
            self._observer(event)


def flag(who: str, requires_grad: object) -> bool:
    """Return a flag unchanged, or refuse what is neither True nor False."""
    if not isinstance(requires_grad, bool):
        raise refuse(who, "requires_grad is True or False", repr(requires_grad))
    return requires_grad


def first_cotangent(who: str, id: int, value: AnyTensor, seed: AnyTensor | None) -> AnyTensor:
    """Return the seed of a node, which must have its shape; a scalar's is 1 unless given."""
    if seed is None:
        if value.shape != ():
            rule = "without a seed, backward starts at a scalar"
            remedy = "sum it, or give seed=tensor(...) of that shape"
            raise refuse(who, rule, f"node {id} of shape {value.shape}; {remedy}")
        return value.map(lambda x: zero_like(x) + 1)
    need_shape(who, f"the seed has the shape {value.shape} of node {id}", value.shape, seed)
    return seed
