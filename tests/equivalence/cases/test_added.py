"""What every row meets by rule, read off the tensors of its cases: kinds, squares, orders, lengths.

What a row cannot meet stands in a table, with the reason.
"""

from __future__ import annotations

from itertools import combinations, permutations, product
from typing import Any

import pytest
import torch

from equivalence.cases.built import axis_of_rows, build
from equivalence.cases.call import OTHERWISE, CaseSpec
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.families.table import family_of
from equivalence.cases.guard import EVERY_LAYOUT, core_shape, in_memory, is_own
from equivalence.cases.strata import fixed
from equivalence.cases.strata.added import rules
from equivalence.cases.strata.fixed import strata
from equivalence.runs.met.extents import FREE, axes_of, squares_met, squares_wanted
from equivalence.runs.met.numbers import met_by_op, wanted_of_op
from equivalence.runs.met.row import EVERY_DTYPE
from equivalence.runs.met.row import cases_of as cases_of_strength
from spec.ops import OPS

ONE_OF_EACH = {family_of(op).name: name for name, op in reversed(OPS.items())}
ROWS = [
    (op, direction)
    for op in ONE_OF_EACH.values()
    for direction in ("value", "vjp")
    if OPS[op].moves or direction == "value"
]
FIRST = ("rows", "picks")
"""The families that differ most: these are tried at once, and all others by `make full`."""

IN_TURN = [
    row if family_of(OPS[row[0]]).name in FIRST else pytest.param(*row, marks=pytest.mark.full)
    for row in ROWS
]

forget: Any = rules.added.cache_clear  # type: ignore[attr-defined]
"""Let the added cases be found anew."""


def cases_of(op: str, direction: str) -> list[CaseSpec]:
    return cases_of_strength(op, direction, PAIRS)


def unmet_specials(op: str, direction: str) -> set[Any]:
    return wanted_of_op(op, direction) - met_by_op(cases_of(op, direction))


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_every_kind_of_number_stands_everywhere_in_rows_of_every_size(
    op: str, direction: str
) -> None:
    assert unmet_specials(op, direction) == set()


def lacking_squares(op: str, direction: str) -> set[Any]:
    return squares_wanted(op) - squares_met(cases_of(op, direction))


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_squares_of_every_rank_are_met_along_each_axis(op: str, direction: str) -> None:
    assert lacking_squares(op, direction) == set()


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
    "batches of products": "three axes",
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


def matrices_of(case: CaseSpec) -> list[tuple[int, ...]]:
    """Return the shapes of the inputs, of a batch those of its matrices."""
    first = 1 if family_of(OPS[case.op]).name == "batches of products" else 0
    return [tuple(shape[first:]) for shape in case.shapes]


def ones_met(op: str, direction: str) -> set[tuple[tuple[bool, ...], Any]]:
    """Return in which places axes of one entry lie beside long ones, and along which is taken."""
    return {
        (tuple(n == 1 for n in shape), axis)
        for case in cases_of(op, direction)
        for shape in matrices_of(case)
        if len(shape) == 2 and 1 in shape and max(shape) > 256
        for axis in axes_of(case)
    }


def wide_met(op: str, direction: str) -> set[Any]:
    """Return along which axis matrices are taken whose two axes are beyond tiles of 128."""
    return {
        axis
        for case in cases_of(op, direction)
        for shape in case.shapes[:1]
        if len(shape) == 2 and min(shape) > 128
        for axis in axes_of(case)
    }


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_many_rows_of_many_entries_are_met_along_each_axis(op: str, direction: str) -> None:
    if not {"rank", "extent", "rows"} <= {*family_of(OPS[op]).factors(OPS[op])}:
        pytest.skip("its calls have no rows of any number")
    has_axis = {"axis", "axes"} & {*OPS[op].attributes}
    assert wide_met(op, direction) == ({0, 1} if has_axis else {None})


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


@pytest.mark.parametrize("op", ["softmax", "logsumexp", "log_softmax", "layer_norm"])
@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_neighbouring_rows_share_no_exponent_in_every_dtype(op: str, dtype: str) -> None:
    (case,) = (
        case
        for case in strata(op, "value", dtype, PAIRS, EVERY_DTYPE)
        if case.recipes[0].regime == "levels"
    )
    x = build(case).inputs[0].view.double()
    rows = x.movedim(axis_of_rows(case.attributes(), case.shapes, tuple(x.shape)), -1)
    tops = rows.reshape(-1, rows.shape[-1]).amax(-1)
    assert len(tops) > 8 and len(tops) % 2
    assert bool((tops.diff().abs() > 89).all())


def tiles_met(op: str, direction: str) -> set[tuple[int, int]]:
    """Return beyond how many blocks of 16 rows and entries go, in matrices taken along an axis."""
    return {
        (case.shapes[0][axis], case.shapes[0][1 - axis])
        for case in cases_of(op, direction)
        if len(case.shapes[0]) == 2
        for axis in axes_of(case)
        if axis is not None
    }


@pytest.mark.parametrize("op", ["sum", "softmax"])
@pytest.mark.parametrize("direction", ["value", "vjp"])
def test_extents_of_one_class_meet_more_rows_of_another(op: str, direction: str) -> None:
    met = tiles_met(op, direction)
    for least, below, rows in ((33, 64, 128), (65, 128, 64), (129, 256, 128)):
        assert any(least <= n < below and m > rows for n, m in met), (least, below, rows)


CHOOSING = [name for name, op in OPS.items() if op.kind in ("irregular", "positions")]
ONE_BY_ONE = {
    "cumprod": "each entry has a result of its own",
    "detach": "each entry has a result of its own",
}
"""By op: why it does not choose among equal entries of a row."""

BEHIND = (16, 32, 64, 128, 256)
"""The tiles of rows, and of entries, behind which every kind of equal numbers is met."""


def equal_kinds(rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return, by kind, where two numbers of a row are equal, or both NaN."""
    top, least = rows.amax(-1, keepdim=True), rows.amin(-1, keepdim=True)
    return {
        "nan": rows.isnan(),
        "inf": rows == torch.inf,
        "-inf": rows == -torch.inf,
        "largest": (rows == top) & (rows != 0) & top.isfinite(),
        "smallest": (rows == least) & (rows != 0) & least.isfinite(),
        "zeros below": (rows == 0) & (top == 0),
        "zeros above": (rows == 0) & (least == 0),
    }


def equals_met(op: str, direction: str) -> set[Any]:
    """Return which kinds are met behind so many rows of each axis, or on both sides of entries."""
    met = set()
    for case in cases_of(op, direction):
        if case.recipes[0].regime != "equals":
            continue
        x = build(case).inputs[0].view.double()
        axis = axis_of_rows(case.attributes(), case.shapes, tuple(x.shape))
        for kind, hits in equal_kinds(x.movedim(axis, -1)).items():
            twice = hits.sum(-1) > 1
            met |= {(kind, "rows", n, axis % 2) for n in BEHIND if bool(twice[n:].any())}
            across = ((hits[:, :n].any(-1) & hits[:, n:].any(-1)).any() for n in BEHIND)
            met |= {
                (kind, "entries", n) for n, is_met in zip(BEHIND, across, strict=True) if is_met
            }
    return met


def lacking_equals(op: str, direction: str) -> set[Any]:
    kinds = [*equal_kinds(torch.zeros(1, 1))]
    wanted = {*product(kinds, ["rows"], BEHIND, (0, 1)), *product(kinds, ["entries"], BEHIND)}
    return wanted - equals_met(op, direction)


@pytest.mark.parametrize("direction", ["value", "vjp"])
@pytest.mark.parametrize("op", CHOOSING)
def test_equal_numbers_are_met_behind_every_tile(op: str, direction: str) -> None:
    if op in ONE_BY_ONE:
        pytest.skip(ONE_BY_ONE[op])
    if direction == "value" or OPS[op].moves:
        assert lacking_equals(op, direction) == set()


@pytest.mark.parametrize("op", ["matmul", "bmm", "linear"])
def test_a_contracted_tail_weighs_most_at_quick(op: str) -> None:
    (case,) = (c for c in strata(op, "value", "bf16", SINGLES) if "last_terms" in str(c.recipes))
    x, y = (item.view.double() for item in build(case).inputs[:2])
    inner = x.shape[-1]
    assert all(inner % tile for tile in (2, 4, 8, 16, 32, 64, 128))
    whole = x @ (y.T if op == "linear" else y)
    tail = x[..., :-1] @ (y[:, :-1].T if op == "linear" else y[..., :-1, :])
    assert bool(((whole - tail).abs() > 0.05 * whole.abs()).any())


@pytest.mark.parametrize(("op", "direction"), IN_TURN)
def test_every_row_comes_after_calls_of_its_shapes_at_quick(op: str, direction: str) -> None:
    assert any(case.calling == OTHERWISE for case in strata(op, direction, "fp32", SINGLES))


def lacking_orders(op: str, direction: str) -> set[Any]:
    return {("input 0", 4, (0, 2, 3, 1))} - order_meetings(op, direction)


def lacking_wide(op: str, direction: str) -> set[Any]:
    return {0, 1} - wide_met(op, direction)


def lacking_ones(op: str, direction: str) -> set[Any]:
    return {*product(BOTH_WAYS, (0, 1))} - ones_met(op, direction)


@pytest.mark.parametrize(
    ("rule", "op", "direction", "unmet"),
    [
        ("specials", "softmax", "vjp", unmet_specials),
        ("squares", "flip", "vjp", lacking_squares),
        ("orders", "softmax", "vjp", lacking_orders),
        ("ones", "logsumexp", "value", lacking_ones),
        ("wide", "max", "value", lacking_wide),
        ("equals", "max", "vjp", lacking_equals),
        ("equals", "argmin", "value", lacking_equals),
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
