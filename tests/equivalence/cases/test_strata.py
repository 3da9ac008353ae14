"""The fixed cases of a row: all levels, all pairs of levels, read off the cases themselves."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
import torch

from equivalence.backends import load
from equivalence.cases.built import allows, build
from equivalence.cases.call import CaseSpec
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.domains import GROUPS, regimes
from equivalence.cases.families.family import Family
from equivalence.cases.families.table import FAMILIES, family_of
from equivalence.cases.fills.regimes import fill
from equivalence.cases.guard import is_own
from equivalence.cases.strata import fixed, rules, turns
from equivalence.cases.strata.added.rules import added
from equivalence.cases.strata.fixed import strata
from equivalence.dtypes import DTYPES
from equivalence.measure.call import attempt
from spec.ops import OPS
from tests.equivalence.cases.levels import BLURRED, Table, classed, wanted
from tests.turns import in_turns

ONE_OF_EACH = {family_of(op).name: name for name, op in reversed(OPS.items())}
ROWS = [
    (op, direction)
    for op in ONE_OF_EACH.values()
    for direction in ("value", "vjp")
    if OPS[op].moves or direction == "value"
]


def levels_of(case: CaseSpec, table: Table) -> dict[str, Any]:
    read = {name: reader(case) for name, (_, reader) in table.items()}
    return {name: level for name, level in read.items() if level in table[name][0]}


def allowed_levels(op: str, direction: str, number: int) -> Iterator[dict[str, Any]]:
    """Draw levels that the rules allow, each alone and without any design."""
    asked, factors = rules.Rules(OPS[op], direction), rules.factors_of(OPS[op], direction)
    rng = random.Random(f"{op} {direction}")
    for _ in range(number):
        levels = {name: rng.choice(among) for name, among in factors.items()}
        if asked.allowed(levels):
            yield levels


def unmet_levels(op: str, direction: str, strength: int = SINGLES) -> set[tuple[str, Any]]:
    """Return the levels that no fixed case has, but for what no case of the op can be."""
    cases = strata(op, direction, "fp32", strength)
    table = wanted(op, family_of(OPS[op]).name, direction)
    met = {pair for case in cases for pair in levels_of(case, table).items()}
    missing = {(name, level) for name, (among, _) in table.items() for level in among} - met
    shapes: dict[str, set[tuple[int, ...]]] = {"seed_layout": {c.output_shape() for c in cases}}
    for case in cases:
        for k, shape in enumerate(case.shapes):
            shapes.setdefault(f"layout_{k % 2 if OPS[op].variadic else k}", set()).add(shape)
    return {
        (name, level)
        for name, level in missing
        if (name != "calling" or any(allows(case, level) for case in cases))
        and ("layout" not in name or any(is_own(shape, level) for shape in shapes[name]))
    }


@pytest.mark.parametrize(("op", "direction"), in_turns(ROWS, 4))
def test_every_level_is_met_by_the_first_cases(op: str, direction: str) -> None:
    table = wanted(op, family_of(OPS[op]).name, direction)
    unmet = unmet_levels(op, direction)
    assert {(name, level) for name, level in unmet if table[name][1] not in BLURRED} == set()


@pytest.mark.parametrize(("op", "direction"), in_turns(ROWS, 6))
def test_every_pair_that_may_meet_meets(op: str, direction: str) -> None:
    table = {
        name: told
        for name, told in wanted(op, family_of(OPS[op]).name, direction).items()
        if told[1] not in BLURRED
    }
    drawn = list(allowed_levels(op, direction, 4000))
    assert pairs(drawn) - pairs(rules.design(OPS[op], direction).rows(PAIRS)) == set()
    told = [
        levels_of(fixed.case_of(op, direction, "fp32", levels, k), table)
        for k, (levels, _) in enumerate(turns.with_regimes(drawn, [(0,)] * len(drawn)))
    ]
    met = [levels_of(case, table) for case in strata(op, direction, "fp32", PAIRS)]
    assert len(pairs(told)) > 50
    # A first axis of one entry may be the long one, or lead: that is told by the design alone.
    leading = ("beside", "behind one")
    assert {pair for pair in pairs(told) - pairs(met) if leading not in pair} == set()


OFTEN_ZERO: dict[str, Any] = {
    "log_softmax": [("extent", 1)],
    "nll_loss": [("classes", 1)],
    "triu": [("diagonal", "beyond")],
    "argmax": [("extent", 1), ("rows", "many")],
    "triplet_margin_loss": [("extent", 257)],
}
"""By op: levels at which its results are 0, or mostly ignored; many rows have one entry or two, and
a long row is a lone triplet, which may have nothing left to learn."""


@pytest.mark.parametrize(("op", "direction"), in_turns(ROWS, 6))
def test_every_level_of_a_call_is_met_where_something_is_not_0(op: str, direction: str) -> None:
    """Results are looked at, three times each: a loss whose rows are all ignored shows nothing."""
    if OPS[op].stops_gradients and direction == "vjp":
        pytest.skip("its gradient is 0, whatever there is")
    backend, structure = load("fast-aten"), family_of(OPS[op]).factors(OPS[op])
    rows, cases = rules.design(OPS[op], direction).rows(PAIRS), strata(op, direction, "fp32", PAIRS)
    (numbered,) = fixed.shared_out(OPS[op], direction, PAIRS, 1)
    seen = {(n, level): 0 for row in rows for n, level in row.items() if n in structure}
    for zero in OFTEN_ZERO.get(op, []):
        del seen[zero]
    for (_, row), case in zip(numbered, cases, strict=True):
        levels = [level for level in row.items() if seen.get(level, 3) < 3]
        if levels:
            results = attempt(backend, build(case))
            assert isinstance(results, list)
            shown = any(r is not None and bool((r.isfinite() & (r != 0)).any()) for r in results)
            seen |= {level: seen[level] + shown for level in levels}
    assert {level: times for level, times in seen.items() if times < 3} == {}


def pairs(rows: Iterable[dict[str, Any]]) -> set[Any]:
    classes = ([(name, classed(name, level)) for name, level in row.items()] for row in rows)
    return {pair for levels in classes for pair in combinations(levels, 2)}


@pytest.mark.parametrize("dtypes", [(), ("fp32",), tuple(DTYPES)])
def test_of_a_group_all_regimes_come_before_one_comes_again(dtypes: tuple[str, ...]) -> None:
    rows = len(rules.design(OPS["square"], "vjp").rows(PAIRS))
    for place, dtype in enumerate(dtypes or ("fp32",)):
        numbers = fixed.shared_out(OPS["square"], "vjp", PAIRS, len(dtypes) or 1)[place]
        # What has not met a row of some length has rows of its own behind those of the design, and
        # what every row meets by rule is no matter of the design.
        every = strata("square", "vjp", dtype, PAIRS, dtypes)
        ruled = [
            levels for k in (SINGLES, PAIRS) for _, levels, _ in added(OPS["square"], "vjp", k)
        ]
        cases = [
            case
            for (number, levels), case in zip(numbers, every, strict=True)
            if number < rows and levels not in ruled
        ]
        for group in GROUPS.values():
            for of in (lambda case: case.recipes[0], lambda case: case.cotangent):
                met = [of(case).regime for case in cases if of(case).regime in group]
                turns = [met[k : k + len(group)] for k in range(0, len(met), len(group))]
                assert all(len(set(turn)) == len(turn) for turn in turns)
                assert set(met) == set(group) or len(met) < len(group)
                assert len(met) >= len(group) - 1


@pytest.mark.parametrize("op", ["softmax", "max", "layer_norm", "nll_loss", "linear"])
@pytest.mark.parametrize("dtypes", [("fp32",), tuple(DTYPES)])
def test_what_is_not_finite_meets_rows_of_every_length(op: str, dtypes: tuple[str, ...]) -> None:
    structure = family_of(OPS[op]).factors(OPS[op])
    (length,) = (name for name in turns.LENGTHS if name in structure)
    classes = {classed(length, level) for level in structure[length]}
    met = {
        (classed(length, levels[length]), levels["regime_0"])
        for place in fixed.shared_out(OPS[op], "vjp", PAIRS, len(dtypes))
        for _, levels in place
    }
    among = regimes(OPS[op], len(OPS[op].inputs))[0]
    wanted = {regime for group in GROUPS.values() for regime in group if regime in among}
    assert set(product(classes, wanted)) - met == set()


@pytest.mark.parametrize(("name", "axis"), [("impossible", 1), ("special_in_rows", 0)])
def test_rows_lie_along_the_axis_of_the_op(name: str, axis: int) -> None:
    shape = (6, 33, 5)
    numbers = torch.tensor(fill(name, 3, "input 0", shape, axis=axis)).reshape(shape)
    along = fill(name, 3, "input 0", (*(n for k, n in enumerate(shape) if k != axis), shape[axis]))
    wanted = torch.tensor(along).reshape(-1, shape[axis])
    assert torch.equal(numbers.movedim(axis, -1).reshape(wanted.shape).nan_to_num(7.0),
                       wanted.nan_to_num(7.0))  # fmt: skip


@pytest.mark.parametrize("op", ["softmax", "sum", "concat", "dropout"])
def test_the_first_cases_are_a_prefix(op: str) -> None:
    first = strata(op, "vjp", "fp32", SINGLES)
    assert strata(op, "vjp", "fp32", PAIRS)[: len(first)] == first


def without(family: Family, factor: str) -> Family:
    """Return a family that keeps to the first level of a factor."""

    def factors(op: Any) -> Any:
        return {n: ls[:1] if n == factor else ls for n, ls in family.factors(op).items()}

    return replace(family, factors=factors)


@pytest.mark.parametrize(
    "family", in_turns([FAMILIES[name] for name in ONE_OF_EACH], 12), ids=lambda family: family.name
)
def test_a_factor_that_is_removed_is_missed(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = ONE_OF_EACH[family.name]
    blurred = {name for name, _ in unmet_levels(op, "value")}
    for factor in family.factors(OPS[op]):
        strength = PAIRS if factor in blurred else SINGLES
        for module in (rules, fixed):
            monkeypatch.setattr(module, "family_of", lambda _: family)
        rules.design.cache_clear()
        before = unmet_levels(op, "value", strength)
        pinned = without(family, factor)
        for module in (rules, fixed):
            monkeypatch.setattr(module, "family_of", lambda _, pinned=pinned: pinned)
        rules.design.cache_clear()
        assert unmet_levels(op, "value", strength) - before, factor
    rules.design.cache_clear()
