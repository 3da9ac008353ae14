"""Chapter 40. Showing: a tape as text, as a ledger, and as a drawing.

Everything here is a pure function from a tape to a string. A session stands for its tape.

>>> from spec.ops import OPS
>>> from spec.tensor import tensor
>>> tape = Tape()
>>> x = tape.leaf(tensor([1.0, 2.0]), name="x")
>>> y = tape.apply(OPS["sum"], tape.apply(OPS["square"], x), axes=(0,))
>>> print(program(tape))
x0: real[2] = leaf x
x1: real[2] = square x0
x2: real[] = sum x1 axes=(0,)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from spec.answers import telling
from spec.composite import traced
from spec.graph import assignment
from spec.linked import Recording
from spec.op import AnyTensor, Op, Type, refuse, shape_or_type
from spec.ref import Interpreter, Ref
from spec.refusals import need, unknown
from spec.tape import Accumulate, Dense, Event, Pull, Seed, Tape


class Text(str):
    """Lines of text, which a notebook shows as they stand."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


@telling
def program(shown: Any) -> Text:
    """Write a tape as one assignment per node, types included."""
    tape = tape_of(shown)
    nodes = ((id, tape.node(id), kind) for id, kind in enumerate(types_of(tape)))
    return Text("\n".join(assignment(id, kind, node.rule, node) for id, node, kind in nodes))


def types_of(tape: Tape) -> list[Type]:
    """Return every node's type; a node is an index or a mask where an op reads it as one."""
    nodes = [tape.node(id) for id in range(len(tape))]
    read = {n.parents[k]: n.op.type_at(k, ()) for n in nodes if n.op for k in n.op.index_inputs}
    plain = Type(())
    return [
        replace(read.get(id, plain), shape=tuple(node.value.shape)) for id, node in enumerate(nodes)
    ]


def written(nested: Any, digits: bool = True) -> str:
    """Write nested lists with each number as it prints alone, such as 1/2 for a fraction.

    Without all digits, a float that is no integer has six.
    """
    entries: Any = nested
    if isinstance(nested, list):
        return f"[{', '.join(written(entry, digits) for entry in entries)}]"
    short = not digits and isinstance(nested, float) and nested % 1
    return f"{nested:.6g}" if short else str(nested)


def tape_of(shown: Any) -> Tape:
    """Return the tape of what is shown: a session's, or that which a recorded graph compiles to.

    A tape stands for itself; anything else is Rejected.
    """
    session: Any = shown
    tape: object = session.tape if isinstance(shown, Interpreter) else shown
    if isinstance(tape, Recording):
        return tape.graph.compile_tape(tape.inputs)
    if not isinstance(tape, Tape):
        rule = "what is shown is a session, its tape, or the tape that compile_tape() returns"
        raise refuse("show", rule, type(tape).__name__)
    return tape


def node_of(shown: Any, out: Any, who: str = "show") -> int:
    """Return the node that a ref of what is shown stands for, or an id unchanged.

    On a tape that `opened` returned, a ref of what was opened stands for the same value. A ref of
    another record is Rejected.
    """
    if isinstance(out, int) and not isinstance(out, bool):
        return out
    if not isinstance(out, Ref):
        raise refuse(who, "out is a ref of the tape, or its id", shape_or_type(out))
    record = _record_of(shown)
    if out.tape is record:
        return out.id
    if isinstance(record, Opened) and out.tape is record.source:
        return record.places[out.id]
    raise refuse(who, "out is a ref of what is shown", f"x{out.id} of another record")


def _record_of(shown: Any) -> object:
    """Return what refs of a session point into; a tape stands for itself."""
    session: Any = shown
    return session.tape if isinstance(shown, Interpreter) else shown


def cotangents_of(tape: Tape, out: int, seed: AnyTensor | None) -> Dense:
    """Send cotangents back from a node, unseen by who observes the tape: to show is not to run."""
    return tape.unobserved().backward_dense(out, seed)


class Opened(Tape):
    """A tape in which composites are the steps of their programs, and where its nodes come from."""

    def __init__(self, source: Any) -> None:
        """Start empty; `source` is the record that is opened."""
        super().__init__()
        self.source = source
        self.places: list[int] = []


@telling
def opened(shown: Any, *names: str) -> Opened:
    """Return a tape in which the composites of these names are the steps of their programs.

    Each of these functions shows it as any other tape, and takes the refs of what was opened. A
    name that no composite of the tape has is Rejected, with those that there are.
    """
    tape = tape_of(shown)
    found = Opened(_record_of(shown))
    nodes = [tape.node(id) for id in range(len(tape))]
    composites = {n.op.name for n in nodes if n.op is not None and n.op.program is not None}
    for name in names:
        need("opened", "a name is a str: write opened(shown, 'softmax', 'gelu')", str, name)
        if name not in composites:
            raise unknown("opened", "composite on the tape", name, sorted(composites))
    places = found.places
    for node in nodes:
        if node.op is None:
            places.append(found.leaf(node.value, node.requires_grad, node.name))
            continue
        parents = [places[parent] for parent in node.parents]
        places.append(_taken(found, node.op, parents, node.attributes, names))
    return found


def _taken(
    tape: Tape, op: Op, ids: Sequence[int], given: Mapping[str, Any], names: tuple[str, ...]
) -> int:
    """Append an op, or the steps of its program where it is to be opened; return the last id."""
    if op.program is None or op.name not in names:
        return tape.apply(op, *ids, **given)
    trace, out = traced(op, [tape.value(id) for id in ids], given)
    places = dict(enumerate(ids))

    def place(held: Any) -> int:
        # Constants, and the indices that a program reads as plain tensors, have no slot.
        slot = getattr(held, "slot", None)
        return tape.const(getattr(held, "tensor", held)) if slot is None else places[slot]

    for step, arguments, chosen, slot in trace.steps:
        places[slot] = _taken(tape, step, [*map(place, arguments)], chosen, names)
    return place(out)


@telling
def ledger(shown: Any, out: int, seed: AnyTensor | None = None) -> Text:
    """Write one row per node: what it is, its value, and the cotangent that reached it.

    out is the ref that the cotangents start from, or its id. A node that takes none has a dash.
    """
    tape = tape_of(shown)
    cotangents = cotangents_of(tape, node_of(shown, out, "ledger"), seed)
    rows = [("node", "rule", "value", "cotangent")]
    for id in range(len(tape)):
        node = tape.node(id)
        came = written(cotangents[id].nested()) if node.requires_grad else "-"
        rows.append((f"x{id}", tape.label(id), written(node.value.nested()), came))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)) for r in rows)
    return Text("\n".join(line.rstrip() for line in lines))


@telling
def dot(shown: Any) -> Text:
    """Write a tape in Graphviz's language; arrows go from parents to children."""
    tape, lines = tape_of(shown), ["digraph tape {", "  rankdir=LR;"]
    for id, kind in enumerate(types_of(tape)):
        node = tape.node(id)
        shape = "box" if node.op is None else "ellipse"
        name = tape.label(id).replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  x{id} [shape={shape}, label="{name}\\n{kind}"];')
        lines.extend(f"  x{parent} -> x{id};" for parent in node.parents)
    return Text("\n".join([*lines, "}"]))


@telling
def event(happened: Event) -> str:
    """Write one event of a backward pass as a sentence; an observer may print these."""
    match happened:
        case Seed(node, cotangent):
            return f"x{node} starts with {written(cotangent.nested())}"
        case Pull(node, cotangent):
            return f"x{node} hands on {written(cotangent.nested())}"
        case Accumulate(node, parent, contribution, total):
            came, has = written(contribution.nested()), written(total.nested())
            return f"x{parent} gets {came} from x{node}, has {has}"
        case _:
            raise refuse("show", "an event is a Seed, a Pull or an Accumulate", repr(happened))
