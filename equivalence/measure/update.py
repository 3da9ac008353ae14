"""Measure one optimizer case: judge every parameter and every state tensor after each step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from equivalence.budgets.outcome import Outcome, merged, mismatch
from equivalence.cases.call import Shape
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.between.turns import Shown, Turns
from equivalence.measure.distinct import Distinct, distinct, judge_kinds
from equivalence.measure.explained.steps import explained_step
from equivalence.measure.reference import Expected, Taken, entered, scaled_gradients
from equivalence.measure.shadow import Step, measure_steps
from equivalence.registry import OPTIMIZERS
from equivalence.worlds.contract import FP64
from spec.tensor import Tensor as SpecTensor

if TYPE_CHECKING:
    from equivalence.budgets.lifting.worlds import World
    from equivalence.worlds.contract import Contract


MOST_ELEMENTS = 4096
"""The most elements of a parameter that an interpreter updates: a few blocks."""

MOST_STEPS = 32
"""The most steps that an interpreter takes."""


def measure_update(backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
    """Run the steps of a case, and judge each of them by the reference."""
    left_out: tuple[str, ...] = ()
    if backend.capabilities().ring == "interpreted":
        case, left_out = shorter(case)
    outcome = measure_steps(backend, case, judging(backend, contract))
    return replace(outcome, left_out=(*outcome.left_out, *left_out))


def shorter(case: UpdateSpec) -> tuple[UpdateSpec, tuple[str, ...]]:
    """Shorten a case for an interpreter, and name the parts that are left out."""
    shapes = tuple(map(_smaller, case.shapes))
    steps = min(case.steps, MOST_STEPS)
    left_out = (
        *((f"interpreted: more than {MOST_ELEMENTS} elements",) if shapes != case.shapes else ()),
        *((f"interpreted: more than {MOST_STEPS} steps",) if steps != case.steps else ()),
    )
    return replace(case, shapes=shapes, steps=steps), left_out


def _smaller(shape: Shape) -> Shape:
    """Shorten the first axis of a shape that has too many elements."""
    if math.prod(shape) <= MOST_ELEMENTS:
        return shape
    return max(1, MOST_ELEMENTS // math.prod(shape[1:])), *shape[1:]


def judging(backend: Any, contract: Contract) -> Turns:
    """Return who judges the steps of a backend."""
    return Turns(backend, contract, Judging(contract))


class Judging:
    """Judges steps by a contract. Parameters of one step share their clipped gradients."""

    def __init__(self, contract: Contract) -> None:
        """Start before the first step."""
        from equivalence.budgets.lifting.worlds import Finite

        self.contract = contract
        self.finite = Finite(contract)
        self.clipped: dict[tuple[int, int], list[Any]] = {}
        self.whole = False
        self.shown: Shown | None = None

    def allowed(self, step: Step, case: UpdateSpec) -> Expected:
        """Return what one step may leave of a parameter and its state, at its distinct elements."""
        self._begin(case)
        return self._expected([(step, self._kinds(step, _held(step, case)))], case)

    def __call__(
        self, steps: Sequence[Step], case: UpdateSpec, shown: Shown | None = None
    ) -> Outcome:
        """Judge the parameters of one step, one alone if it is shown what earlier turns made."""
        self.shown = shown
        alike: dict[Any, list[tuple[Step, Distinct]]] = {}
        self._begin(case)
        for step in steps:
            held = _held(step, case)
            problem = _shape_problem(step, held)
            if problem:
                return mismatch(problem)
            kinds = self._kinds(step, held)
            hyper = tuple(case.hyper_parameters(step.parameter, step.number).items())
            own = step.parameter if self.whole else None
            limits = case.limits(step.parameter, step.number)
            alike.setdefault((hyper, limits, step.count, own, *held), []).append((step, kinds))
        return merged(*(self._judge(found, case) for found in alike.values()))

    def _begin(self, case: UpdateSpec) -> None:
        """Start with a step of a case."""
        self.clipped.clear()
        self.whole = not OPTIMIZERS[case.optimizer].elementwise

    def _kinds(self, step: Step, held: Mapping[str, Tensor]) -> Distinct:
        """Find the elements of a parameter that are alike."""
        return distinct([*held.values(), there(step.gradients[step.parameter])], self.whole)

    def _judge(self, alike: Sequence[tuple[Step, Distinct]], case: UpdateSpec) -> Outcome:
        """Judge parameters with the same settings and step count by one reference step.

        Where entries look at each other, each parameter is judged alone, and keeps its shape.
        """
        expected = self._expected(alike, case)
        outcomes: list[Outcome] = []
        start = 0
        for step, kinds in alike:
            part = slice(start, start + len(kinds.first))
            own = {
                field: None if t is None else SpecTensor((len(kinds.first),), t.data[part])
                for field, t in expected.tensors.items()
            }
            outcome = judge_kinds(step, Expected(own, expected.step), kinds)
            outcomes.append(explained_step(outcome, step, case))
            start = part.stop
        return merged(*outcomes)

    def _expected(self, alike: Sequence[tuple[Step, Distinct]], case: UpdateSpec) -> Expected:
        """Return the allowed numbers after a step, for the distinct elements of all parameters.

        What an entry is left depends on the numbers that it meets. Where a page updates entry by
        entry, those that meet what is finite and small, what is not finite, and what is large are
        looked at apart: beside the others, all of them would be left what only some may be.
        """
        one = alike[0][0]
        columns = {
            field: _joined([kinds.rows(_held(step, case).get(field)) for step, kinds in alike])
            for field in ("parameter", *one.moments(case.optimizer))
        }
        clipped = case.limits(one.parameter, one.number).max_norm is not None
        if self.whole or clipped:
            given = one.gradients if clipped else [s.gradients[s.parameter] for s, _ in alike]
            return self._left(alike, case, columns, given, None)
        gradient = _joined([kinds.rows(there(s.gradients[s.parameter])) for s, kinds in alike])
        parts = _apart(self.contract, [*columns.values(), gradient])
        found = [
            self._left(
                alike,
                case,
                {f: None if t is None else t[part] for f, t in columns.items()},
                [there(gradient)[part]],
                part,
            )
            for part in parts
        ]
        return found[0] if len(found) == 1 else _stitched(found, parts)

    def _left(
        self,
        alike: Sequence[tuple[Step, Distinct]],
        case: UpdateSpec,
        columns: Mapping[str, Tensor | None],
        given: Sequence[Tensor | None],
        part: Tensor | None,
    ) -> Expected:
        """Return the allowed numbers after a step for some of the elements, all if none is told."""
        from equivalence.budgets.oracle import evaluated

        one, shown = alike[0][0], self.shown
        found: list[Expected] = []
        shape = tuple(one.before.params[one.parameter].shape)

        def shaped(entries: Sequence[Any]) -> Any:
            return SpecTensor(shape if self.whole else (len(entries),), entries)

        def run(world: World) -> list[Any]:
            held = {
                f: None if t is None else shaped(self._taken(world, t).data)
                for f, t in columns.items()
            }
            entries: Sequence[Any]
            if part is None:
                gradients = [self._gradient(world, *pair, case) for pair in alike]
                entries = [entry for gradient in gradients for entry in gradient.data]
            else:
                rows = self._taken(world, there(given[0]))
                entries = self._alone(rows, one, case).data
            taken = Taken(
                case.optimizer,
                held.pop("parameter"),
                shaped(entries),
                held,
                one.count,
                case.hyper_parameters(one.parameter, one.number),
                None if shown is None else shown.read(self._taken(world, shown.left)),
            )
            expected = taken.allowed(world, self.contract)
            found.append(expected)
            return list(expected.tensors.values())

        evaluated(
            self.contract,
            [*columns.values(), *given, *(() if shown is None else (shown.left,))],
            run,
            many=True,
            finite=self.finite,
            overflow=self.contract.compute != FP64,
        )
        return found[-1]

    def _gradient(self, world: World, step: Step, kinds: Distinct, case: UpdateSpec) -> Any:
        """Return the gradients of the distinct elements, divided by the scale and clipped."""
        own = there(step.gradients[step.parameter])
        if case.limits(step.parameter, step.number).max_norm is None:
            return self._alone(self._taken(world, there(kinds.rows(own))), step, case)
        places = _places(own)[kinds.first]
        scaled = self._clipped(world, step, case)[step.parameter].data
        return SpecTensor((len(places),), [scaled[place] for place in places])

    def _alone(self, rows: Any, step: Step, case: UpdateSpec) -> Any:
        """Return a gradient whose norm is not clipped: it is divided, and entries are clipped."""
        limits = case.limits(step.parameter, step.number)
        return scaled_gradients([rows], [limits], case.grad_scale_at(step.number))[0]

    def _taken(self, world: World, tensor: Tensor) -> Any:
        """Lift a tensor into a number system, and convert it as a step does."""
        return entered(world.lift(tensor), self.contract)

    def _clipped(self, world: World, step: Step, case: UpdateSpec) -> list[Any]:
        """Clip the gradients of a step. Zeros add nothing to a norm, so one zero stands for all."""
        key = step.number, id(world)
        if key not in self.clipped:
            lifted = [
                None if g is None else self._taken(world, _zero_and_nonzeros(g))
                for g in step.gradients
            ]
            scale = case.grad_scale_at(step.number)
            self.clipped[key] = scaled_gradients(lifted, case.limits_at(step.number), scale)
        return self.clipped[key]


def _apart(contract: Contract, columns: Sequence[Tensor | None]) -> list[Tensor]:
    """Part the positions of some columns by the numbers that meet there.

    A part has the positions at which a product may leave the range, others at which some number is
    not finite, or the rest.
    """
    numbers = torch.stack([column.double() for column in columns if column is not None])
    finite = numbers.isfinite()
    reach = numbers.abs().clamp(min=1.0).where(finite, torch.ones_like(numbers)).prod(0)
    large, special = reach * numbers.numel() > contract.compute.max_finite, ~finite.all(0)
    parts = [torch.nonzero(m).reshape(-1) for m in (~large & ~special, special & ~large, large)]
    return [part for part in parts if len(part)] or parts[:1]


def _stitched(found: Sequence[Expected], parts: Sequence[Tensor]) -> Expected:
    """Put the allowed numbers of several parts back to their positions."""
    order = torch.argsort(torch.cat(list(parts))).tolist()
    tensors: dict[str, Any] = {}
    for field, first in found[0].tensors.items():
        entries = [entry for one in found for entry in one.tensors[field].data] if first else []
        whole = SpecTensor((len(order),), [entries[k] for k in order]) if first else None
        tensors[field] = whole
    return Expected(tensors, found[0].step)


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Concatenate the rows of several parameters. Without any rows, return None."""
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None


def there(tensor: Tensor | None) -> Tensor:
    """Return a tensor that must not be None."""
    assert tensor is not None
    return tensor


def _held(step: Step, case: UpdateSpec) -> dict[str, Tensor]:
    """Return the value of a parameter before a step, and the moments that it had."""
    moments = step.moments(case.optimizer).items()
    found = {field: moment for field, moment in moments if moment is not None}
    return {"parameter": step.before.params[step.parameter], **found}


def _shape_problem(step: Step, held: Mapping[str, Tensor]) -> str:
    """Name a tensor of a parameter whose shape differs from its gradient's, if there is one."""
    shape = there(step.gradients[step.parameter]).shape
    for field, tensor in held.items():
        if tensor.shape != shape:
            came = f"expected shape {list(shape)}, got {list(tensor.shape)}"
            return f"before step {step.number}, {field} of parameter {step.parameter}: {came}"
    return ""


def _zero_and_nonzeros(gradient: Tensor) -> Tensor:
    """Return a zero, followed by the entries of a gradient that are not 0."""
    flat = gradient.reshape(-1)
    return torch.cat([flat.new_zeros(1), flat[flat != 0]])


def _places(gradient: Tensor) -> Any:
    """Return the position of each entry of a gradient in the result of `_zero_and_nonzeros`."""
    nonzero = gradient.reshape(-1).double().numpy() != 0
    return np.where(nonzero, np.cumsum(nonzero), 0)
