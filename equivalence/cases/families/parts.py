"""Ops that cut tensors apart along an axis, join them, pad them, and cut triangles out of them."""

from __future__ import annotations

import math
from functools import cache

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.family import (
    NAMES,
    Call,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    always,
    around,
    extent,
    is_matrix,
    named,
    named_axis,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.moves import PLACED, one_number_moves_nowhere, varied
from spec.op import Op
from spec.tensor import tabulate

CUT: Factors = {
    **PLACED,
    "start": ("first", "second", "middle", "last"),
    "length": ("rest", "one", "half", "rest but one"),
    "name": NAMES,
}

JOINED: Factors = {
    **PLACED,
    "inputs": (2, 1, 3, 4, 5, 6),
    "others": ("same", "one", "empty", "growing", "empty first"),
    "name": NAMES,
}
"""How many tensors are joined, and how far the others reach along the axis."""


STACKED: Factors = {
    **PLACED,
    "inputs": (2, 1, 3, 4, 5, 6),
    "joined": ("front", "back", "inside"),
    "name": NAMES,
}
"""How many tensors are joined, and where their new axis is."""

PADDED: Factors = {
    **PLACED,
    "around": ("both", "before", "after", "all", "others", "none"),
    "width": (1, 2, 9, 33),
    "fill": (0.0, 1.5, -3.0, 0.1),
}
"""Where a tensor grows, by how much along its long axis, and what is put there."""

TRIANGLES_OF: Factors = {
    "rank": (2, 3, 4, 5, 6),
    "rows": (9, 1, 2, 8, 33, 65, 257),
    "columns": (33, 1, 2, 8, 9, 64, 65, 257),
    "diagonal": ("main", "above", "below", "last", "first", "beyond", "before"),
}
"""Matrices behind leading axes, and where their diagonal lies, down to where there is none."""


def _interval(extent: int, start: str, length: str) -> tuple[int, int]:
    first = {"first": 0, "second": 1, "middle": extent // 2, "last": extent - 1}[start]
    rest = extent - first
    return first, {"rest": rest, "one": 1, "half": rest // 2, "rest but one": rest - 1}[length]


def an_interval_is_its_own(extent: int, start: str, length: str) -> bool:
    """A short axis has few intervals, and one without entries is judged apart."""
    found = _interval(extent, start, length)
    before = {
        _interval(extent, other, another)
        for k, other in enumerate(CUT["start"][: CUT["start"].index(start) + 1])
        for another in CUT["length"][: CUT["length"].index(length) + 1]
        if (other, another) != (start, length)
    }
    return 0 <= found[0] < extent and found[1] > 0 and found not in before


def _slice_call(op: Op, direction: str, levels: Levels) -> Signature:
    """Cut an interval; a value is counted by the entries that stay."""
    own, axis = around(levels, 2100, ENOUGH)
    start, length = _interval(levels["extent"], levels["start"], levels["length"])
    name = named(axis, len(own), levels["name"])
    return (own,), {"axis": name, "start": start, "length": length}


def one_tensor_has_no_others(inputs: int, others: str) -> bool:
    """What others are like needs one."""
    return inputs > 1 or others == "same"


def several_long_ones_cost_too_much(inputs: int, extent: int, others: str) -> bool:
    """Many long tensors in one call hold what two do."""
    return inputs * extent < 2100 or others in ("one", "empty", "empty first")


def _concat_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    extent, kind = levels["extent"], levels["others"]
    others = [
        {"same": extent, "growing": k + 2}.get(kind, 0 if kind != "one" and k % 2 == 0 else 1)
        for k in range(levels["inputs"] - 1)
    ]
    along = [*others, extent] if kind == "empty first" else [extent, *others]
    shapes = tuple((*own[:axis], n, *own[axis + 1 :]) for n in along)
    return shapes, {"axis": named(axis, len(own), levels["name"])}


def _draw_slice(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    least = 0 if direction == "vjp" else -(-ENOUGH // rest)
    start: int = draw(st.integers(0, own[axis] - least))
    length: int = draw(st.integers(least, own[axis] - start))
    return (own,), {"axis": named_axis(draw, axis, len(own)), "start": start, "length": length}


def _slice(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    extent = offer.shapes[x][-1]
    start = picks[1] % (extent + 1)
    return (x,), {"axis": -1, "start": start, "length": picks[2] % (extent - start + 1)}


def _draw_concat(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw an input that counts, and up to five others, which may be empty along the axis."""
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    others = draw(st.lists(st.sampled_from((own[axis], 1, 0, 2, 3)), max_size=5))
    shapes = [(*own[:axis], n, *own[axis + 1 :]) for n in (own[axis], *others)]
    mixed: list[Shape] = draw(st.permutations(shapes))
    return tuple(mixed), {"axis": named_axis(draw, axis, len(own))}


def _concat(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    rest = offer.shapes[x][1:]
    y = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == rest)
    return ((x, y, x) if picks[2] % 4 == 0 else (x, y)), {"axis": 0}


def a_new_axis_is_its_own(rank: int, joined: str) -> bool:
    """Inside is between two axes."""
    return rank > 1 or joined != "inside"


def many_long_ones_cost_too_much(inputs: int, extent: int) -> bool:
    """Many long tensors in one call hold what two do."""
    return inputs * extent < 2100


def _stack_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels)
    at = {"front": 0, "back": len(own), "inside": 1}[levels["joined"]]
    return (own,) * levels["inputs"], {"axis": named(at, len(own) + 1, levels["name"])}


def _draw_stack(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, max_rank=3)
    count: int = draw(st.integers(1, 6))
    axis: int = draw(st.integers(0, len(own)))
    return (own,) * count, {"axis": named_axis(draw, axis, len(own) + 1)}


def _stack(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) < 3)
    if x is None:
        return None
    y = offer.entry(picks[1], lambda shape: shape == offer.shapes[x])
    return ((x, y, x) if picks[2] % 4 == 0 else (x, y)), {"axis": -1 if picks[2] % 2 else 0}


def what_grows_everywhere_is_small(rank: int, extent: int, width: int, around: str) -> bool:
    """Several axes need a second, and cost too much where they are many, long or grow far."""
    return around not in ("all", "others") or (1 < rank < 5 and extent < 129 and width < 9)


def no_width_is_one(width: int, fill: float, around: str) -> bool:
    """Where nothing is put around, neither its width nor its value matters."""
    return around != "none" or (width == 1 and fill == 0.0)


def _pad_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    width, where = levels["width"], levels["around"]
    before, after = [0] * len(own), [0] * len(own)
    if where in ("all", "others"):
        before = [k % 2 for k in range(len(own))]
        after = [1] * len(own)
    if where != "none":
        before[axis] = 0 if where in ("after", "others") else width
        after[axis] = {"both": width + 1, "all": 1, "after": width}.get(where, 0)
    return (own,), {"before": tuple(before), "after": tuple(after), "value": levels["fill"]}


def _draw_pad(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 100, max_rank=3)
    before, after = (tuple(draw(st.integers(0, 3)) for _ in own) for _ in range(2))
    fill: float = draw(st.sampled_from((0.0, 1.0, -0.5)))
    return (own,), {"before": before, "after": after, "value": fill}


def _pad(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) <= 6)
    if x is None:
        return None
    before, after = (tuple((p + k) % 3 % 2 for k in range(len(offer.shapes[x]))) for p in picks[1:])
    return (x,), {"before": before, "after": after, "value": float(picks[2] % 3)}


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


def _triangle_call(op: Op, direction: str, levels: Levels) -> Signature:
    rows, columns = levels["rows"], levels["columns"]
    lead = [(2, 1, 3, 1)[k] if rows * columns < 600 else 1 for k in range(levels["rank"] - 2)]
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


def _draw_triangle(draw: Draw, op: Op, direction: str) -> Signature:
    lead = shape(draw, 1, 3, max_rank=2)
    rows = extent(draw, 17)
    columns = extent(draw, 33, -(-ENOUGH // rows))
    diagonal: int = draw(st.integers(-rows, columns))
    return ((*lead, rows, columns),), {"diagonal": diagonal}


def _triangle(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], is_matrix)
    return None if x is None else ((x,), {"diagonal": picks[1] % 5 - 2})


SLICES = Family(
    "slices",
    varied(CUT),
    (place_is_its_own, an_interval_is_its_own),
    _slice_call,
    always(
        (((4, 3),), {"axis": 0, "start": 4, "length": 0}),
        (((0, 3),), {"axis": 0, "start": 0, "length": 0}),
        (((4, 0),), {"axis": 0, "start": 1, "length": 2}),
        (((1,),), {"axis": 0, "start": 0, "length": 1}),
    ),
    _draw_slice,
    _slice,
    (one_number_moves_nowhere,),
)
CONCATS = Family(
    "concatenations",
    varied(JOINED),
    (place_is_its_own, one_tensor_has_no_others, several_long_ones_cost_too_much),
    _concat_call,
    always(
        (((0,),), {"axis": 0}),
        (((0, 3), (0, 3)), {"axis": 0}),
        (((2, 0), (3, 0)), {"axis": 0}),
        (((0,), (1,)), {"axis": 0}),
    ),
    _draw_concat,
    _concat,
    (one_number_moves_nowhere,),
)
STACKS = Family(
    "stacks",
    varied(STACKED),
    (place_is_its_own, a_new_axis_is_its_own, many_long_ones_cost_too_much),
    _stack_call,
    always((((0,), (0,)), {"axis": 1}), (((), ()), {"axis": 0}), (((2, 0),), {"axis": -1})),
    _draw_stack,
    _stack,
    (one_number_moves_nowhere,),
)
PADS = Family(
    "paddings",
    varied(PADDED),
    (place_is_its_own, what_grows_everywhere_is_small, no_width_is_one),
    _pad_call,
    always(
        (((0, 3),), {"before": (1, 0), "after": (1, 0), "value": 1.5}),
        (((),), {"before": (), "after": ()}),
        (((0,),), {"before": (0,), "after": (0,)}),
    ),
    _draw_pad,
    _pad,
    (one_number_moves_nowhere,),
)
TRIANGLES = Family(
    "triangles",
    varied(TRIANGLES_OF),
    (a_diagonal_is_its_own, large_matrices_cost_too_much),
    _triangle_call,
    always((((0, 3),), {"diagonal": 0}), (((2, 3, 0),), {}), (((1, 1),), {})),
    _draw_triangle,
    _triangle,
    (one_number_moves_nowhere, something_is_kept),
)
