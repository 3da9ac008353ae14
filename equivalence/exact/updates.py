"""Optimizers: several steps from the pages' own kernels, every parameter and moment at each step.

Nothing is synchronized between the steps: both sides go their own way from the first one on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

from equivalence.backends.fast.optim import FastOptimizer
from equivalence.cases.call import Shape, attribute_pairs
from equivalence.cases.covering import SINGLES
from equivalence.cases.declared.inside import Inside
from equivalence.cases.updates.design import update_strata
from equivalence.cases.updates.extras import names_extras
from equivalence.cases.updates.spec import UpdateSpec, describe
from equivalence.exact.literals import meant
from equivalence.exact.numbers import traced
from equivalence.exact.points import Drawn, Form, Point, Verdict, compared
from equivalence.measure.between.events import lacking, tell
from equivalence.measure.reference import scaled_gradients
from equivalence.measure.shadow import offered
from equivalence.registry import OPTIMIZERS
from spec.optim.clip import Limits

DTYPE = "fp32"
"""The dtype of storage, of which the numbers see nothing."""

LARGEST = 1200
"""After how many elements parameters are cut short: a little more than one chunk."""

NORM = 0.5
"""What the norm is clipped to in a case that says nothing of it."""

LATEST = 50
"""After how many updates a case starts at most: pages round beta^t beyond 1200 binary places."""

TURNS = 2
"""How many turns of an iteration an update has at most: each multiplies a number's digits by three,
and a second update begins from those of the first."""

TOLD = ("set_lr", "set_first_lr", "set_hyper", "set_grad_scale")
"""The events that change an argument of a step; whether a norm is clipped is the row's to say."""

NARROW = ("ns_dtype",)
"""The extras by which a kernel stores 16 bits on its way, which no exact number fits."""

CLIPPED, FREE, EXTRAS = "clipped", "update", "extras"
"""The rows of an optimizer: with its gradients clipped by their norm, and without; and the latter
with extra hyper-parameters, bounds of entries and norms of groups.

Whether a norm is clipped is asked of computed numbers, so that the first kind has no bound, and an
extra may ask such a question, too.
"""


def cases(optimizer: str, direction: str, inside: Inside | None = None) -> list[UpdateSpec]:
    """Return the cases of a row: the design in which every level is met, made small.

    inside says which steps a backend takes, if not all.
    """
    designed = map(_readable, update_strata(optimizer, DTYPE, SINGLES, inside=inside))
    own = (case for case in designed if names_extras(case) == (direction == EXTRAS))
    found = dict.fromkeys(_fitted(case, direction) for case in own)
    return [case for case in found if inside is None or inside.takes_case(case)]


def _readable(case: UpdateSpec) -> UpdateSpec:
    """Return a case with few turns, and without extras by which 16 bits are stored on the way."""
    repeated = OPTIMIZERS[case.optimizer].repeated
    count = None if repeated is None else repeated.count

    def kept(pairs: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
        wide = (pair for pair in pairs if pair[0] not in NARROW)
        return tuple((name, min(v, TURNS) if name == count else v) for name, v in wide)

    groups = tuple((members, kept(pairs)) for members, pairs in case.groups)
    return replace(case, hyper=kept(case.hyper), groups=groups)


def _fitted(case: UpdateSpec, direction: str) -> UpdateSpec:
    """Return a case with fewer elements and earlier steps, clipped or not as the row is."""
    hyper = dict(case.hyper)
    hyper["max_norm"] = (case.max_norm or NORM) if direction == CLIPPED else None
    if "start_step" in hyper:
        hyper["start_step"] = min(case.start_step, LATEST)
    events = tuple(event for event in case.events if event.kind in TOLD)
    shapes, left = list[Shape](), LARGEST
    for shape in case.shapes:
        rest = prod(shape[1:])
        shapes.append((max(1, min(shape[0], left // rest)), *shape[1:]) if shape else shape)
        left = max(0, left - prod(shapes[-1]))
    return replace(
        case,
        shapes=tuple(shapes),
        hyper=attribute_pairs(hyper),
        zeroed=(),
        events=events,
        company="alone",
    )


def judged(case: UpdateSpec, seed: int = 0, backend: Any = None) -> Verdict:
    """Compare kernel and page at one point of a case; without a backend it is our own kernel.

    A host may take a root of hyper-parameters as a float, of which nobody knows what it means. So
    where the page takes one, a stranger's steps that differ cannot be read.
    """
    taken = set[str]()

    def steps(point: Point) -> None:
        walk = _Walk(case, point, backend)
        walk.steps()
        taken.update(walk.constants)

    verdict = compared(describe(case), (seed, case.to_json()), steps)
    if backend is None or not taken or not verdict.differences:
        return verdict
    unread = (
        f"{verdict.differences[0]}; the page takes {' and '.join(sorted(taken))} of "
        "hyper-parameters, and a host's float of it cannot be told from other numbers"
    )
    return replace(verdict, differences=(), unread=(*verdict.unread, unread))


class _Walk:
    """The steps of a case on both sides."""

    def __init__(self, case: UpdateSpec, point: Point, backend: Any) -> None:
        self.case, self.point, self.page = case, point, OPTIMIZERS[case.optimizer]
        drawn = self._draw(case.parameters.layout)
        self.handle: Any
        if backend is None:
            memories = [one.memory for one in drawn]
            self.handle = FastOptimizer(case.optimizer, memories, case.settings(), "triton")
        else:
            # It may step where the parameters lie.
            memories = [one.memory.clone() for one in drawn]
            self.handle = backend.optimizer(case.optimizer, memories, case.settings())
            self.case, _ = offered(case, lacking(self.handle, case))
        if self.case.grad_scale != 1.0:
            self.handle.set_grad_scale(self.case.grad_scale)
        self.constants = set[str]()
        self.updated = set[int]()
        self.parameters = [one.numbers for one in drawn]
        self.states = [self.page.init(parameter) for parameter in self.parameters]
        if self.page.counted:
            self.states = [replace(state, step=case.start_step) for state in self.states]

    def _draw(self, layout: str) -> list[Drawn]:
        return self.point.draw(*(Form(shape, layout) for shape in self.case.shapes))

    def steps(self) -> None:
        """Take all steps, and compare after each."""
        for number in range(self.case.steps):
            for event in self.case.before(number):
                tell(self.handle, self.case, event)
            drawn = self._draw(self.case.gradients.layout)
            given = [
                None if (number, k) in self.case.missing else one for k, one in enumerate(drawn)
            ]
            self.handle.step([None if one is None else one.memory for one in given])
            self._follow(number, [None if one is None else one.numbers for one in given])
            self._compare(number)

    def _follow(self, number: int, gradients: list[Any]) -> None:
        """Take the same step by the page."""
        limits = [_meant(limit) for limit in self.case.limits_at(number)]
        scale = Fraction(meant(self.case.grad_scale_at(number)))
        for k, gradient in enumerate(scaled_gradients(gradients, limits, scale)):
            if gradient is not None:
                hyper = self.page.hyper(**_told(self.case.hyper_parameters(k, number)))
                with traced() as trace:
                    self.parameters[k], self.states[k] = self.page.update(
                        self.parameters[k], gradient, self.states[k], hyper
                    )
                self.constants |= trace.constants
                self.updated.add(k)

    def _compare(self, number: int) -> None:
        """Compare parameters, moments and counts."""
        held, when = self.handle.state(), f"after step {number}, "
        for k, expected in enumerate(self.parameters):
            self.point.same(f"{when}parameter {k}", self.handle.params()[k], expected)
            for field in self.page.moments:
                moment, found = getattr(self.states[k], field), held[field][k]
                if moment is not None and found is not None:
                    self.point.same(f"{when}{field} of parameter {k}", found, moment)
                elif moment is not None and k in self.updated:
                    self.point.differs(f"{when}{field} of parameter {k}: there is none")
            if self.page.counted and k in self.updated:
                count = held["step"][k]
                if count is None or int(count) != self.states[k].step:
                    self.point.differs(f"{when}step of parameter {k} is {count}")


def _meant(limits: Limits) -> Limits:
    """Return bounds as the page takes them."""
    norm, value = limits.max_norm, limits.max_value
    return replace(
        limits,
        max_norm=None if norm is None else Fraction(meant(float(norm))),
        max_value=None if value is None else Fraction(meant(float(value))),
    )


def _told(hyper: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyper-parameters as the page takes them: a float is the fraction that it means."""
    return {n: Fraction(meant(v)) if type(v) is float else v for n, v in hyper.items()}
