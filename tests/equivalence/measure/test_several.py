"""Ops of several results: each is judged alone, and a failure says which of them is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence import FP32, FP64, Capabilities, Contract, Form, registered
from equivalence.budgets.outcome import Outcome
from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, Recipe, case_from_dict
from equivalence.cases.edges import edge_problem, edges
from equivalence.cases.families.table import family_of
from equivalence.cases.sizes import sized
from equivalence.exact.operations import judged
from equivalence.measure.call import measure
from equivalence.measure.sizes import growths, measure_sized
from spec.op import Edge, Op, Type
from spec.ops import OPS
from spec.several import several

CONTRACT = Contract("own", FP32, FP32)

Inputs = Sequence[Tensor]


def page() -> Op:
    """Make the page of the sum and the difference of two tensors."""

    def types(x: Type, y: Type) -> dict[str, Type]:
        OPS["add"].type_rule(x, y)
        return {"total": x, "gap": x}

    def program(ops: Any, x: Any, y: Any) -> Any:
        return ops.add(x, y), ops.sub(x, y)

    inf, nan = math.inf, math.nan
    rows = (
        Edge(([inf], [1.0]), ([inf, inf],), "IEEE", "one"),
        Edge(([1.0], [2.0]), (([nan], [-inf]),), "IEEE", "two", cotangent=[-inf, inf]),
    )
    return several("total_and_gap", types, program, (OPS["add"], OPS["sub"]), edges=rows)


class Right:
    """A right backend, of which the others change a little."""

    name = "right"

    def capabilities(self) -> Capabilities:
        return Capabilities({"total_and_gap": ("fp32",)}, lambda op, dtype: CONTRACT)

    def value(self, op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Any:
        x, y = inputs
        return x + y, x - y

    def vjp(self, op: str, inputs: Inputs, attrs: Mapping[str, Any], cotangents: Inputs) -> Any:
        g, h = cotangents
        return [g + h, g - h]

    def jvp(self, op: str, inputs: Inputs, attrs: Mapping[str, Any], tangents: Any) -> Any:
        return self.value(op, tangents, attrs)


class Swapped(Right):
    def value(self, op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Any:
        return super().value(op, inputs, attrs)[::-1]


class Ignoring(Right):
    def vjp(self, op: str, inputs: Inputs, attrs: Mapping[str, Any], cotangents: Inputs) -> Any:
        g, h = cotangents
        return super().vjp(op, inputs, attrs, [g, torch.zeros_like(h)])


class Last(Right):
    """The second result is wrong in its last entry, and in what goes back from there."""

    def value(self, op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Any:
        total, gap = super().value(op, inputs, attrs)
        gap[-1, -1] += 1
        return total, gap

    def vjp(self, op: str, inputs: Inputs, attrs: Mapping[str, Any], cotangents: Inputs) -> Any:
        g, h = (cotangent.clone() for cotangent in cotangents)
        h[-1, -1] += 1
        return super().vjp(op, inputs, attrs, [g, h])


class Writing(Right):
    def vjp(self, op: str, inputs: Inputs, attrs: Mapping[str, Any], cotangents: Inputs) -> Any:
        found = super().vjp(op, inputs, attrs, cotangents)
        cotangents[1].zero_()
        return found


class Shared(Right):
    """Both results lie in one memory, so that the second is written over the first."""

    def value(self, op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Any:
        room = torch.empty(inputs[0].shape)
        return torch.add(*inputs, out=room), torch.sub(*inputs, out=room)


class Kept(Right):
    """The second result lies in memory that the next call uses again."""

    def __init__(self) -> None:
        self.room = torch.empty(3, 4)

    def value(self, op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Any:
        return inputs[0] + inputs[1], torch.sub(*inputs, out=self.room)


class Formed(Right):
    """A backend whose results have another form."""

    def __init__(self, form: Any) -> None:
        self.form = form

    def value(self, op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Any:
        return self.form(*super().value(op, inputs, attrs))


@pytest.fixture(autouse=True)
def known() -> Iterator[Op]:
    """Know the page while a test runs."""
    record = page()
    with registered(record):
        yield record


def case(direction: str = "value", calling: str = "alone") -> CaseSpec:
    """Return a call on matrices of normal numbers."""
    recipe = Recipe("normal", 7, "transposed")
    return CaseSpec(
        "total_and_gap",
        direction,
        "fp32",
        ((3, 4), (3, 4)),
        (Recipe("normal", 3), Recipe("normal", 5, "strided")),
        cotangent=recipe if direction == "vjp" else None,
        tangent=recipe if direction == "jvp" else None,
        calling=calling,
    )


def found(backend: Right, direction: str = "value", calling: str = "alone") -> Outcome:
    """Judge a backend by one call."""
    return measure(backend, case(direction, calling), CONTRACT)


def detail(outcome: Outcome) -> str:
    """Say where an outcome is worst."""
    assert outcome.detail is not None, outcome
    return outcome.detail.result


@pytest.mark.parametrize("direction", ["value", "vjp", "jvp"])
def test_a_right_backend_notices_no_calling_pattern(direction: str) -> None:
    for calling in ("alone", "again", "repeated", "late", "shared", "overlapping"):
        outcome = found(Right(), direction, calling)
        assert outcome.status == "conformant" and outcome.judged == 24, outcome


def test_a_failure_names_the_result_and_the_place_in_it() -> None:
    outcome = found(Swapped())
    assert detail(outcome) == "result 0 (total)" and outcome.detail is not None
    assert outcome.detail.line().startswith("result 0 (total)[0, 0]: got ")
    assert {over.result for over in outcome.over} == {"result 0 (total)", "result 1 (gap)"}
    assert detail(found(Swapped(), "jvp")) == "tangent 0 (total)"


def test_a_cotangent_that_is_ignored_or_written_is_found() -> None:
    assert detail(found(Ignoring(), "vjp")).startswith("gradient of ")
    written = found(Writing(), "vjp").problem
    assert written is not None and written.startswith("cotangent of gap: 12 elements of its own")


def test_results_that_share_memory_are_found() -> None:
    assert detail(found(Shared())) == "result 0 (total)"
    assert found(Kept()).status == "conformant"
    assert detail(found(Kept(), calling="late")) == "result 1 (gap)"


WANTED = "wanted is a tuple with one tensor per result: here, 2: total, gap"

FORMS = {
    "one": (lambda s, d: s, f"value of total_and_gap returned Tensor; {WANTED}"),
    "three": (lambda s, d: [s, d, d], f"value of total_and_gap returned 3 results; {WANTED}"),
    "turned": (lambda s, d: (s, d.T), "result 1 (gap): expected shape [3, 4], got [4, 3]"),
    "wide": (
        lambda s, d: (s.double(), d),
        "result 0 (total): expected torch.float32, got torch.float64",
    ),
    "absent": (lambda s, d: (s, None), "result 1 (gap): expected a tensor, got NoneType"),
}


@pytest.mark.parametrize("form", FORMS)
def test_results_of_another_form_are_refused(form: str) -> None:
    changed, says = FORMS[form]
    assert found(Formed(changed)).problem == says


def test_every_cotangent_is_a_tensor_of_its_own() -> None:
    built = build(case("vjp"))
    first, second = (item.view for item in built.cotangents)
    assert first.shape == second.shape == (3, 4) and first.stride() == (1, 3)
    assert not torch.equal(first, second)
    assert built.cotangent is not None
    assert torch.equal(built.cotangent, torch.cat([first.reshape(-1), second.reshape(-1)]))
    one, other = build(case("vjp", "shared")).cotangents
    assert one is other


def test_a_case_goes_through_json() -> None:
    asked = case("vjp", "late")
    assert case_from_dict(json.loads(asked.to_json())) == asked


def test_edges_write_the_results_joined() -> None:
    rows = [(row, way) for way in ("value", "vjp") for row in edges("total_and_gap", way)]
    assert len(rows) == 2
    for row, _ in rows:
        assert edge_problem(Right(), "total_and_gap", row, "fp32", "cpu") is None
    says = edge_problem(Ignoring(), "total_and_gap", rows[1][0], "fp32", "cpu")
    assert says is not None and says.startswith("edge 'two' (IEEE): total_and_gap([1.0], [2.0])")
    three = Formed(lambda s, d: [s, d, d])
    says = edge_problem(three, "total_and_gap", rows[0][0], "fp32", "cpu")
    assert says is not None and WANTED in says


def test_exact_numbers_tell_results_apart() -> None:
    assert not judged(case(), backend=Right()).differences
    assert not judged(case("vjp"), backend=Right()).differences
    (first, second) = judged(case(), backend=Swapped()).differences
    assert "result 0 (total): 12 of 12" in first and "result 1 (gap): 12 of 12" in second
    (says,) = judged(case(), backend=Formed(lambda s, d: [s])).differences
    assert says.endswith(WANTED)


@pytest.mark.parametrize("direction", ["value", "vjp", "jvp"])
def test_large_results_are_judged_each_by_its_own_axes(direction: str, known: Op) -> None:
    growth = growths(known.name)[1]
    large = sized(growth, 700, known.name, direction, "fp32", "reals")
    assert measure_sized(Right(), large, CONTRACT).status == "conformant"
    if direction == "value":
        assert detail(measure_sized(Swapped(), large, CONTRACT)).startswith("result ")
    if direction == "vjp":
        assert measure_sized(Ignoring(), large, CONTRACT).failed


def test_a_sample_of_large_results_in_float64_is_judged_by_balls(known: Op) -> None:
    wide = Contract("own", FP64, FP64)
    for direction in ("value", "vjp", "jvp"):
        large = sized(growths(known.name)[1], 40, known.name, direction, "fp64", "reals")
        assert measure_sized(Right(), large, wide).judged
        assert not measure_sized(Right(), large, wide).failed
        assert measure_sized(Last(), large, wide).failed


def test_a_form_of_several_results_is_that_of_the_record(known: Op) -> None:
    formed = replace(CONTRACT, forms=(Form("as it stands", known.value, known.vjp),))
    large = sized(growths(known.name)[1], 700, known.name, "value", "fp32", "reals")
    for direction in ("value", "vjp"):
        assert measure(Right(), case(direction), formed).status == "conformant"
    assert measure_sized(Right(), large, formed).status == "conformant"
    assert measure_sized(Swapped(), large, formed).failed


def test_the_family_is_found_by_every_result(known: Op) -> None:
    assert family_of(known).name == "elementwise"
