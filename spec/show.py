"""Chapter 19. Showing: a tape as text, as a ledger, and as a drawing.

Everything here is a pure function from a tape to a string.

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

from spec.op import AnyTensor, type_of
from spec.tape import Accumulate, Event, Pull, Seed, Tape


def program(tape: Tape) -> str:
    """Write the tape as one assignment per node, types included."""
    return "\n".join(_line(tape, id) for id in range(len(tape)))


def _line(tape: Tape, id: int) -> str:
    node = tape.node(id)
    kind = type_of(node.value)
    if node.op is None:
        what = "leaf" if node.requires_grad else "const"
        return f"x{id}: {kind} = {what}{' ' + node.name if node.name else ''}"
    parents = " ".join(f"x{parent}" for parent in node.parents)
    attributes = "".join(f" {name}={value!r}" for name, value in node.attributes.items())
    return f"x{id}: {kind} = {node.op.name} {parents}{attributes}"


def ledger(tape: Tape, out: int, seed: AnyTensor | None = None) -> str:
    """Write one row per node: what it is, its value, and the cotangent that reached it."""
    cotangents = tape.backward_dense(out, seed)
    rows = [("node", "rule", "value", "cotangent")]
    for id in range(len(tape)):
        node = tape.node(id)
        rule = node.op.name if node.op else (node.name or "leaf")
        rows.append((f"x{id}", rule, str(node.value.nested()), str(cotangents[id].nested())))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)) for r in rows)
    return "\n".join(line.rstrip() for line in lines)


def dot(tape: Tape) -> str:
    """Write the graph in Graphviz's language; arrows go from parents to children."""
    lines = ["digraph tape {", "  rankdir=LR;"]
    for id in range(len(tape)):
        node = tape.node(id)
        shape = "box" if node.op is None else "ellipse"
        label = node.op.name if node.op else (node.name or "leaf")
        lines.append(f'  x{id} [shape={shape}, label="{label}\\n{type_of(node.value)}"];')
        lines.extend(f"  x{parent} -> x{id};" for parent in node.parents)
    return "\n".join([*lines, "}"])


def event(happened: Event) -> str:
    """Write one event of a backward pass as a sentence; an observer may print these."""
    match happened:
        case Seed(node, cotangent):
            return f"x{node} starts with {cotangent.nested()}"
        case Pull(node, cotangent):
            return f"x{node} hands on {cotangent.nested()}"
        case Accumulate(node, parent, contribution, total):
            return f"x{parent} gets {contribution.nested()} from x{node}, has {total.nested()}"
