"""Which note proves what is claimed of which op, which its name, its text or its kind tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spec.op import Op
from spec.ops import OPS

HERE = Path(__file__).resolve().parent

GENERAL = ("README.md", "calculus.md", "budget.md", "arrays.md", "exact.md", "tape_equals_graph.md")
"""Notes that are about no single op."""

BY_KIND: Mapping[str, str] = {"pointwise": "pointwise.md", "composite": "tape_equals_graph.md"}
"""What covers a page of a kind that has no note of its own and is named in none.

The note of the pointwise pages runs every one of them on symbols. A composite states no derivative:
that of its program is formed as that of any other program.
"""


def note_of(op: Op) -> str | None:
    """Return the note of an op: its own, the one that names its page, or the one of its kind."""
    if (HERE / f"{op.name}.md").exists():
        return f"{op.name}.md"
    for note in sorted(HERE.glob("*.md")):
        if note.name not in GENERAL and f"`spec.ops.{op.name}`" in note.read_text("utf-8"):
            return note.name
    return BY_KIND.get(op.kind)


NOTES: dict[str, str] = {name: note for name, op in OPS.items() if (note := note_of(op))}
"""The note of each op, in the reading order of the ops."""

NAMED: dict[str, str] = {
    name: note
    for name, note in NOTES.items()
    if f"`spec.ops.{name}`" in (HERE / note).read_text("utf-8")
}
"""Those that a note names, whose kernels it compares as well."""
