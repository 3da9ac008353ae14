"""Cases: a few words that always denote the same tensors."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from equivalence.cases import (
    CaseSpec,
    Recipe,
    build,
    case_from_json,
    describe,
    size_key,
)
from equivalence.domains import COTANGENTS, regimes
from equivalence.fills import REGIMES, fill
from equivalence.guard import LAYOUTS
from equivalence.kinds import read_case
from equivalence.nearmiss import near_misses, refused_by_reference
from equivalence.results import COUNTED
from equivalence.shrink import smaller_calls, smaller_updates
from equivalence.strata import EMPTY, TABLES, extras, strata
from equivalence.strategies import FAMILIES, case_specs, draw_many, near_miss_specs
from equivalence.update_cases import CHOICES, update_specs, update_strata
from spec.ops import OPS

OPERATIONS = sorted(OPS)
DIRECTIONS = ("value", "vjp", "jvp")


def drawn(op: str, direction: str) -> list[CaseSpec]:
    return draw_many(case_specs(op, direction, "bf16"), 25, seed_=1)


def test_every_operation_has_strata_and_a_family() -> None:
    assert set(TABLES) == set(FAMILIES) == set(OPS)
    assert set(EMPTY) <= set(OPS)
    assert all(len(regimes(op, len(OPS[op].inputs))) == len(OPS[op].inputs) for op in OPS)


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_fixed_and_drawn_cases_satisfy_their_type_rule(op: str, direction: str) -> None:
    fixed = strata(op, direction, "fp32")
    assert len(fixed) >= 12
    for case in (*fixed, *extras(op, direction, "fp32"), *drawn(op, direction)):
        case.output_shape()
        assert case_from_json(case.to_json()) == case
        assert read_case(case.to_json())[1] == case


@pytest.mark.parametrize("op", OPERATIONS)
def test_most_cases_count(op: str) -> None:
    for direction, wanted in (("value", 9), ("vjp", 11)):
        sizes = [
            math.prod(case.output_shape())
            if direction == "value"
            else sum(
                math.prod(s) for k, s in enumerate(case.shapes) if k not in OPS[op].index_inputs
            )
            for case in strata(op, direction, "fp32")
        ]
        assert sum(size >= COUNTED for size in sizes) >= wanted


@pytest.mark.parametrize("op", OPERATIONS)
def test_strata_show_every_layout_and_no_trivial_cotangent(op: str) -> None:
    fixed = strata(op, "vjp", "fp32")
    layouts = {recipe.layout for case in fixed for recipe in case.recipes}
    assert layouts == set(LAYOUTS)
    cotangents = [case.cotangent for case in fixed]
    assert all(recipe is not None and recipe.regime in COTANGENTS for recipe in cotangents)


def test_building_is_deterministic_and_rounds_to_the_dtype() -> None:
    case = CaseSpec("mul", "value", "bf16", ((3, 5), (3, 5)), (Recipe("mixed", 7), Recipe("ties")))
    one, two = build(case), build(case)
    assert all(torch.equal(a, b) for a, b in zip(one.views(), two.views(), strict=True))
    assert all(view.dtype is torch.bfloat16 for view in one.views())
    other = build(replace(case, recipes=(Recipe("mixed", 8), Recipe("ties"))))
    assert not torch.equal(one.views()[0], other.views()[0])


def test_recorded_numbers_replace_the_recipes() -> None:
    case = CaseSpec("square", "value", "fp32", ((2, 2),), (Recipe("normal", 3, "expanded"),))
    built = build(case, numbers={"input 0": [1.5, -2.0]})
    assert built.views()[0].tolist() == [[1.5, -2.0], [1.5, -2.0]]
    assert built.inputs[0].numbers() == [1.5, -2.0]


@pytest.mark.parametrize("regime", sorted(REGIMES))
def test_regimes_fill_every_shape_with_finite_numbers(regime: str) -> None:
    for shape in ((), (0,), (7,), (3, 4), (2, 0, 3)):
        values = fill(regime, 5, "input 0", shape)
        assert len(values) == math.prod(shape)
        assert all(math.isfinite(value) for value in values)


def test_no_cotangent_regime_is_all_ones() -> None:
    for regime in COTANGENTS:
        for seed in range(5):
            assert set(fill(regime, seed, "cotangent", (4, 9))) != {1.0}


@pytest.mark.parametrize("op", ["take", "nll_loss", "cross_entropy"])
def test_indices_stay_in_range(op: str) -> None:
    for case in drawn(op, "value"):
        attrs = case.attributes()
        indices = build(case).views()[1]
        extent = case.shapes[0][attrs["axis"] if op == "take" else 1]
        ignored = indices == attrs.get("ignore_index", -100)
        assert bool(torch.all(ignored | ((indices >= 0) & (indices < extent))))


def test_smaller_cases_come_first() -> None:
    small = CaseSpec("exp", "value", "fp32", ((2,),), (Recipe(),))
    ranked = replace(small, shapes=((2, 1),))
    longer = replace(small, shapes=((3,),))
    odder = replace(small, recipes=(Recipe("tiny"),))
    strided = replace(small, recipes=(Recipe(layout="strided"),))
    assert sorted((strided, odder, longer, ranked, small), key=size_key)[0] == small
    assert size_key(longer) < size_key(ranked)
    assert describe(ranked) == "exp(fp32[2,1]) value"


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_lies_below_a_case_is_accepted_and_smaller(op: str) -> None:
    for case in (*strata(op, "vjp", "fp32"), *drawn(op, "vjp")):
        for lower in smaller_calls(case):
            lower.output_shape()
            assert size_key(lower) < size_key(case)


def test_what_lies_below_an_update_is_another_update() -> None:
    for case in update_strata("adamw", "fp32"):
        below = list(smaller_updates(case))
        assert len(below) > 2 and case not in below


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_reference_refuses_every_near_miss_by_its_label(op: str) -> None:
    assert [refused_by_reference(miss) for miss in near_misses(op)] == [None] * len(near_misses(op))
    if near_misses(op):
        for miss in draw_many(near_miss_specs(op), 10, seed_=0):
            assert refused_by_reference(miss) is None


def test_every_constraint_has_a_near_miss() -> None:
    for op, page in OPS.items():
        text = page.type_rule.__module__
        labels = {miss.label for miss in near_misses(op)}
        doc = __import__(text, fromlist=["x"]).__doc__ or ""
        stated = {word for word in doc.split() if word[:1] == "C" and word[1:].isdigit()}
        if op not in ("add", "sub", "mul", "div"):
            stated -= {"C1"} if page.kind == "pointwise" else set()
        assert stated <= labels, op


@pytest.mark.parametrize("optimizer", sorted(CHOICES))
def test_optimizer_cases_survive_json_and_visit_every_choice(optimizer: str) -> None:
    fixed = update_strata(optimizer, "fp32")
    for case in (*fixed, *draw_many(update_specs(optimizer, "fp32"), 20, seed_=0)):
        row, read = read_case(case.to_json())
        assert read == case and row.direction == "update"
        assert case.steps >= 3
    for name, among in CHOICES[optimizer].items():
        assert len({dict(case.hyper)[name] for case in fixed}) > 1 or len(among) == 1
    assert any(case.missing for case in fixed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "needs op, direction"),
        ('{"op":"sine","direction":"value","dtype":"fp32","shapes":[],"recipes":[]}', "'sine'"),
        ('{"op":"exp","direction":"up","dtype":"fp32","shapes":[],"recipes":[]}', "'up'"),
        ('{"op":"exp","direction":"value","dtype":"fp8","shapes":[],"recipes":[]}', "'fp8'"),
        ('{"op":"exp","direction":"vjp","dtype":"fp32","shapes":[],"recipes":[]}', "cotangent"),
        (
            '{"op":"exp","direction":"value","dtype":"fp32","shapes":[[1]],'
            '"recipes":[["rainy",0,"contiguous"]]}',
            "'rainy'",
        ),
        ('{"optimizer":"lamb","dtype":"fp32"}', "'lamb'"),
        ("[]", "JSON object"),
    ],
)
def test_a_case_that_names_what_does_not_exist_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_case(text)
