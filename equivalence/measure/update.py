"""One optimizer case, measured: several steps, every parameter and every state tensor at each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from equivalence.budgets.outcome import Outcome
from equivalence.cases.updates import UpdateSpec
from equivalence.measure.call import judge_live
from equivalence.measure.reference import Expected, left_by, scaled_gradients
from equivalence.measure.shadow import Step, judge_step, measure_steps

if TYPE_CHECKING:
    from equivalence.budgets.oracle import World
    from equivalence.worlds.contract import Contract


def measure_update(backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
    """Run the steps of a case and judge each of them against the reference in its shadow."""

    def judge(step: Step) -> Outcome:
        from equivalence.budgets.oracle import evaluated

        k = step.parameter
        before, moments = step.before.params[k], step.moments(case.optimizer)
        found: list[Expected] = []

        def run(world: World) -> list[Any]:
            def lift(tensor: Tensor | None) -> Any:
                return None if tensor is None else world.lift(tensor)

            expected = left_by(
                case.optimizer,
                lift(before),
                scaled_gradients(list(map(lift, step.gradients)), case.max_norm)[k],
                {field: lift(moment) for field, moment in moments.items()},
                step.count,
                case.hyper_parameters(k),
                world.store,
            )
            found.append(expected)
            return list(expected.tensors.values())

        evaluated(contract, [before, *step.gradients, *moments.values()], run, many=True)
        return judge_step(step, found[-1], judge_live)

    return measure_steps(backend, case, judge)
