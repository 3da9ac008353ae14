"""Judge an update that repeats something turn by turn, from what a backend made of earlier turns.

Intervals grow in every turn, so that a bound over five of them says nothing. What a turn begins
from is recorded instead: another handle of the backend updates zeros, by the same gradient and from
the same state, by settings under which it leaves what all turns but one have made. That update is
judged in the same way, and the last turn from what was read off it; so every turn is judged alone.

A handle without `load` shows no turns after its first step, and what is stored in another format
than it is computed in shows none: there one bound holds for all turns. So it is where gradients are
scaled or clipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equivalence.budgets.outcome import Outcome, merged
from equivalence.cases.call import attribute_pairs
from equivalence.cases.guard import controlled
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.between.events import Snapshot, snapshot
from equivalence.measure.shadow import Step
from equivalence.registry import OPTIMIZERS
from equivalence.worlds.contract import Contract
from spec.optim.clip import Limits


@dataclass(frozen=True, slots=True)
class Shown:
    """What an update of zeros left, which shows what all turns but the last have made."""

    case: UpdateSpec
    left: Tensor

    def read(self, left: Any) -> Any:
        """Read what the turns have made off the same tensor in a world of numbers."""
        page = OPTIMIZERS[self.case.optimizer]
        assert page.repeated is not None
        return page.repeated.seen(left, page.hyper(**self.case.hyper_parameters(0)))


class Turns:
    """Judges the steps of a backend, and those of a page that repeats something by their turns."""

    def __init__(self, backend: Any, contract: Contract, judge: Callable[..., Outcome]) -> None:
        """Judge single turns, and all other steps, by `judge`."""
        self.backend, self.contract, self.judge = backend, contract, judge

    def __call__(self, steps: Sequence[Step], case: UpdateSpec) -> Outcome:
        """Judge the parameters of one step."""
        if OPTIMIZERS[case.optimizer].repeated is None:
            return self.judge(steps, case)
        return merged(*(self._judged(step, case) for step in steps))

    def _judged(self, step: Step, case: UpdateSpec) -> Outcome:
        """Judge one parameter: by its last turn, after those before it, if they can be shown."""
        repeated = OPTIMIZERS[case.optimizer].repeated
        assert repeated is not None
        turns = case.hyper_parameters(step.parameter, step.number)[repeated.count]
        earlier = self._earlier(step, case, turns - 1) if turns > 1 else None
        if earlier is None:
            return self.judge([step], case)
        shown = Shown(earlier[1], earlier[0].after.params[0])
        return merged(self._judged(*earlier), self.judge([step], case, shown))

    def _earlier(self, step: Step, case: UpdateSpec, turns: int) -> tuple[Step, UpdateSpec] | None:
        """Update zeros by fewer turns; None where that would show something else."""
        k, page = step.parameter, OPTIMIZERS[case.optimizer]
        plain = case.limits(k, step.number) == Limits() and case.grad_scale_at(step.number) == 1.0
        gradient, before = step.gradients[k], step.before.params[k]
        if not plain or self.contract.store != self.contract.compute:
            return None
        if gradient is None or before.shape != gradient.shape:
            return None
        assert page.repeated is not None
        hyper = page.repeated.shown(case.hyper_parameters(k, step.number), turns)
        small = UpdateSpec(
            case.optimizer, case.dtype, (tuple(before.shape),), case.parameters, case.gradients,
            attribute_pairs(hyper), steps=1,
        )  # fmt: skip
        moments = {name: (t,) for name, t in step.moments(case.optimizer).items() if t is not None}
        count = {"step": (torch.tensor(float(step.count)),)} if page.counted else {}
        state: dict[str, Any] = {**moments, **count} if moments else {}
        after = self._after(small, before, gradient, state)
        if after is None:
            return None
        start = Snapshot((torch.zeros_like(before),), state)
        return Step(0, 0, start, (gradient,), after, step.count, step.updated), small

    def _after(
        self, case: UpdateSpec, before: Tensor, gradient: Tensor, state: dict[str, Any]
    ) -> Snapshot | None:
        """Take one step on another handle; None where it cannot begin from a state."""
        device = self.backend.capabilities().device
        with controlled():
            zeros = [torch.zeros_like(before, device=device)]
            handle = self.backend.optimizer(case.optimizer, zeros, case.settings())
            if state and not callable(getattr(handle, "load", None)):
                return None
            if state:
                handle.load({n: [t.to(device) for t in row] for n, row in state.items()})
            handle.step([gradient.to(device, copy=True)])
        return snapshot(handle)
