"""One optimizer case, measured: several steps, every parameter and every state tensor at each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from equivalence.budgets.outcome import Outcome
from equivalence.cases.updates import UpdateSpec
from equivalence.measure.call import judge_live
from equivalence.measure.reference import advance, scaled_gradients
from equivalence.measure.shadow import Step, judge_step, measure_steps

if TYPE_CHECKING:
    from equivalence.worlds.contract import Contract


def measure_update(backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
    """Run the steps of a case and judge each of them against the reference in its shadow."""

    def judge(step: Step) -> Outcome:
        if case.spoiled:
            from equivalence.measure.spoiled import judge_spoiled

            return judge_spoiled(step, case, contract)
        from equivalence.budgets.oracle import lift_one
        from equivalence.worlds.arithmetic import Arithmetic

        arithmetic = Arithmetic(contract)

        def lift(tensor: Tensor | None) -> Any:
            return None if tensor is None else lift_one(tensor, arithmetic)

        expected = advance(
            case.optimizer,
            lift(step.before.params[step.parameter]),
            scaled_gradients(list(map(lift, step.gradients)), case.max_norm)[step.parameter],
            {field: lift(moment) for field, moment in step.moments(case.optimizer).items()},
            step.count,
            case.hyper_parameters(step.parameter),
        )
        return judge_step(step, expected, judge_live)

    return measure_steps(backend, case, judge)
