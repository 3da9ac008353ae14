"""Ops that keep the entries on one side of a diagonal."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import FEW_EXTENTS, leading
from equivalence.cases.families.family import (
    Call,
    Family,
    Offer,
    Operands,
    Picks,
    is_matrix,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, grown, grows
from equivalence.cases.families.moves.placed import one_number_moves_nowhere
from equivalence.cases.families.shapes import extent, shape
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op
from spec.tensor import tabulate

TRIANGLES_OF: Factors = {
    "rank": (2, 3, 4, 5, 6),
    "rows": (9, 1, 2, 8, 33, 65, 257),
    "columns": (33, 1, 2, 8, 9, 64, 65, 257),
    "diagonal": ("main", "above", "below", "last", "first", "beyond", "before"),
}
"""Matrices behind leading axes, and where their diagonal lies, down to where there is none."""


def _diagonal(rows: int, columns: int, diagonal: str) -> int:
    return {
        "main": 0, "above": 1, "below": -1, "last": columns - 1, "first": 1 - rows,
        "beyond": columns + 3, "before": -rows - 3,
    }[diagonal]  # fmt: skip


def a_diagonal_is_its_own(rows: int, columns: int, diagonal: str) -> bool:
    """Small matrices have few diagonals."""
    among: tuple[str, ...] = tuple(TRIANGLES_OF["diagonal"])
    before = {_diagonal(rows, columns, other) for other in among[: among.index(diagonal)]}
    return _diagonal(rows, columns, diagonal) not in before


def large_matrices_cost_too_much(rows: int, columns: int) -> bool:
    """Long rows are few, and long columns."""
    return rows * columns <= 2100


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    rows, columns = levels["rows"], levels["columns"]
    lead = levels.get(
        "lead",
        [(2, 1, 3, 1)[k] if rows * columns < 600 else 1 for k in range(levels["rank"] - 2)],
    )
    own = (*lead, rows, columns)
    return (own,), {"diagonal": _diagonal(rows, columns, levels["diagonal"])}


@cache
def _keeps(op: Op, rows: int, columns: int, diagonal: int) -> bool:
    ones = tabulate((rows, columns), lambda *_: 1)
    return 1 in op.value(ones, diagonal=diagonal).data


def something_is_kept(call: Call) -> bool:
    """Zeros alone show nothing."""
    rows, columns = call.shapes[0][-2:]
    return _keeps(call.op, rows, columns, call.attributes["diagonal"])


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    lead = shape(draw, 1, 3, max_rank=2)
    rows = extent(draw, 17)
    columns = extent(draw, 33, -(-ENOUGH // rows))
    diagonal: int = draw(st.integers(-rows, columns))
    return ((*lead, rows, columns),), {"diagonal": diagonal}


def _small(draw: Draw, op: Op) -> Signature:
    matrix = (*leading(draw, 1), draw(FEW_EXTENTS), draw(FEW_EXTENTS))
    return (matrix,), {"diagonal": draw(st.integers(-4, 4))}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], is_matrix)
    return None if x is None else ((x,), {"diagonal": picks[1] % 5 - 2})


GROWTHS = (
    Growth("rows", grown(lambda n: ((n, 16),), lambda n: {"diagonal": -n // 2}), MANY_ROWS, 2_731),
    Growth("columns", grown(lambda n: ((8, n),), lambda n: {"diagonal": n // 2}), 2**17, 8_201),
)

TRIANGLES = Family(
    name="triangles",
    factors=varied(TRIANGLES_OF),
    rules=(a_diagonal_is_its_own, large_matrices_cost_too_much),
    call=_call,
    empty=always((((0, 3),), {"diagonal": 0}), (((2, 3, 0),), {}), (((1, 1),), {})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    shows=(one_number_moves_nowhere, something_is_kept),
)
