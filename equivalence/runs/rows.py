"""Which rows a run has: every operation in value and vjp, every optimizer, every dtype."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from equivalence.backends.names import unknown_calls
from equivalence.backends.parts import dtypes_offered, offers, part_of
from equivalence.blame import Refused
from equivalence.cases.declared.inside import Inside
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS, OPTIMIZERS
from equivalence.runs.results import Row

if TYPE_CHECKING:
    from equivalence.backends.protocol import Capabilities


class UnknownOperation(Refused):
    """No operation or optimizer goes by this name; the message says what is near."""


def check_names(names: Sequence[str]) -> None:
    """Refuse names that are neither operations nor optimizers."""
    wrong = unknown_calls(names)
    if wrong:
        raise UnknownOperation(
            f"{wrong}; python -m equivalence list names all that there are, and --pages MODULE "
            "imports a module that registers pages of your own"
        )


def rows_of(
    capabilities: Capabilities, names: Sequence[str] | None = None, forward: bool = False
) -> list[Row]:
    """Return the rows of a run over some operations (None: all), in reading order.

    forward adds rows for forward mode, which few backends have.
    An op that makes numbers has no derivatives, and so no rows but those of its value.
    """
    ways = ("value", "vjp", "jvp") if forward else ("value", "vjp")
    if names is not None:
        check_names(names)
    found: list[Row] = []
    for op in OPS:
        if names is None or op in names:
            dtypes = _dtypes(capabilities.ops.get(op, ()))
            own = ("value",) if not OPS[op].moves else ways
            found += [Row(op, way, dtype) for dtype in dtypes for way in own]
    for optimizer in OPTIMIZERS:
        if names is None or optimizer in names:
            dtypes = _dtypes(capabilities.optimizers.get(optimizer, ()))
            found += [Row(optimizer, "update", dtype) for dtype in dtypes]
    return found


def _dtypes(supported: Collection[str]) -> list[str]:
    """Return the dtypes to ask about: some of any backend, others only where it has them."""
    return [name for name, dtype in DTYPES.items() if dtype.asked or name in supported]


def dtypes_of(capabilities: Capabilities, row: Row) -> tuple[str, ...]:
    """Return the dtypes in which a backend offers the op or the optimizer of a row."""
    return dtypes_offered(capabilities, row.op, row.direction)


def supported(capabilities: Capabilities, row: Row) -> bool:
    """Say whether a backend offers a row at all, or some part of it."""
    return offers(capabilities, row.op, row.direction, row.dtype)


def inside_of(capabilities: Capabilities, row: Row) -> Inside | None:
    """Return which part of a row a backend declares to take; None where it declares nothing."""
    return part_of(capabilities, row.op, row.direction, row.dtype)
