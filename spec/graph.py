"""Chapter 30. The graph: a program as a value.

A tape computes while it records. A graph only says what depends on what, and of which type; numbers
come later, as often as one likes.
Each of its entries is an input (a leaf), a constant, or an op applied to earlier entries; entries
with their values are the *context*.

A cotangent is stated here, where the tape computes it: that of an entry is what it was seeded with,
plus what each op that reads it hands back.
That the tape's loop over the compiled graph arrives at the same is a theorem, see
proofs_notes/tape_equals_graph.md.

>>> from spec.ops import OPS
>>> from spec.tensor import tensor
>>> graph = Graph()
>>> x = graph.leaf(Type((2,)), name="x")
>>> y = graph.apply(OPS["sum"], graph.apply(OPS["square"], x))
>>> print(graph)
x0: real[2] = leaf x
x1: real[2] = square x0
x2: real[] = sum x1
>>> at = [tensor([3.0, 4.0])]
>>> graph.evaluate(at)
[Tensor([3.0, 4.0]), Tensor([9.0, 16.0]), Tensor(25.0)]
>>> graph.jvp(at, [tensor([1.0, 0.0])])[y], graph.backprop(at, {y: tensor(1.0)})
(Tensor(6.0), [Tensor([6.0, 8.0])])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from spec.op import AnyTensor, Op, Type, need_shape, plus, type_read_off, zeros_like
from spec.refusals import need, need_id, refuse
from spec.tape import Dense, Node, Observer, Seeds, Tape, first_cotangent

D = TypeVar("D", bound="AnyTensor | None")


@dataclass(frozen=True)
class Entry:
    """One line of a graph: an op applied to earlier entries, a constant, or a leaf (neither)."""

    type: Type
    op: Op | None = None
    parents: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constant: AnyTensor | None = None
    requires_grad: bool = False
    name: str | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether the value comes from outside, each time the graph is evaluated."""
        return self.op is None and self.constant is None

    @property
    def rule(self) -> str:
        """What makes the value, in one word."""
        if self.op is not None:
            return self.op.name
        return "leaf" if self.requires_grad else "const" if self.constant else "input"


def assignment(id: int, type: Type, rule: str, line: Node | Entry) -> str:
    """Write a line of a tape or of a graph as an assignment: ``x2: real[] = sum x1``."""
    parents = "".join(f" x{parent}" for parent in line.parents)
    attributes = "".join(f" {name}={value!r}" for name, value in line.attributes.items())
    name = f" {line.name}" if line.name else ""
    return f"x{id}: {type} = {rule}{name}{parents}{attributes}"


class Graph:
    """Entries, each of which depends on earlier ones only; ids count from 0 and never change."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._entries)

    def __str__(self) -> str:
        """Write the graph as one assignment per entry, types included."""
        lines = enumerate(self._entries)
        return "\n".join(assignment(id, entry.type, entry.rule, entry) for id, entry in lines)

    def entry(self, id: int) -> Entry:
        """Return an entry, or refuse an id that is not in the graph."""
        need_id("graph", id, len(self._entries))
        return self._entries[id]

    @property
    def leaves(self) -> list[int]:
        """The ids of the leaves, in the order in which `evaluate` takes their values."""
        return [id for id, entry in enumerate(self._entries) if entry.is_leaf]

    def leaf(self, type: Type, requires_grad: bool = True, name: str | None = None) -> int:
        """Append an input of a type; in reverse mode, it takes a cotangent if it requires one."""
        need("graph", "a leaf is given by its Type, such as Type((2, 3))", Type, type)
        return self._append(Entry(type, requires_grad=requires_grad, name=name))

    def const(self, value: AnyTensor, name: str | None = None) -> int:
        """Append a tensor that is the same at every evaluation and has no derivative."""
        return self._append(Entry(type_read_off("graph", value), constant=value, name=name))

    def apply(self, op: Op, *parents: int, **attributes: Any) -> int:
        """Append an op applied to earlier entries; nothing is appended if its types are refused.

        What only entries can tell, such as the range of an index, is checked at evaluation.
        """
        need("graph", "an op is an Op, such as OPS['add']", Op, op)
        read = [self.entry(id) for id in parents]
        # Whether an op's result holds indices, its type does not say.
        types = [
            entry.type
            if k in op.index_inputs and entry.op is None
            else op.type_at(k, entry.type.shape)
            for k, entry in enumerate(read)
        ]
        result = op.check_types(*types, **attributes)
        wants = op.wants_cotangent(*(entry.requires_grad for entry in read))
        return self._append(Entry(result, op, parents, attributes, None, wants))

    def evaluate(self, inputs: Sequence[AnyTensor]) -> list[AnyTensor]:
        """Return the value of every entry, given those of the leaves, in their order."""
        given = iter(self._fitting("input", inputs))
        values: list[AnyTensor] = []
        for entry in self._entries:
            if entry.op is not None:
                values.append(entry.op(*(values[p] for p in entry.parents), **entry.attributes))
            else:
                values.append(next(given) if entry.constant is None else entry.constant)
        return values

    def jvp(self, inputs: Sequence[AnyTensor], tangents: Sequence[AnyTensor | None]) -> Dense:
        """Return the tangent of every entry, given those of the leaves; None stands for zero.

        A tangent that does not fit its leaf is Rejected, by its position. An op that no tangent
        reaches is not asked. Any leaf may move, whether or not it requires a cotangent.
        """
        values, given = self.evaluate(inputs), iter(self._fitting("tangent", tangents))
        moved: dict[int, AnyTensor] = {}
        for id, entry in enumerate(self._entries):
            tangent = next(given) if entry.is_leaf else _pushed(entry, values, moved)
            if tangent is not None:
                moved[id] = tangent
        return _dense(values, moved)

    def backprop_all(self, inputs: Sequence[AnyTensor], seeds: Seeds) -> Dense:
        """Return the cotangent of every entry, given what some of them are seeded with.

        An op that no cotangent reaches is not asked.
        """
        values = self.evaluate(inputs)
        starts = self._starts(values, seeds)
        found: dict[int, AnyTensor] = {}
        handed: dict[int, Sequence[AnyTensor | None]] = {}
        for id in reversed(range(len(self))):
            total = starts.get(id)
            for contribution in self._handed_back(id, handed):
                total = plus(total, contribution)
            if total is not None:
                found[id] = total
                handed[id] = _pulled(self._entries[id], values, total)
        return _dense(values, found)

    def backprop(self, inputs: Sequence[AnyTensor], seeds: Seeds) -> list[AnyTensor]:
        """Return the cotangent of every leaf, given what some entries are seeded with."""
        every = self.backprop_all(inputs, seeds)
        return [every[id] for id in self.leaves]

    def compile_tape(self, inputs: Sequence[AnyTensor], observer: Observer | None = None) -> Tape:
        """Return the tape that running the graph on these inputs records; ids are the same."""
        tape, given = Tape(observer), iter(self._fitting("input", inputs))
        for entry in self._entries:
            if entry.op is not None:
                tape.apply(entry.op, *entry.parents, **entry.attributes)
            elif entry.constant is not None:
                tape.const(entry.constant, entry.name)
            else:
                tape.leaf(next(given), entry.requires_grad, entry.name)
        return tape

    def _append(self, entry: Entry) -> int:
        self._entries.append(entry)
        return len(self._entries) - 1

    def _fitting(self, what: str, given: Sequence[D]) -> Sequence[D]:
        """Return one tensor per leaf, each of the leaf's shape, or refuse, naming the position."""
        leaves = self.leaves
        came = len(given) if isinstance(given, (list, tuple)) else type(given).__name__
        if came != len(leaves):
            raise refuse("graph", f"one {what} for each of the {len(leaves)} leaves", came)
        for k, (id, x) in enumerate(zip(leaves, given, strict=True)):
            shape = self._entries[id].type.shape
            if x is not None:
                need_shape("graph", f"{what} {k} has the shape {shape} of leaf x{id}", shape, x)
        return given

    def _starts(self, values: Sequence[AnyTensor], seeds: Seeds) -> dict[int, AnyTensor]:
        """Return the seeds by id, or refuse one that does not fit its entry."""
        need("graph", "seeds are a mapping from ids to cotangents", Mapping, seeds)
        for id in seeds:
            self.entry(id)
        return {id: first_cotangent("graph", id, values[id], seed) for id, seed in seeds.items()}

    def _handed_back(
        self, id: int, handed: Mapping[int, Sequence[AnyTensor | None]]
    ) -> Iterator[AnyTensor | None]:
        """Yield what the ops that read an entry hand back to it: the latest first, as on a tape."""
        if not self._entries[id].requires_grad:
            return
        for reader in reversed(range(id + 1, len(self))):
            parents = self._entries[reader].parents
            for parent, back in zip(parents, handed.get(reader, ()), strict=False):
                if parent == id:
                    yield back


def _pushed(
    entry: Entry, values: Sequence[AnyTensor], moved: Mapping[int, AnyTensor]
) -> AnyTensor | None:
    """Return the tangent of an entry that is no leaf, or None if nothing moves it."""
    op = entry.op
    if op is None or op.stops_gradients:
        return None
    ahead = [None if k in op.index_inputs else moved.get(p) for k, p in enumerate(entry.parents)]
    if all(tangent is None for tangent in ahead):
        return None
    return op.jvp([values[p] for p in entry.parents], ahead, **entry.attributes)


def _pulled(
    entry: Entry, values: Sequence[AnyTensor], cotangent: AnyTensor
) -> Sequence[AnyTensor | None]:
    """Return what an entry hands back to each of its parents."""
    if entry.op is None or not entry.requires_grad:
        return ()
    return entry.op.vjp([values[p] for p in entry.parents], cotangent, **entry.attributes)


def _dense(values: Sequence[AnyTensor], found: Mapping[int, AnyTensor]) -> Dense:
    return Dense((found.get(id) or zeros_like(value) for id, value in enumerate(values)), found)
