"""What a backend offers of an op or an optimizer: dtypes, the part it declares, and extras."""

from __future__ import annotations

from collections.abc import Iterable

from equivalence.backends.protocol import Capabilities
from equivalence.cases.declared.inside import Inside
from equivalence.cases.declared.reading import read_declaration
from equivalence.cases.updates.clipping import CLIPPING
from equivalence.registry import OPTIMIZERS


def part_of(capabilities: Capabilities, name: str, direction: str, dtype: str) -> Inside | None:
    """Return what is declared of an op or an optimizer; None where nothing is."""
    written, extras = capabilities.takes.get(name), tuple(capabilities.extras.get(name, ()))
    if written is None and not extras:
        return None
    declared = None if written is None else read_declaration(name, written)
    return Inside(declared, direction, dtype, extras)


def every_extra(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return all extras of some optimizers, clipping too, as who takes them all declares."""
    return {name: (*OPTIMIZERS[name].extras, *CLIPPING) for name in names}


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
