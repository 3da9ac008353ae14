"""What a backend offers of an op or an optimizer: its dtypes, and the part that it declares."""

from __future__ import annotations

from equivalence.backends.protocol import Capabilities
from equivalence.cases.declared.inside import Inside
from equivalence.cases.declared.reading import read_declaration


def part_of(capabilities: Capabilities, name: str, direction: str, dtype: str) -> Inside | None:
    """Return which part of an op or an optimizer is declared; None where nothing is declared."""
    written = capabilities.takes.get(name)
    if written is None:
        return None
    return Inside(read_declaration(name, written), direction, dtype)


def dtypes_offered(capabilities: Capabilities, name: str, direction: str) -> tuple[str, ...]:
    """Return the dtypes in which an op is offered, or an optimizer, whose direction is "update"."""
    offered = capabilities.optimizers if direction == "update" else capabilities.ops
    return tuple(offered.get(name, ()))


def offers(capabilities: Capabilities, name: str, direction: str, dtype: str) -> bool:
    """Say whether a backend offers an op, in a direction and a dtype, at all or some part of it."""
    if dtype not in dtypes_offered(capabilities, name, direction):
        return False
    declared = part_of(capabilities, name, direction, dtype)
    part = None if declared is None else declared.part
    ways = None if part is None else part.directions
    return ways is None or direction in ways
