"""What every row meets by rule, read off the tensors of its cases: kinds, squares, orders, lengths.

What a row cannot meet stands in a table, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import pytest
import torch

from equivalence.cases.built import axis_of_rows, build
from equivalence.cases.call import OTHERWISE, CaseSpec
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.families.table import family_of
from equivalence.cases.fills import KINDS, SPECIAL, SPOTS, spot
from equivalence.cases.guard import EVERY_LAYOUT, core_shape, in_memory, is_own
from equivalence.cases.strata import fixed
from equivalence.cases.strata.added import rules
from equivalence.cases.strata.fixed import strata
from equivalence.dtypes import DTYPES
from spec.ops import OPS

ONE_OF_EACH = {family_of(op).name: name for name, op in reversed(OPS.items())}
ROWS = [
    (op, direction)
    for op in ONE_OF_EACH.values()
    for direction in ("value", "vjp")
    if OPS[op].moves or direction == "value"
]
EVERY_DTYPE = tuple(DTYPES)

FIRST = ("rows", "reductions", "products", "picks")
"""The families that differ most: these are tried at once, and all others by `make full`."""

IN_TURN = [
    row if family_of(OPS[row[0]]).name in FIRST else pytest.param(*row, marks=pytest.mark.full)
    for row in ROWS
]

SIZES = {"short": range(4, 17), "a block": range(17, 129), "blocks": range(257, 10**6)}
"""The size classes of rows: within a vector, within a tile, beyond two blocks of 128."""


forget: Any = rules.added.cache_clear  # type: ignore[attr-defined]
"""Let the added cases be found anew."""


def cases_of(op: str, direction: str) -> list[CaseSpec]:
    """Return the cases of a row in all dtypes, which share them out."""
    return [c for d in EVERY_DTYPE for c in strata(op, direction, d, PAIRS, EVERY_DTYPE)]


def kind_of(number: float, dtype: str) -> str | None:
    reach = DTYPES[dtype].reach
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else None
    if abs(number) == reach.largest:
        return "largest"
    return "subnormal" if abs(number) < reach.smallest else None


def real_tensors(case: CaseSpec) -> Iterator[tuple[str, Any]]:
    """Yield a position, where one input of several stands for all, with what it holds."""
    built = build(case)
    for k, item in enumerate(built.inputs):
        if k not in OPS[case.op].index_inputs:
            yield f"input {k % 2 if OPS[case.op].variadic else k}", item.view
    if built.cotangents:
        yield "cotangent", built.cotangents[0].view


def special_meetings(op: str, direction: str) -> set[tuple[str, str, str, str]]:
    """Return which kind of number stands where in rows of which size, by tensor."""
    met: set[tuple[str, str, str, str]] = set()
    for case in cases_of(op, direction):
        recipes = [*case.recipes, *(recipe for _, recipe in case.seeds())]
        if not any(recipe.regime in SPECIAL for recipe in recipes):
            continue
        for position, view in real_tensors(case):
            if not view.dim() or not view.is_floating_point():
                continue
            axis = axis_of_rows(case.attributes(), case.shapes, tuple(view.shape))
            rows = view.double().movedim(axis, -1).reshape(-1, view.shape[axis])
            length = rows.shape[1]
            sizes = [name for name, among in SIZES.items() if length in among]
            for place, size in product(SPOTS, sizes):
                for number in rows[:, spot(place, length)].tolist():
                    if kind := kind_of(number, case.dtype):
                        met.add((position, kind, place, size))
    return met


NO_ROWS = {
    ("random", "value"): "nothing real goes in",
    ("classes", "value"): "nothing real goes in",
    ("positions", "vjp"): "positions have no gradient",
}
"""By family and direction: why no real tensor has rows."""

NO_SUCH_ROWS = {
    ("broadcasts", "input 0"): "a gradient reads no input, and a value repeats each of its entries",
}
"""By family and tensor: why it has no rows of every length."""


def tensors_of(op: str, direction: str) -> list[str]:
    page = OPS[op]
    real = range(2 if page.variadic else len(page.inputs))
    named = [f"input {k}" for k in real if k not in page.index_inputs]
    return [*named, *(["cotangent"] if direction == "vjp" else [])]


def unmet_specials(op: str, direction: str) -> set[Any]:
    family = family_of(OPS[op]).name
    if (family, direction) in NO_ROWS:
        return set()
    tensors = [t for t in tensors_of(op, direction) if (family, t) not in NO_SUCH_ROWS]
    wanted = set(product(tensors, KINDS, SPOTS, SIZES))
    return wanted - special_meetings(op, direction)


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_every_kind_of_number_stands_everywhere_in_rows_of_every_size(
    op: str, direction: str
) -> None:
    assert unmet_specials(op, direction) == set()


def axes_of(case: CaseSpec) -> tuple[Any, ...]:
    """Return the axes that a call names, from the front."""
    attrs, rank = case.attributes(), len(case.shapes[0])
    named = attrs.get("axes", attrs.get("axis"))
    if named is None:
        return (None,)
    many = named if isinstance(named, tuple) else (named,)
    return tuple(axis % rank for axis in many)


def square_meetings(op: str, direction: str) -> set[Any]:
    """Return along which axes squares of which rank are taken, and how axes are kept."""
    return {
        (len(shape), axis, case.attributes().get("keepdims"))
        for case in cases_of(op, direction)
        for shape in (case.shapes or (case.attributes()["shape"],))[:1]
        if len(shape) > 1 and len(set(shape)) == 1 and shape[0] > 1
        for axis in (axes_of(case) if case.shapes else (None,))
    }


RANKED = {
    **dict.fromkeys(("products",), (2,)),
    "linear layers": (2,),
    "norms": (2, 3, 4, 5, 6),
    "codes": (2,),
    "lookups": (2,),
    "losses of labels": (2, 3, 4),
    "triangles": (2, 3, 4),
    "broadcasts": (2, 3, 4),
}
"""The ranks of squares that a family takes, where they are not all of two to six."""

FREE = ("reductions", "positions", "rows", "flips", "slices", "concatenations", "picks", "takes")
"""The families that take any axis."""

NO_SQUARE = {
    "classes": "positions are written down, whose shape is any",
    "lookups": "the table is no first input",
    "random": "a shape alone is square, which any draw fills",
}


def wanted_squares(op: str) -> set[tuple[int, Any]]:
    family = family_of(OPS[op]).name
    ranks = RANKED.get(family, (2, 3, 4, 5, 6))
    if family not in FREE:
        return {(rank, None) for rank in ranks}
    return {(rank, axis) for rank in ranks for axis in range(rank)}


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_squares_of_every_rank_are_met_along_each_axis(op: str, direction: str) -> None:
    family = family_of(OPS[op]).name
    if family in NO_SQUARE:
        pytest.skip(NO_SQUARE[family])
    met = square_meetings(op, direction)
    along = family in FREE
    assert wanted_squares(op) - {(rank, axis if along else None) for rank, axis, _ in met} == set()
    if "keepdims" in OPS[op].attributes:
        few = {(rank, axis, kept) for rank, axis, kept in met if rank < 5}
        wanted = {(r, a, kept) for r, a in wanted_squares(op) if r < 5 for kept in (False, True)}
        assert wanted - few == set()


def test_three_axes_of_four_lie_in_every_order_and_each_of_more_at_both_ends() -> None:
    assert {tuple(in_memory(3, layout)) for layout in EVERY_LAYOUT} == {*permutations(range(3))}
    orders = {tuple(in_memory(4, layout)) for layout in EVERY_LAYOUT}
    assert (0, 2, 3, 1) in orders, "channels last"
    for three in combinations(range(4), 3):
        met = {tuple(axis for axis in order if axis in three) for order in orders}
        assert met == {*permutations(three)}
    for rank in (5, 6):
        ends = [(order[0], order[-1]) for order in (in_memory(rank, x) for x in EVERY_LAYOUT)]
        assert {first for first, _ in ends} == {last for _, last in ends} == {*range(rank)}


def order_meetings(op: str, direction: str) -> set[tuple[str, int, tuple[int, ...]]]:
    """Return in which orders of memory the tensors of a row lie, by rank."""
    met = set()
    for case in cases_of(op, direction):
        shapes = list(case.shapes)
        recipes = [(f"input {k}", recipe) for k, recipe in enumerate(case.recipes)]
        if case.cotangent is not None:
            recipes.append(("cotangent", case.cotangent))
            shapes.append(case.cotangents()[0][1])
        for (position, recipe), shape in zip(recipes, shapes, strict=True):
            plain = core_shape(shape, recipe.layout) == shape
            if plain and (recipe.layout == "contiguous" or is_own(shape, recipe.layout)):
                met.add((position, len(shape), tuple(in_memory(len(shape), recipe.layout))))
    return met


WITHOUT_AXES = {
    "products": "two axes",
    "lookups": "a table has two axes",
    "random": "nothing goes in",
    "classes": "positions alone go in",
}
"""By family: why its first input has no four axes."""


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_axes_lie_in_memory_in_every_order_that_there_is(op: str, direction: str) -> None:
    family = family_of(OPS[op]).name
    if family in WITHOUT_AXES:
        pytest.skip(WITHOUT_AXES[family])
    met = order_meetings(op, direction)
    least = 4 if family in ("linear layers", "losses of labels", "codes") else 2
    for rank in range(least, 5):
        orders = {tuple(in_memory(rank, layout)) for layout in EVERY_LAYOUT}
        assert (
            orders - {order for position, r, order in met if (position, r) == ("input 0", rank)}
            == set()
        ), rank
    if direction == "vjp" and family_of(OPS[op]).keeps_shape:
        orders = {tuple(in_memory(4, layout)) for layout in EVERY_LAYOUT}
        assert orders - {order for at, r, order in met if (at, r) == ("cotangent", 4)} == set()


def ones_met(op: str, direction: str) -> set[tuple[tuple[bool, ...], Any]]:
    """Return in which places axes of one entry lie beside long ones, and along which is taken."""
    return {
        (tuple(n == 1 for n in shape), axis)
        for case in cases_of(op, direction)
        for shape in case.shapes
        if len(shape) == 2 and 1 in shape and max(shape) > 256
        for axis in axes_of(case)
    }


BOTH_WAYS = ((True, False), (False, True))


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_an_axis_of_one_entry_lies_beside_a_long_one_in_every_place(
    op: str, direction: str
) -> None:
    family = family_of(OPS[op]).name
    if family in ("random", "classes"):
        pytest.skip("no input of two axes")
    met = ones_met(op, direction)
    assert {places for places, _ in met} >= {*BOTH_WAYS}
    if family in FREE:
        assert {*product(BOTH_WAYS, (0, 1))} - met == set()


@pytest.mark.parametrize("op", ["softmax", "logsumexp", "log_softmax", "cross_entropy"])
@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_the_largest_entry_stands_behind_a_first_block_in_every_dtype(op: str, dtype: str) -> None:
    seen = set()
    for case in strata(op, "value", dtype, PAIRS, EVERY_DTYPE):
        if case.recipes[0].regime == "peaks":
            x = build(case).inputs[0].view.double()
            rows = x.movedim(axis_of_rows(case.attributes(), case.shapes, tuple(x.shape)), -1)
            rows = rows.reshape(-1, rows.shape[-1])
            lead = rows.amax(-1) - rows[:, :1024].amax(-1)
            seen |= {*rows.argmax(-1)[lead > 89].tolist()}
    assert {1028, 1032} <= seen


@pytest.mark.parametrize("op", ["matmul", "linear"])
def test_a_contracted_tail_weighs_most_at_quick(op: str) -> None:
    (case,) = (c for c in strata(op, "value", "bf16", SINGLES) if "last_terms" in str(c.recipes))
    x, y = (item.view.double() for item in build(case).inputs[:2])
    inner = x.shape[-1]
    assert all(inner % tile for tile in (2, 4, 8, 16, 32, 64, 128))
    whole = x @ (y if op == "matmul" else y.T)
    tail = x[..., :-1] @ (y[:-1] if op == "matmul" else y[:, :-1].T)
    assert bool(((whole - tail).abs() > 0.05 * whole.abs()).any())


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_every_row_comes_after_calls_of_its_shapes_at_quick(op: str, direction: str) -> None:
    assert any(case.calling == OTHERWISE for case in strata(op, direction, "fp32", SINGLES))


def lacking_squares(op: str, direction: str) -> set[Any]:
    return wanted_squares(op) - {meeting[:2] for meeting in square_meetings(op, direction)}


def lacking_orders(op: str, direction: str) -> set[Any]:
    return {("input 0", 4, (0, 2, 3, 1))} - order_meetings(op, direction)


def lacking_ones(op: str, direction: str) -> set[Any]:
    return {*product(BOTH_WAYS, (0, 1))} - ones_met(op, direction)


@pytest.mark.parametrize(
    ("rule", "op", "direction", "unmet"),
    [
        ("specials", "softmax", "vjp", unmet_specials),
        ("squares", "flip", "vjp", lacking_squares),
        ("orders", "softmax", "vjp", lacking_orders),
        ("ones", "logsumexp", "value", lacking_ones),
    ],
)
def test_a_rule_that_is_removed_is_missed(
    rule: str, op: str, direction: str, unmet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unmet(op, direction) == set()
    left = {k: tuple(r for r in own if r.__name__ != rule) for k, own in rules.RULES.items()}
    monkeypatch.setattr(rules, "RULES", left)
    forget()
    try:
        assert unmet(op, direction)
    finally:
        forget()


def test_what_is_added_is_shared_out_among_the_dtypes() -> None:
    places = fixed.shared_out(OPS["softmax"], "value", PAIRS, 4)
    alone = fixed.shared_out(OPS["softmax"], "value", PAIRS, 1)[0]
    added = rules.added(OPS["softmax"], "value", PAIRS)
    assert len(alone) > max(map(len, places))
    assert {number for number, *_ in added} <= {number for number, _ in alone}
    assert torch.tensor([len(place) for place in places]).double().std() < 3
