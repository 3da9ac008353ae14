"""Random programs of any extents: right ones conform, and each kind of mistake is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.budgets.violation import Violation
from equivalence.cases.updates.levels import plainest
from equivalence.runs.results import Row, RowResult
from equivalence.sessions.dags import growing, pairs
from equivalence.sessions.dags.compiled import CompiledSides
from equivalence.sessions.dags.judged import Update, judge
from equivalence.sessions.dags.rows import judge_artifacts, judge_dags, judge_designed, rows_drawn
from equivalence.sessions.dags.text import Param, Program, Step, kept, with_leaves
from equivalence.sessions.rows import COMMANDS, Task
from fast.ops import OPS
from fast.runtime.gradmap import GradMap
from fast.runtime.param import Param as Owner

ATEN = Row("dags-0", "aten", "fp32")


def conformant(result: RowResult) -> None:
    """Say that a row is conformant and judged something, or show what it found."""
    assert result.status == "conformant", [failure.lines() for failure in result.failures]
    assert result.judged > 10 * result.unconstrained
    assert any("one by one" in note.text for note in result.notes)


@pytest.mark.parametrize(("provider", "cases"), [("aten", 30), ("triton", 2)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_drawn_programs_conform(provider: str, cases: int, precision: str) -> None:
    row = Row("dags-0", provider, precision)
    result = judge_dags(row, cases, None, 0)
    conformant(result)
    assert result.cases == cases


def test_programs_after_an_op_conform_and_say_what_never_follows_it() -> None:
    conformant(judge_designed(Row("after-layer_norm", "aten", "fp32"), 0))
    result = judge_designed(Row("after-log_softmax", "aten", "fp32"), 0)
    conformant(result)
    assert any("came no" in note.text for note in result.notes)


def test_drawn_programs_have_every_op_fan_out_shared_parameters_and_dead_branches() -> None:
    ops, shared, dead, fan, shapes = Counter[str](), 0, 0, 0, set()
    for k in range(60):
        program = growing.drawn(Random(k), 40, "fp32")
        ops.update(step.op for step in program.steps)
        shared += len({*program.uses}) < len(program.uses)
        dead += len(program.behind(program.out)) < len(program)
        readers = Counter(node for step in program.steps for node in step.nodes)
        fan += max(readers.values()) > 2
        shapes |= {tuple(param.value.shape) for param in program.params}
    assert set(ops) == set(growing.NAMES)
    assert min(shared, dead, fan) > 10
    assert len(shapes) > 50


def test_the_same_seed_draws_the_same_program() -> None:
    first, again = (growing.drawn(Random(3), 12, "fp32") for _ in range(2))
    assert (first.uses, first.steps, first.out) == (again.uses, again.steps, again.out)
    pairs_of = zip(first.params, again.params, strict=True)
    assert all(torch.equal(a.value, b.value) for a, b in pairs_of)


@pytest.mark.full
def test_nearly_every_op_follows_every_other_and_a_reason_says_why_not() -> None:
    missing = {first: pairs.programs(first, "fp32")[1] for first in growing.NAMES}
    every = sum(len(pairs.readers(first)) for first in growing.NAMES)
    assert sum(map(len, missing.values())) < every / 100
    assert {why for unmet in missing.values() for why in unmet.values()} <= {
        pairs.BY_NUMBERS,
        pairs.BY_SHAPE,
    }
    # What is never positive has no logarithm, and a loss of labels has no matrix.
    assert missing["log_sigmoid"]["log"] == pairs.BY_NUMBERS
    assert missing["cross_entropy"]["matmul"] == pairs.BY_SHAPE


@pytest.mark.full
@pytest.mark.usefixtures("cache")
def test_compiled_programs_conform_on_many_draws_and_a_constant_that_is_baked_in_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Row("inductor-dags-0", "aten", "fp32")
    result = judge_artifacts(row, 1, 6, 0)
    conformant(result)
    usual = CompiledSides._run

    def stale(self: CompiledSides) -> tuple[list[Any], list[Tensor]]:
        """Say that parameters have other numbers than the artifact has seen."""
        refs, values = usual(self)
        count = len(self.program.uses)
        return refs, [x * 1.0625 if k < count else x for k, x in enumerate(values)]

    monkeypatch.setattr(CompiledSides, "_run", stale)
    assert judge_artifacts(row, 1, 6, 0).status == "nonconformant"


class Broken:
    """Plants a wrong function into a page of `fast`, for one test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def page(self, name: str, **changed: Any) -> None:
        """Replace parts of a page's record."""
        self.monkeypatch.setitem(OPS, name, replace(OPS[name], **changed))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(monkeypatch)


def failing(cases: int = 60) -> RowResult:
    """Judge drawn programs, one of which has to fail, and replay the printed one."""
    result = judge_dags(ATEN, cases, None, 0)
    assert result.status == "nonconformant"
    lines = result.failures[0].details
    start = next(k for k, line in enumerate(lines) if line.startswith("from torch"))
    with pytest.raises(Violation):
        exec("\n".join(lines[start:]), {})
    return result


def steps_of(result: RowResult) -> list[str]:
    """Return the ops of the printed program."""
    lines = result.failures[0].details
    return [line.split("'")[1] for line in lines if line.strip().startswith("Step(")]


def scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule whose first cotangent is wrong in the 12th bit."""

    def wrong(*given: Any) -> Any:
        first, *others = function(*given)
        return (None if first is None else first * (1 + 2.0**-12), *others)

    return wrong


def test_a_wrong_rule_is_found_and_printed_by_itself(broken: Broken) -> None:
    broken.page("tanh", aten_vjp=scaled(OPS["tanh"].aten_vjp))
    assert steps_of(failing()) == ["tanh", "mul", "sum"]


def test_a_node_is_one_of_several_results_and_each_is_met(broken: Broken) -> None:
    """A rule that leaves out what comes to the second result is found."""
    drawn = (growing.drawn(Random(k), 40, "fp32") for k in range(60))
    steps = [step for program in drawn for step in program.steps if step.op == "add_rms_norm"]
    assert {step.result for step in steps} == {0, 1}
    usual = OPS["add_rms_norm"].aten_vjp
    broken.page("add_rms_norm", aten_vjp=lambda saved, g, needs: usual(saved, (g[0], None), needs))
    assert steps_of(failing(200)) == ["add_rms_norm", "mul", "sum"]


def test_a_wrong_value_is_found_though_nothing_reads_it(broken: Broken) -> None:
    usual = OPS["argmax"].aten_value

    def wrong(x: Tensor, **attributes: Any) -> Any:
        found, saved = usual(x, **attributes)
        return tuple(map(torch.zeros_like, found)), saved

    broken.page("argmax", aten_value=wrong)
    assert steps_of(failing()) == ["argmax", "neg"]


def test_a_contribution_that_is_lost_is_found_in_a_few_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = GradMap.add

    def last_wins(self: GradMap, leaf: int, cotangent: Tensor) -> None:
        owner = self._leaves[leaf]
        if isinstance(owner, Owner) and self.touched[owner.slot]:
            self.touched[owner.slot] = 0
        usual(self, leaf, cotangent)

    monkeypatch.setattr(GradMap, "add", last_wins)
    assert len(steps_of(failing())) <= 5


def test_an_update_that_forgets_the_second_use_of_a_parameter_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program(
        (Param(torch.tensor([0.5, -1.5])),),
        (0, 0),
        (Step("exp", (0,), {}), Step("mul", (2, 1), {}), Step("sum", (3,), {})),
        4,
    )
    update = Update("sgd", plainest("sgd"))
    ledger, values, cotangents = judge(program, "aten", "fp32", update)
    assert (values.judged, cotangents.judged) == (3, 5)
    assert ledger.judged == 5 + 9 + 4 + 2
    monkeypatch.setattr(GradMap, "_again", lambda self: [])
    with pytest.raises(Violation, match="sgd: parameter 0"):
        judge(program, "aten", "fp32", update)


def test_a_chain_whose_ball_grows_is_judged_node_by_node() -> None:
    steps = [Step("sin", (0,), {})]
    for k in range(12):
        steps.append(Step("scale", (1 + 2 * k,), {"c": 50.0}))
        steps.append(Step("sin", (2 + 2 * k,), {}))
    steps.append(Step("sum", (len(steps),), {}))
    program = Program((Param(torch.tensor([0.3, 0.7])),), (0,), tuple(steps), len(steps))
    ledger, values, cotangents = judge(program, "aten", "fp32")
    assert 0 < values.alone < values.judged
    assert cotangents.alone > 0
    assert ledger.unconstrained == 0


def test_programs_are_cut_and_renumbered() -> None:
    params = (Param(torch.tensor([1.0])), Param(torch.tensor([2.0])))
    steps = (Step("mul", (0, 1), {}), Step("neg", (0,), {}), Step("add", (2, 1), {}))
    program = Program(params, (0, 1), steps, 4)
    assert program.behind(4) == {0, 1, 2, 4}
    alive = kept(program, program.behind(4), 4)
    assert alive.steps == (Step("mul", (0, 1), {}), Step("add", (2, 1), {}))
    cut = with_leaves(alive, {2: torch.tensor([2.0])})
    assert cut.steps == (Step("add", (2, 1), {}),)
    assert (cut.uses, cut.out) == ((0, 1, 2), 3)
    assert kept(cut, cut.behind(3), 3).params == (params[1], cut.params[2])


def test_parts_of_drawn_programs_are_rows() -> None:
    rows = rows_drawn(lambda row: 250 if row.direction == "aten" else 3)
    assert [row.op for row in rows if row.direction == "aten" and row.dtype == "fp32"] == [
        "dags-0",
        "dags-1",
        "dags-2",
    ]
    names = [row.op for row in COMMANDS["programs"].rows(Task("ci", 0, cases=101))]
    assert names.count("dags-1") == names.count("dags-0") == 4
    assert sum(name.startswith("after-") for name in names) == len(growing.NAMES)
