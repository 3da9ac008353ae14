"""Cases: a few words that always denote the same tensors."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from equivalence.backends import declared
from equivalence.backends.protocol import Capabilities
from equivalence.cases.built import build
from equivalence.cases.call import (
    WORDS,
    CaseSpec,
    Recipe,
    describe,
    handed,
    integers_of,
    size_key,
)
from equivalence.cases.domains import COTANGENTS, domain, regimes
from equivalence.cases.families.table import FAMILIES, NoFamily, family_of
from equivalence.cases.fills.indices import MASK_REGIMES, fill_mask
from equivalence.cases.fills.regimes import ENDS, NONFINITE, REGIMES, fill
from equivalence.cases.guard import LAYOUTS
from equivalence.cases.nearmiss import refused_by_reference
from equivalence.cases.shrink import smaller_calls, smaller_updates
from equivalence.cases.strata.fixed import extras, strata
from equivalence.cases.strategies import case_specs, draw_many
from equivalence.cases.updates.design import spoiled_cases, update_strata
from equivalence.cases.updates.tensors import build_gradients
from equivalence.measure.call import result_names
from equivalence.runs.choice import read_case
from equivalence.runs.rows import rows_of
from spec.op import Rejected, Type
from spec.ops import OPS
from spec.refusals import Miss
from tests.turns import of_pages

OPERATIONS = sorted(OPS)
DIRECTIONS = ("value", "vjp", "jvp")


def drawn(op: str, direction: str) -> list[CaseSpec]:
    return draw_many(case_specs(op, direction, "bf16"), 25, seed_=1)


def test_every_operation_has_a_family_and_every_family_an_operation() -> None:
    # Codes beside numbers are a matter of registered pages: the book has none (test_codes.py).
    assert {family_of(op).name for op in OPS.values()} == set(FAMILIES) - {"codes"}
    for op in OPS.values():
        assert len(regimes(op, len(op.inputs))) == len(op.inputs)
        assert family_of(op).singles(op) and family_of(op).extras(op), op.name


def test_the_domain_of_an_input_is_read_off_its_page() -> None:
    found = {
        (op.name, k): where
        for op in OPS.values()
        for k in range(len(op.inputs))
        if (where := domain(op, k)) != "real"
    }
    known = {
        ("div", 1): "nonzero",
        ("sqrt", 0): "positive",
        ("reciprocal", 0): "nonzero",
        ("rsqrt", 0): "positive",
        ("exp", 0): "moderate",
        ("expm1", 0): "moderate",
        ("log", 0): "positive",
        ("log1p", 0): "past_minus_one",
        ("kl_div", 1): "positive",
        ("cumprod", 0): "factors",
        ("prod", 0): "factors",
    }
    assert {place: found.get(place) for place in known} == known
    # A new page has a domain of its own; what is defined everywhere has none.
    everywhere = {"add", "mul", "sub", "relu", "tanh", "sum", "matmul", "softmax", "embedding"}
    assert not everywhere & {name for name, _ in found}


def test_an_op_that_nothing_else_is_called_like_wants_a_family() -> None:
    def refuse_all(x: Type) -> Type:
        raise Rejected(f"odd C1: nothing fits; got {x}")

    with pytest.raises(NoFamily, match=r"^no family of equivalence/cases/families takes exp: "):
        family_of(replace(OPS["exp"], type_rule=refuse_all))


@pytest.mark.parametrize(("op", "direction"), of_pages(product(OPERATIONS, DIRECTIONS), 8))
def test_fixed_and_drawn_cases_satisfy_their_type_rule(op: str, direction: str) -> None:
    fixed = strata(op, direction, "fp32")
    assert len(fixed) >= 10
    for case in (*fixed, *extras(op, direction, "fp32"), *drawn(op, direction)):
        case.output_shape()
        assert read_case(case.to_json())[1] == case


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
def test_regimes_fill_every_shape_with_what_they_say(regime: str) -> None:
    """Numbers are finite in all but the regimes that are there for the others."""
    finite = regime not in NONFINITE or regime in ENDS
    for shape in ((), (0,), (7,), (3, 4), (2, 0, 3)):
        values = fill(regime, 5, "input 0", shape)
        assert len(values) == math.prod(shape)
        assert not finite or all(math.isfinite(value) for value in values)


def test_no_cotangent_regime_is_all_ones() -> None:
    for regime in COTANGENTS:
        for seed in range(5):
            assert set(fill(regime, seed, "cotangent", (4, 9))) != {1.0}


@pytest.mark.parametrize("op", [n for n, op in OPS.items() if op.integer_inputs])
def test_indices_stay_in_range(op: str) -> None:
    for case in drawn(op, "value"):
        (k,) = OPS[op].integer_inputs
        allowed = integers_of(case, k)
        assert all(number in allowed for number in build(case).views()[k].flatten().tolist())


def test_variadic_cases_vary_in_number_and_have_empty_inputs() -> None:
    for cases in (strata("concat", "vjp", "fp32"), drawn("concat", "vjp")):
        assert {1, 2, 3, 6} <= {len(case.shapes) for case in cases} <= {1, 2, 3, 4, 5, 6}
        along = {shape[case.attributes()["axis"]] for case in cases for shape in case.shapes}
        assert {0, 1} < along
    case = next(case for case in strata("concat", "vjp", "fp32") if len(case.shapes) == 3)
    assert result_names(case) == [f"gradient of xs[{k}]" for k in range(3)]
    assert any(len(lower.shapes) == 2 for lower in smaller_calls(case))


def test_an_interval_shrinks_with_its_axis() -> None:
    (case, *_) = [c for c in strata("slice", "vjp", "fp32") if max(c.shapes[0]) == 1025]
    assert any(max(lower.shapes[0]) <= 512 for lower in smaller_calls(case))


def test_masks_are_booleans_and_hold_what_their_regime_says() -> None:
    shape = (4, 50)
    for layout in LAYOUTS:
        shares: dict[str, int] = {}
        for regime in MASK_REGIMES:
            recipes = (Recipe(regime, 1, layout), Recipe("normal"), Recipe("ties"))
            case = CaseSpec("where", "value", "bf16", (shape,) * 3, recipes)
            assert describe(case) == "where(mask[4,50], bf16[4,50], bf16[4,50]) value"
            mask, x, _ = build(case).views()
            assert mask.dtype is torch.bool and x.dtype is torch.bfloat16
            recorded = build(case, numbers={k: v.numbers() for k, v in build(case).tensors()})
            assert torch.equal(recorded.views()[0], mask)
            shares[regime] = int(mask.sum())
        assert shares["all_true"] == 200 and shares["all_false"] == 0
        assert 0 < shares["truths"] < 200
    with pytest.raises(ValueError, match="unknown mask regime 'indices'"):
        fill_mask("indices", 0, "input 0", shape)


def test_smaller_cases_come_first() -> None:
    small = CaseSpec("exp", "value", "fp32", ((2,),), (Recipe(),))
    ranked = replace(small, shapes=((2, 1),))
    longer = replace(small, shapes=((3,),))
    odder = replace(small, recipes=(Recipe("tiny"),))
    strided = replace(small, recipes=(Recipe(layout="strided"),))
    assert sorted((strided, odder, longer, ranked, small), key=size_key)[0] == small
    assert size_key(longer) < size_key(ranked)
    assert describe(ranked) == "exp(fp32[2,1]) value"


@pytest.mark.parametrize("op", of_pages(OPERATIONS, 6))
def test_what_lies_below_a_case_is_accepted_and_smaller(op: str) -> None:
    for case in (*strata(op, "vjp", "fp32"), *drawn(op, "vjp"))[::4]:
        for lower in smaller_calls(case):
            lower.output_shape()
            assert size_key(lower) < size_key(case)


def test_what_lies_below_an_update_is_another_update() -> None:
    for case in update_strata("adamw", "fp32"):
        below = list(smaller_updates(case))
        assert len(below) > 1 and case not in below
        for lower in below:
            assert all(k < len(lower.shapes) for _, k in (*lower.missing, *lower.zeroed))
            assert all(k < len(lower.shapes) for members, _ in lower.groups for k in members)
            assert all(event.step < lower.steps for event in lower.events)


def test_the_reference_refuses_every_near_miss_by_its_label() -> None:
    for name, op in OPS.items():
        assert [refused_by_reference(name, miss) for miss in op.refused] == [None] * len(op.refused)


def test_a_call_that_the_reference_accepts_or_refuses_otherwise_is_no_near_miss() -> None:
    accepted, other = Miss("C1", ([1.0], [2.0])), Miss("C2", ([1.0], [2.0, 3.0]))
    said = "the reference accepts add([1.0], [2.0]) breaking C1"
    assert refused_by_reference("add", accepted) == said
    wrong = refused_by_reference("add", other)
    assert wrong is not None and "was refused as Rejected: add C1: " in wrong


def test_a_spoiled_gradient_has_one_entry_that_is_not_finite() -> None:
    for case in filter(lambda case: case.spoiled, spoiled_cases("adam", "fp32")):
        for step in range(case.steps):
            gradients = [made.view for _, made in build_gradients(case, step, "cpu") if made]
            bad = sum(int((~torch.isfinite(g)).sum()) for g in gradients)
            assert bad == any(at == step for at, _, _ in case.spoiled)


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


def test_an_op_without_inputs_is_told_its_dtype_and_has_rows_of_values_only() -> None:
    dtypes = dict.fromkeys(OPS, ("fp32",))
    rows = rows_of(Capabilities(dtypes, declared("aten")), ["rand_normal", "dropout"], forward=True)
    found = {
        op: [row.direction for row in rows if row.op == op] for op in ("rand_normal", "dropout")
    }
    assert set(found["rand_normal"]) == {"value"}
    assert set(found["dropout"]) == {"value", "vjp", "jvp"}
    assert handed("rand_normal", {"seed": 7}, "bf16") == {"seed": 7, "dtype": torch.bfloat16}
    assert handed("dropout", {"seed": 7}, "bf16") == {"seed": 7}


def test_random_cases_have_words_of_64_bits_and_sizes_off_four() -> None:
    for op in ("rand_uniform", "rand_normal", "bernoulli_mask", "dropout"):
        cases = [*strata(op, "value", "fp32"), *drawn(op, "value")]
        for word in WORDS:
            assert max(case.attributes()[word] for case in cases) >= 2**63
        assert sum(math.prod(case.output_shape()) % 4 > 0 for case in cases) >= 10
        assert max(math.prod(case.output_shape()) for case in cases) > 1024
        assert {math.prod(case.output_shape()) for case in extras(op, "value", "fp32")} == {0, 1}
