"""The rows that `programs`, `trainers` and `curvature` judge: all of them, with few drawn cases."""

from __future__ import annotations

import pytest

from equivalence.budgets.ledger import Ledger
from equivalence.budgets.violation import Violation
from equivalence.runs.results import Row, RowResult
from equivalence.runs.work import attempted
from equivalence.sessions.curvature.programs import KINDS
from equivalence.sessions.drawn import SEEDS, examine_drawn, judge_drawn
from equivalence.sessions.rows import (
    COMMANDS,
    CURVATURE,
    GRAPHS,
    TRAINERS,
    WRITTEN,
    Task,
    judge_row,
)
from equivalence.sessions.seen import share
from tests.turns import in_turns

pytestmark = pytest.mark.slow

CASES = {"aten": 30, "triton": 2}
"""How many cases a drawn row has; Triton's interpreter takes a hundred times as long for one."""

WRITTEN_ROWS = [row for row in COMMANDS["programs"].rows(Task("quick", 0)) if row.op in WRITTEN]


def conformant(result: RowResult) -> None:
    """Say that a row is conformant, or show what it found."""
    assert result.status == "conformant", [failure.lines() for failure in result.failures]
    assert result.judged > 10 * result.unconstrained


@pytest.mark.holds(
    "A session: its options, its tape, its parameters, its naturals",
    "Forget the tape, and not the random counter",
    "Read a value back",
    "Use a parameter, once or more often",
    "Gradients of every entry on the device, with a seed or from a scalar loss",
    "Gradients of the trainable leaves",
    "Look a gradient up",
    "One program, every interpreter",
)
@pytest.mark.parametrize("row", in_turns(WRITTEN_ROWS, 2), ids=str)
def test_a_program_is_within_budget_wherever_it_is_checked(row: Row) -> None:
    result = judge_row("programs", Task("quick", 0), row)
    conformant(result)
    assert result.judged >= 16


@pytest.mark.holds(
    "Compile the graph into a tape",
    "Gradients of every entry, with a seed or from a scalar loss",
    "Look a gradient up by its ref",
    "Tangents of all leaves, of one leaf, of a scalar loss",
    "The tape's loop on the compiled graph is the graph's own backward pass",
)
@pytest.mark.parametrize("row", GRAPHS, ids=str)
def test_what_a_graph_says_is_what_a_tape_computes(row: Row) -> None:
    conformant(judge_drawn("programs", row, CASES[row.direction], 0))


@pytest.mark.holds(
    "Updates of the parameters in use; frozen ones stay",
    "One program, every interpreter",
    "A list of parameters, trainable or frozen",
    "One step of the list",
    "Values of the list",
    "Loss and gradients of a trainer",
    "Steps of a trainer",
    "Parameters and inputs onto the tape, gradients off it",
    "A trainer of a scalar loss",
    "The mean of losses over a list, an array or a dataset, all alike",
)
@pytest.mark.parametrize("row", in_turns(TRAINERS, 3), ids=str)
def test_every_step_of_a_trainer_is_within_budget(row: Row) -> None:
    conformant(judge_drawn("trainers", row, CASES[row.direction], 0))


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize("row", in_turns((row for row in CURVATURE if row.op in KINDS), 2), ids=str)
def test_a_hessian_and_its_products_are_within_budget(row: Row) -> None:
    conformant(judge_drawn("curvature", row, 60, 0))


def test_the_same_seed_draws_the_same_cases() -> None:
    row = CURVATURE[0]
    first, again, other = (judge_drawn("curvature", row, 5, number) for number in (7, 7, 8))
    assert first == again and first.judged != 0
    assert first != other


def test_a_profile_asks_less_of_what_is_interpreted() -> None:
    assert share("ci", Row("drawn", "aten", "fp32")) == 30
    assert share("ci", Row("drawn", "triton", "fp32")) == 3
    assert share("quick", Row("drawn", "triton", "fp32")) == 1


def judged_up_to(limit: int, seed: int) -> Ledger:
    """Judge a number: one over the limit breaks the promise."""
    if seed > limit:
        raise Violation(f"{seed} is more than {limit}")
    return Ledger(judged=1)


def test_the_case_that_breaks_a_promise_is_shown() -> None:
    row = Row("numbers", "aten", "fp32")
    found = examine_drawn(row, lambda seed: judged_up_to(9, seed), (SEEDS,), 30, 0, shrink=True)
    assert found.status == "nonconformant"
    assert found.failures[0].lines() == ["10 is more than 9", "  in 10"]


def test_what_judges_nothing_is_vacuous() -> None:
    row = Row("numbers", "aten", "fp32")
    assert examine_drawn(row, lambda seed: Ledger(), (SEEDS,), 3, 0).status == "vacuous"


def test_an_error_of_a_row_is_no_broken_promise() -> None:
    result = attempted(
        lambda row: judge_row("curvature", Task("quick", 0), row), Row("x", "y", "z")
    )
    assert result.status == "error" and "KeyError: 'x'" in result.failures[0].title
