"""Cases of optimizers: what meets in them, what they say of themselves, and their tensors."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
import torch

from equivalence.cases.strategies import draw_many
from equivalence.cases.updates.design import (
    allowed,
    events,
    factors,
    rows,
    spoiled_cases,
    update_specs,
    update_strata,
    walk,
)
from equivalence.cases.updates.levels import SHAPES, WRITABLE, choices
from equivalence.cases.updates.spec import UpdateSpec, describe
from equivalence.cases.updates.tensors import Gradients, build_parameters, long, marks
from equivalence.measure.update import MOST_ELEMENTS, MOST_STEPS, shorter
from equivalence.runs.choice import read_case
from spec.optim import OPTIMIZERS

NAMES = sorted(OPTIMIZERS)


@pytest.mark.parametrize("optimizer", NAMES)
def test_every_pair_that_may_meet_does_and_the_first_few_have_every_level(optimizer: str) -> None:
    levels = factors(optimizer)
    found = rows(optimizer, 2)
    for one, two in combinations(levels, 2):
        met = {(row[one], row[two]) for row in found}
        for pair in product(levels[one], levels[two]):
            assert pair in met or not allowed(optimizer, dict(zip((one, two), pair, strict=True)))
    few = found[: len(rows(optimizer, 1))]
    assert len(few) <= max(map(len, levels.values())) + 2
    for name, among in levels.items():
        assert {row[name] for row in few} == set(among)


def test_settings_that_were_confounded_meet() -> None:
    fixed = update_strata("adam", "fp32")
    square = [dict(case.hyper)["lr"] for case in fixed if (4, 4) in case.shapes]
    assert len(set(square)) == len(choices("adam")["lr"])
    for start in choices("adam")["start_step"][1:]:
        betas = {dict(c.hyper)["beta2"] for c in fixed if c.start_step == start}
        betas |= {dict(c.hyper)["beta2"] for c in fixed for e in c.events if e.number == start}
        assert betas == set(choices("adam")["beta2"])


@pytest.mark.parametrize("optimizer", NAMES)
def test_cases_survive_json_and_describe_themselves(optimizer: str) -> None:
    fixed = update_strata(optimizer, "fp32")
    drawn = draw_many(update_specs(optimizer, "fp32"), 20, seed_=0)
    for case in (*fixed, *spoiled_cases(optimizer, "fp32"), *drawn):
        row, read = read_case(case.to_json())
        assert read == case and row.direction == "update"
        assert describe(case).startswith(f"{optimizer}(")
    assert {event.kind for case in fixed for event in case.events} >= set(events(optimizer)) - {
        "nothing",
        "resume",
        "set_arguments",
    }


@pytest.mark.parametrize("optimizer", NAMES)
def test_groups_differ_in_one_hyper_parameter_or_in_all(optimizer: str) -> None:
    differing: set[str] = set()
    for case in update_strata(optimizer, "fp32"):
        for members, pairs in case.groups:
            own = case.hyper_parameters(members[0])
            assert all(own[name] == value for name, value in pairs if name != "lr") or case.events
            differing |= {n for n, v in pairs if v != dict(case.hyper)[n]}
    assert differing == set(choices(optimizer)) - {"start_step", "max_norm"}


def test_a_long_tensor_repeats_its_numbers_and_is_sparse_where_a_norm_is_clipped() -> None:
    shapes = SHAPES["large"]
    case = next(c for c in update_strata("sgd", "fp32") if c.shapes == shapes)
    view = build_parameters(case, "cpu")[1][1].view
    assert view.numel() == 100_000 and len(torch.unique(view)) <= 31
    clipped = next(
        c for c in update_strata("sgd", "fp32")
        if c.shapes == shapes and c.max_norm and c.gradients.regime == "normal"
    )  # fmt: skip
    gradient = Gradients(clipped, "cpu").at(0)[1][1]
    assert gradient is None or int((gradient.view != 0).sum()) < 5000


def test_marks_lie_at_both_sides_of_blocks() -> None:
    found = set(marks(100_000))
    assert {0, 1023, 1024, 2047, 2048, 98_303, 98_304, 99_327, 99_328, 99_999} <= found
    assert not long(100) and len(found) < 120


def test_parameters_never_share_memory_between_elements() -> None:
    assert {"transposed", "padded", "strided", "offset"} <= set(WRITABLE)
    assert not {"expanded", "broadcast"} & set(WRITABLE)


def test_gradients_are_handed_as_the_case_says() -> None:
    case = walk("sgd", "fp32")
    gradients = Gradients(case, "cpu")
    first, second = gradients.at(0), gradients.at(1)
    assert first[0][1] is not None and second[0][1] is not None
    assert first[0][1].view is second[0][1].view
    shared = UpdateSpec(**{**_fields(case), "handing": "shared"})
    handed = Gradients(shared, "cpu").at(0)
    assert len({id(item) for _, item in handed}) == 1


def _fields(case: UpdateSpec) -> dict[str, object]:
    return {name: getattr(case, name) for name in UpdateSpec.__dataclass_fields__}


def test_an_interpreter_is_asked_for_less() -> None:
    large = next(c for c in update_strata("sgd", "fp32") if c.shapes == SHAPES["large"])
    less, said = shorter(large)
    assert max(math.prod(shape) for shape in less.shapes) <= MOST_ELEMENTS and said
    less, said = shorter(walk("sgd", "fp32"))
    assert less.steps == MOST_STEPS and said
    plain = update_strata("sgd", "fp32")[0]
    assert shorter(plain) == (plain, ())


def test_a_case_that_names_what_does_not_exist_is_refused() -> None:
    text = walk("sgd", "fp32").to_json()
    with pytest.raises(ValueError, match="unknown handing 'lent'"):
        read_case(text.replace('"reused"', '"lent"'))
