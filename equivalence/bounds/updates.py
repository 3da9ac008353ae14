"""Looks for drawn steps of an optimizer whose bounds say something, for each tensor they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from equivalence.backends import declared, load
from equivalence.bounds.found import DRAWN, FAMILY, Best, Bound
from equivalence.bounds.hypotheses import noting
from equivalence.bounds.planted import plant
from equivalence.budgets.outcome import Outcome
from equivalence.cases.strategies import draw_many
from equivalence.cases.updates.spec import UpdateSpec, describe
from equivalence.measure.shadow import Step, parts
from equivalence.measure.update import Judging
from equivalence.registry import OPTIMIZERS
from equivalence.runs.kinds import Updates
from equivalence.runs.results import Row
from equivalence.runs.rows import inside_of
from equivalence.runs.runner import row_seed

BACKEND = "fast-aten"
"""Who takes the steps: the state before one is what its earlier ones have left."""

LOOKED_AT = 2
"""How many parameters of a step are looked at."""


def tensors(optimizer: str) -> tuple[str, ...]:
    """Name what a step leaves: the parameter, and every moment that some settings keep."""
    return ("parameter", *OPTIMIZERS[optimizer].moments)


@cache
def left(optimizer: str, dtype: str, seed: int = 0) -> Mapping[str, Bound | None]:
    """Return a bound of each tensor that a step leaves; None where no step of any case has one.

    The hypotheses are those of the whole step, clipping included.
    """
    row, backend = Row(optimizer, "update", dtype), load(BACKEND)
    kind = Updates(row, inside_of(backend.capabilities(), row))
    found = {name: Best() for name in tensors(optimizer)}
    drawn = draw_many(kind.drawn(), DRAWN, row_seed(seed, row))
    for case in drawn:
        _look(backend, case, found)
    for case in kind.fixed():
        if all(best.narrow for best in found.values()):
            break
        _look(backend, case, found)
    return {name: best.bound() for name, best in found.items()}


def _look(backend: object, case: UpdateSpec, found: Mapping[str, Best]) -> None:
    """Take the steps of a case, and plant errors in what the first parameters are left."""
    judging = Judging(declared(FAMILY)(case.optimizer, case.dtype))

    def planting(steps: Sequence[Step], offered: UpdateSpec) -> Outcome:
        for step in steps[:LOOKED_AT]:
            with noting() as met:
                allowed = judging.allowed(step, offered)
            dtype = step.after.params[step.parameter].dtype
            for name, result in allowed.tensors.items():
                if result is not None and result.data:
                    found[name].offer(describe(offered), plant(result, dtype), met)
        return Outcome()

    for _ in parts(backend, case, planting):
        pass
