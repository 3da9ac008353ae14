"""Special numbers that the fixed cases of a row meet: their kind, their place, and the row's size.

A place is an entry of a row, along the axis that the op works along: the first, the middle one, the
last, and one behind the last block of 1024.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from torch import Tensor

from equivalence.cases.built import axis_of_rows, build
from equivalence.cases.call import CaseSpec
from equivalence.cases.families.table import family_of
from equivalence.cases.fills.turns import KINDS, SPECIAL, SPOTS, spot
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.cases.updates.tensors import Gradients, build_parameters, build_state
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS, OPTIMIZERS

Meeting = tuple[str, str, str, str]
"""A tensor, a kind of number, a place, and the size of the row."""

SIZES = {"short": range(4, 17), "a block": range(17, 129), "blocks": range(257, 10**6)}
"""The size classes of rows: within a vector, within a tile, beyond two blocks of 128."""

TOGETHER = ("specials_together", "finite_specials")
"""The regimes in which the tensors of a step hold special numbers of all kinds."""

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

NO_SUCH_NUMBERS = {
    ("loaded", kind): "who loads a checkpoint may refuse what is not finite"
    for kind in ("nan", "inf", "-inf")
}
"""By where moments come from and a kind of number: why they do not hold it."""

NO_SUCH_SQUARES = {
    "-0": "a mean of squares is not below 0, and none gives -0",
    "-inf": "a mean of squares is not below 0",
}
"""By kind: why a moment that a page names among its squares has none."""


def kind_of(number: float, dtype: str) -> str | None:
    """Return the kind of a special number of a dtype; None for any other number."""
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


def wanted_of_op(op: str, direction: str) -> set[Meeting]:
    """Return what a row of an op should meet: every kind at every place in rows of every size."""
    family = family_of(OPS[op]).name
    if (family, direction) in NO_ROWS:
        return set()
    tensors = [t for t in _tensors_of(op, direction) if (family, t) not in NO_SUCH_ROWS]
    return set(product(tensors, KINDS, SPOTS, SIZES))


def met_by_op(cases: Sequence[CaseSpec]) -> set[Meeting]:
    """Return what cases of a row of an op meet."""
    met: set[Meeting] = set()
    for case in cases:
        recipes = [*case.recipes, *(recipe for _, recipe in case.seeds())]
        if not any(recipe.regime in SPECIAL for recipe in recipes):
            continue
        for tensor, view in _real_tensors(case):
            if view.dim() and view.is_floating_point():
                axis = axis_of_rows(case.attributes(), case.shapes, tuple(view.shape))
                rows = view.double().movedim(axis, -1).reshape(-1, view.shape[axis])
                met |= {*_seen(tensor, rows, case.dtype)}
    return met


def wanted_of_optimizer(optimizer: str) -> set[Meeting]:
    """Return what a row of an optimizer should meet, in parameters, gradients and moments.

    A rule that does not work entry by entry takes no tensors beyond a block.
    """
    page = OPTIMIZERS[optimizer]
    sizes = list(SIZES) if page.elementwise else list(SIZES)[:2]
    found: set[Meeting] = {*product(("parameter", "gradient"), KINDS, SPOTS, sizes)}
    for way, field in product(("loaded", "written"), page.moments):
        for kind in KINDS:
            squares = field in page.squares and kind in NO_SUCH_SQUARES
            if (way, kind) not in NO_SUCH_NUMBERS and not squares:
                found |= {*product((f"{way} {field}",), (kind,), SPOTS, sizes)}
    return found


def met_by_optimizer(cases: Sequence[UpdateSpec]) -> set[Meeting]:
    """Return what cases of a row of an optimizer meet."""
    met: set[Meeting] = set()
    for case in cases:
        for tensor, view in _read_by_a_step(case):
            met |= {*seen(tensor, view, case.dtype)}
    return met


def seen(tensor: str, view: Tensor, dtype: str) -> Iterator[Meeting]:
    """Yield what a tensor meets that is one row, whatever its shape."""
    yield from _seen(tensor, view.double().reshape(1, -1), dtype)


def _seen(tensor: str, rows: Tensor, dtype: str) -> Iterator[Meeting]:
    length = rows.shape[1]
    sizes = [name for name, among in SIZES.items() if length in among]
    for place, size in product(SPOTS, sizes):
        for number in rows[:, spot(place, length)].tolist():
            if kind := kind_of(number, dtype):
                yield tensor, kind, place, size


def _tensors_of(op: str, direction: str) -> list[str]:
    """Name the real tensors of a row; one input of a variadic op stands for the others."""
    page = OPS[op]
    real = range(2 if page.variadic else len(page.inputs))
    named = [f"input {k}" for k in real if k not in page.index_inputs]
    return [*named, *(["cotangent"] if direction == "vjp" else [])]


def _real_tensors(case: CaseSpec) -> Iterator[tuple[str, Tensor]]:
    """Yield the name of each real tensor of a case, with what it holds."""
    page, built = OPS[case.op], build(case)
    for k, item in enumerate(built.inputs):
        if k not in page.index_inputs:
            yield f"input {k % 2 if page.variadic else k}", item.view
    if built.cotangents:
        yield "cotangent", built.cotangents[0].view


def _read_by_a_step(case: UpdateSpec) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that hold special numbers, and that the steps of a case read."""
    if case.parameters.regime in TOGETHER:
        yield from (("parameter", item.view) for _, item in build_parameters(case, "cpu"))
    if case.gradients.regime in TOGETHER:
        first = Gradients(case, "cpu").at(0)
        yield from (("gradient", given.view) for _, given in first if given)
    ways = {"load": "loaded", "write_state": "written"}
    for event in case.events:
        if event.kind in ways and event.recipe.regime in TOGETHER:
            for field, row in build_state(case, event, "cpu").items():
                yield from ((f"{ways[event.kind]} {field}", item.view) for item in row)
