"""One record of errors: balls, arrays and sets of special values follow a change of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import equivalence.worlds.vectorized.terms  # noqa: F401  (how arrays add up is registered there)
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, exact
from equivalence.worlds.contract import BF16, FP16, FP32, Contract, ulps
from equivalence.worlds.special_values.sets import Line, SpecialValues
from equivalence.worlds.special_values.steps import lifted
from equivalence.worlds.steps import Division, Steps
from equivalence.worlds.vectorized.numbers import Many, working
from equivalence.worlds.vectorized.widths import Widths
from spec import scalar
from tools.tree import ROOT

FULL = Contract("full", FP32, FP32, division="full", flush="outputs")

Step = Callable[..., object]
Plant = Callable[[Steps], Steps]


def in_balls(step: Step, *values: float) -> float:
    found = step(*exact(Arithmetic(FULL), *values))
    assert isinstance(found, Bounded)
    return float((found.ball - found.v).abs_upper())


def in_arrays(step: Step, *values: float) -> float:
    with working(Widths(FULL), 1):
        found = step(*(Many(np.array([value])) for value in values))
    assert isinstance(found, Many) and found.b is not None
    return float(found.b[0])


def in_sets(step: Step, *values: float) -> float:
    """Return the error of the finite part; where an infinity is allowed, none is the budget."""
    found = step(*lifted(Line(FULL), *values))
    assert isinstance(found, SpecialValues) and found.finite is not None
    if found.kinds:
        return float("nan")
    return float((found.finite.ball - found.finite.v).abs_upper())


EVALUATORS = {"balls": in_balls, "arrays": in_arrays, "sets": in_sets}


PLACE = replace(FULL, flush="none", functions={"log1p": ulps(1.0, "a place")})
"""One place is two units roundoff of a normal number, and a whole subnormal below."""


def test_a_function_that_errs_by_a_place_errs_by_one_below_the_normal_numbers() -> None:
    tiny, places = FP32.min_normal / 2**12, 2.0**FP32.least_exponent
    ball = scalar.log1p(exact(Arithmetic(PLACE), tiny)[0])
    assert isinstance(ball, Bounded)
    assert 1.0 <= float((ball.ball - ball.v).abs_upper()) / places < 1.01
    with working(Widths(PLACE), 1):
        many = scalar.log1p(Many(np.array([tiny])))
    assert isinstance(many, Many) and many.b is not None
    assert 1.0 <= float(many.b[0]) / places < 1.01


def multiply(x: Bounded, y: Bounded) -> Bounded:
    return x * y


def coarser(steps: Steps) -> Steps:
    """Double the error of a quotient."""
    return replace(steps, division=Division(False, 2 * steps.division.relative))


def kept(steps: Steps) -> Steps:
    """Flush no result."""
    return replace(steps, plain=tuple(s._replace(flushed=0.0) for s in steps.plain))


def narrower(steps: Steps) -> Steps:
    """Let overflow start at 2."""
    plain = (step._replace(format=replace(step.format, max_exponent=0)) for step in steps.plain)
    return replace(steps, plain=tuple(plain))


def worse(steps: Steps) -> Steps:
    """Double the error of a function."""
    functions = dict(steps.functions)
    functions["exp"] = functions["exp"]._replace(relative=2 * functions["exp"].relative)
    return replace(steps, functions=functions)


def longer(steps: Steps) -> Steps:
    """Let partial sums be rounded as coarsely as to bf16."""
    return replace(steps, sums=steps.sums._replace(below=BF16.unit, above=BF16.unit))


def total(*terms: Bounded) -> Bounded:
    found: Bounded = scalar.sum_terms(list(terms))
    return found


PLANTS: dict[str, tuple[Plant, Step, tuple[float, ...]]] = {
    "division": (coarser, scalar.divide, (1.0, 3.0)),
    "flush": (kept, multiply, (0.3, 2.0**-126)),
    "overflow": (narrower, multiply, (1.7, 1.9)),
    "function": (worse, scalar.exp, (0.3,)),
    "sums": (longer, total, (0.3, 0.7, 0.1)),
}


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("plant", PLANTS)
def test_every_number_system_follows_a_change_of_the_record(
    plant: str, evaluator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: another error of one kind of step, in the record alone."""
    change, step, values = PLANTS[plant]
    budget = EVALUATORS[evaluator]
    before, formed = budget(step, *values), Steps.of
    monkeypatch.setattr(Steps, "of", lambda contract: change(formed(contract)))
    after = budget(step, *values)
    assert before > 0
    if plant == "overflow":
        assert np.isnan(after) or np.isinf(after)
    elif plant == "flush":
        assert 0 < after < before / 1000
    else:
        assert after > before * 1.25


def test_wide_steps_are_those_of_wide_formats() -> None:
    contract = Contract("narrow steps", FP32, BF16, steps="storage", flush="inputs_outputs")
    steps = Steps.of(contract)
    assert steps.widened() != steps
    assert steps.widened().unit == steps.unit and steps.widened().largest > steps.largest
    assert [s.flushed for s in steps.widened().plain] == [s.flushed for s in steps.plain]


def test_storage_may_keep_the_subnormal_numbers_that_arithmetic_flushes() -> None:
    flushing = Contract("flushing", FP32, FP16, flush="inputs_outputs")
    everywhere = Steps.of(flushing)
    assert [everywhere.last.flushed, everywhere.sums.flushed] == [FP16.min_normal, FP32.min_normal]
    steps = Steps.of(replace(flushing, stores_flushed=False))
    assert replace(steps, last=everywhere.last) == everywhere and steps.last.flushed == 0.0


FORMED_IN = {"contract.py", "steps.py"}
"""The files of the room that may ask a contract what it says."""


def contracts_opened(source: str) -> Iterator[int]:
    """Yield the lines that read a field of a contract, or give a contract another name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and _is_contract(node.value):
            yield node.lineno
        renames = isinstance(node, ast.Assign) and not all(map(_is_contract, node.targets))
        if isinstance(node, ast.Assign) and renames and _is_contract(node.value):
            yield node.lineno


def _is_contract(node: ast.expr) -> bool:
    named = isinstance(node, ast.Name) and node.id == "contract"
    return named or (isinstance(node, ast.Attribute) and node.attr == "contract")


def test_only_the_record_of_steps_asks_a_contract() -> None:
    files = sorted((ROOT / "equivalence/worlds").rglob("*.py"))
    asking = [
        f"{path.relative_to(ROOT)}:{line} asks the contract; read the record of its steps instead"
        for path in files
        if path != ROOT / "equivalence/worlds" / path.name or path.name not in FORMED_IN
        for line in contracts_opened(path.read_text(encoding="utf-8"))
    ]
    assert len(files) > 10
    assert not asking, "\n".join(asking)


def test_a_file_that_asks_a_contract_is_found() -> None:
    planted = "self.contract = contract\nx = self.contract.division\nc = contract\ncontract.flush\n"
    assert sorted(contracts_opened(planted)) == [2, 3, 4]
    assert not [*contracts_opened("Arithmetic(contract, steps.widened())\n")]
