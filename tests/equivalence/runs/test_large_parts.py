"""Parts of ops at real sizes: large calls inside a declaration, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.cases.declared.inside import Inside
from equivalence.cases.declared.large import fitting, fitting_update, lengthened
from equivalence.cases.declared.reading import read_declaration
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.sizes import full, sized_update
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import run_sized_row
from tests.equivalence.backends.parts import (
    LAID,
    Partly,
    contiguous,
    is_short,
    of_rank,
    scored,
    short,
    softmax,
    wrongly,
)

SHORT = Partly("short", "softmax", softmax, is_short, short)
VECTORS = Partly("vectors", "softmax", softmax, {"ranks": (1,)}, of_rank(1))
FIRST = Partly("first axis", "softmax", softmax, {"axes": (0,)}, lambda t, i, a: a["axis"] == 0)
SUMS = Partly("sums", "mse_loss", scored, {"attributes": {"reduction": ["sum"]}})
PLAIN = Partly("contiguous", "softmax", softmax, LAID, contiguous)


def judged(member: Partly) -> RowResult:
    """Judge the large values of a backend."""
    row = Row(member.op, "value", member.dtypes[0])
    return run_sized_row(member, row, counted=0, seed=0, findings=())


@pytest.mark.parametrize("member", [SHORT, VECTORS, FIRST, SUMS], ids=lambda m: m.name)
def test_a_part_is_judged_at_sizes_and_is_partial(member: Partly) -> None:
    found = judged(member)
    assert found.status == "partial" and found.judged, (found.status, found.failures)
    assert found.partial is not None and found.partial.missing["large call"]


def cut_off(x: Tensor, axis: int = -1) -> Tensor:
    """Forget what stands behind the first block of a row."""
    z = softmax(x, axis)
    if z.shape[axis] > 250:
        z.narrow(axis, 250, z.shape[axis] - 250).zero_()
    return z


@pytest.mark.parametrize(
    "member",
    [replace(VECTORS, call=cut_off), replace(FIRST, call=cut_off), wrongly(SHORT), wrongly(SUMS)],
    ids=lambda m: m.name,
)
def test_a_wrong_part_is_caught_at_sizes(member: Partly) -> None:
    found = judged(member)
    assert found.status == "nonconformant", found
    assert any(line.startswith("  result[") for f in found.failures for line in f.lines())


def by_labels(x: Tensor, labels: Tensor, weight: Any = None, **more: Any) -> Tensor:
    """Read off the loss of each label."""
    weights = None if weight is None else torch.tensor(weight)
    return torch.nn.functional.nll_loss(x, labels, weights, **more)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_sum_over_labels_keeps_its_bounds(reduction: str) -> None:
    part = {"attributes": {"reduction": [reduction]}}
    found = judged(Partly("labels", "nll_loss", by_labels, part))
    assert (found.status, found.unconstrained) == ("partial", 0)


def test_what_is_read_one_by_one_has_no_large_call() -> None:
    """A page looks a weight up for each label."""
    part = {"attributes": {"weight": [(0.1, 0.2)]}}
    found = judged(Partly("weights", "nll_loss", by_labels, part))
    assert (found.status, found.failures) == ("vacuous", ())


def test_a_layout_that_is_not_taken_is_named() -> None:
    kept = replace(PLAIN, takes=(lambda call: is_short(call) and call.contiguous))
    found = judged(kept)
    assert found.status == "partial" and found.partial is not None
    assert found.partial.missing["layout of x"] == ("padded",)


def test_what_is_declared_may_not_be_refused_at_sizes() -> None:
    def fits(*given: Any) -> bool:
        raise NotImplementedError("not at this size")

    found = judged(replace(SHORT, fits=fits))
    assert found.status == "nonconformant"
    assert found.failures[0].title.startswith("declared, then refused")


def inside_of(op: str, written: object, direction: str = "value") -> Inside:
    return Inside(read_declaration(op, written), direction, "fp32")


def test_a_large_call_is_shortened_as_little_as_is_needed() -> None:
    every = full("softmax", "value", "fp32")
    fitted = [fitting(inside_of("softmax", is_short), case) for case in every]
    lengths = [max(case.case.shapes[0]) for case in fitted if case is not None]
    assert len(lengths) == len(every) and all(256 < n <= 512 for n in lengths), lengths


def test_a_call_of_the_design_is_made_long_where_no_large_one_fits() -> None:
    inside = inside_of("softmax", {"ranks": (4,)})
    assert not any(fitting(inside, case) for case in full("softmax", "value", "fp32"))
    found = lengthened("softmax", "value", "fp32", inside)
    assert found and all(max(case.case.shapes[0]) > 250 for case in found)
    assert all(inside.takes_case(case) for case in found)


@pytest.mark.parametrize(
    "written",
    [
        {"attributes": {"weight_decay": (0.0,)}},
        {"ranks": (2,), "options": ()},
        lambda call: all(max(x.shape, default=0) < 999 for x in call.inputs),
    ],
    ids=["no decay", "matrices", "short"],
)
def test_large_steps_lie_inside_the_part(written: Any) -> None:
    inside = inside_of("adamw", written, "update")
    whole: UpdateSpec = sized_update("adamw", "fp32")
    assert not inside.takes_case(whole)
    case = fitting_update(inside, whole)
    assert case is not None and inside.takes_case(case)
    assert case.max_norm is None and not case.groups
