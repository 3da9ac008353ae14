"""Clipping by value and by groups: who names neither is not asked, and wrong orders are found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
from torch import Tensor

from equivalence.backends import declared, load
from equivalence.backends.fast.optim import FastOptimizer
from equivalence.backends.protocol import Capabilities
from equivalence.cases.covering import PAIRS
from equivalence.cases.declared.inside import Inside, all_of
from equivalence.cases.shrink import smaller_updates
from equivalence.cases.sizes import sized_from_dict
from equivalence.cases.strategies import draw_many
from equivalence.cases.updates.clipping import CLIPPING, VALUES, clipped_apart
from equivalence.cases.updates.design import spoiled_cases, update_specs, update_strata
from equivalence.cases.updates.spec import UpdateSpec, update_from_dict
from equivalence.measure.sizes import measure_sized_update, sized_extras, sized_update
from equivalence.measure.update import measure_update
from equivalence.runs.results import Row
from equivalence.runs.sized import SizedUpdates
from spec.optim import OPTIMIZERS


def bounds(case: UpdateSpec) -> Iterator[str]:
    """Name what a case asks for that only some handles know."""
    settings = case.settings()
    for group in settings.get("groups", ()):
        yield from {"max_norm": "group_norms"}.keys() & group.keys()
        yield from {"max_value"} & group.keys()
    yield from {"max_value"} & settings.keys()


def every(optimizer: str, inside: Inside | None = None) -> list[UpdateSpec]:
    return [
        *update_strata(optimizer, "fp32", PAIRS, inside=inside),
        *spoiled_cases(optimizer, "fp32"),
        *draw_many(update_specs(optimizer, "fp32", inside), 60, 0),
        sized_update(optimizer, "fp32"),
    ]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_nobody_is_asked_about_clipping_that_he_does_not_name(optimizer: str) -> None:
    assert not {name for case in every(optimizer) for name in bounds(case)}


def test_who_names_one_of_them_is_asked_about_it_alone() -> None:
    for name, asked in zip(CLIPPING, ({"max_value"}, {"max_norm"}), strict=True):
        found = every("sgd", Inside(None, "update", "fp32", (name,)))
        assert {one for case in found for one in bounds(case)} == asked
    found = every("sgd", all_of("sgd", "fp32"))
    assert {one for case in found for one in bounds(case)} == {"max_value", "max_norm"}
    assert set(every("sgd")[:50]) <= set(found)


def test_a_case_is_read_back_and_made_smaller() -> None:
    for case, _ in clipped_apart("adam", "fp32", CLIPPING):
        assert update_from_dict(json.loads(case.to_json())) == case
        assert all(set(bounds(small)) <= set(bounds(case)) for small in smaller_updates(case))
        if "max_value" in case.settings():
            assert any("max_value" not in small.settings() for small in smaller_updates(case))


class Right(FastOptimizer):
    """Our own handle."""

    def __init__(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(name, params, self.told(hyper), "aten")
        self.hyper = hyper

    def told(self, hyper: Mapping[str, Any]) -> Mapping[str, Any]:
        return hyper


class ClippedBeforeTheScale(Right):
    def set_grad_scale(self, grad_scale: float) -> None:
        super().set_grad_scale(grad_scale)
        if self.hyper.get("max_value") is not None:
            self._held.set_max_value(self.hyper["max_value"] / grad_scale)


class OneNorm(Right):
    def told(self, hyper: Mapping[str, Any]) -> Mapping[str, Any]:
        groups = [
            {name: value for name, value in group.items() if name != "max_norm"}
            for group in hyper.get("groups", ())
        ]
        return {**hyper, "groups": groups}


class UsualValue(Right):
    def told(self, hyper: Mapping[str, Any]) -> Mapping[str, Any]:
        groups = [
            {name: value for name, value in group.items() if name != "max_value"}
            for group in hyper.get("groups", ())
        ]
        return {**hyper, "groups": groups}


class NoValue(Right):
    def told(self, hyper: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: value for name, value in hyper.items() if name != "max_value"}


class NormFirst(Right):
    """It clips the norm of everything in its own copies, and hands these on to be clamped."""

    def told(self, hyper: Mapping[str, Any]) -> Mapping[str, Any]:
        self.norm = hyper.get("max_norm")
        return {name: value for name, value in hyper.items() if name != "max_norm"}

    def step(self, grads: Sequence[Tensor | None]) -> None:
        if self.norm is not None:
            total = sum(float(g.double().square().sum()) for g in grads if g is not None) ** 0.5
            share = min(1.0, self.norm / (total / self._grad_scale + 1e-6))
            grads = [None if g is None else g * share for g in grads]
        super().step(grads)


class GroupCountsTwice(Right):
    """The gradients of a group with a norm of its own count in the others' norm as well."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        bound, groups = self.hyper.get("max_norm"), self.hyper.get("groups", ())
        apart = {k for group in groups if "max_norm" in group for k in group["params"]}
        if bound is not None and apart:
            squares = [0.0 if g is None else float(g.double().square().sum()) for g in grads]
            inner = sum(s for k, s in enumerate(squares) if k not in apart) ** 0.5
            self._held.set_max_norm(bound * inner / sum(squares) ** 0.5)
        super().step(grads)


class ForgottenByNesterov(Right):
    """A group with nesterov loses the bound of its entries; no usual setting has it."""

    def told(self, hyper: Mapping[str, Any]) -> Mapping[str, Any]:
        groups = [
            {name: v for name, v in group.items() if name != "max_value" or not group["nesterov"]}
            if "nesterov" in group
            else group
            for group in hyper.get("groups", ())
        ]
        return {**hyper, "groups": groups}


class Backend:
    """A backend of one kind of handle."""

    name = "clipping"

    def __init__(self, made: type[Right]) -> None:
        self.made = made

    def capabilities(self) -> Capabilities:
        return Capabilities({}, declared("torch"), {"sgd": ("fp32",)}, extras={"sgd": CLIPPING})

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        return self.made(name, params, hyper)


def failing(made: type[Right]) -> list[str]:
    """Return the cases, in words, that a handle fails."""
    contract = declared("torch")("sgd", "fp32")
    found = []
    for case, levels in clipped_apart("sgd", "fp32", CLIPPING):
        if measure_update(Backend(made), case, contract).failed:
            found.append(str(levels["case"]))
    return found


@pytest.mark.parametrize("name", ["torch", "fast-aten"])
def test_a_step_without_any_gradient_has_nothing_to_clip(name: str) -> None:
    case, _ = next(clipped_apart("sgd", "fp32", CLIPPING))
    assert "max_value" in case.settings()
    bare = replace(case, missing=tuple((1, k) for k in range(len(case.shapes))))
    backend = load(name)
    found = measure_update(backend, bare, backend.capabilities().contract("sgd", "fp32"))
    assert not found.failed and not found.crash and found.judged


WRONG = [ClippedBeforeTheScale, OneNorm, UsualValue, NoValue, NormFirst, GroupCountsTwice]


def test_a_fault_of_two_levels_is_found_where_every_two_meet() -> None:
    assert failing(ForgottenByNesterov) == [
        "every two levels of hyper-parameters, extras and bounds"
    ]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_bounds_and_extras_meet_each_other_and_every_hyper_parameter(optimizer: str) -> None:
    page, names = OPTIMIZERS[optimizer], (*CLIPPING, *OPTIMIZERS[optimizer].extras)
    (case,) = (
        case
        for case, levels in clipped_apart(optimizer, "fp32", names)
        if str(levels["case"]).startswith("every two")
    )
    met: set[tuple[tuple[str, object], ...]] = set()
    for k in range(len(case.shapes)):
        bounds = case.limits(k, 0)
        own = case.hyper_parameters(k)
        own |= {"max_value": bounds.max_value, "max_norm": bounds.max_norm}
        met |= {*combinations(sorted(own.items()), 2)}
    asked = {**page.extras, "max_value": VALUES, "max_norm": (None, 0.5, 1.0)}
    for (one, its), (other, theirs) in combinations(sorted({**page.tried, **asked}.items()), 2):
        if one in asked or other in asked:
            assert {((one, x), (other, y)) for x, y in product(its, theirs)} <= met, (one, other)


def test_the_right_order_passes() -> None:
    assert failing(Right) == []


@pytest.mark.parametrize("made", WRONG)
def test_a_planted_fault_is_found(made: type[Right]) -> None:
    assert failing(made)


def test_large_steps_are_clipped_entry_by_entry() -> None:
    (case,) = sized_extras("sgd", "fp32", CLIPPING)
    case = replace(case, shapes=((9_001,), (700,), (3, 5)))
    contract = declared("torch")("sgd", "fp32")
    found = measure_sized_update(Backend(Right), case, contract)
    assert not found.failed and found.judged == 2 * (9_001 + 700 + 15)
    for made in (NoValue, UsualValue):
        assert measure_sized_update(Backend(made), case, contract).failed


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_who_names_extras_takes_large_steps_by_all_of_them(optimizer: str) -> None:
    row, page = Row(optimizer, "update", "fp32"), OPTIMIZERS[optimizer]
    (plain,) = SizedUpdates(row).fixed()
    first, extra = SizedUpdates(row, all_of(optimizer, "fp32")).fixed()
    assert first == plain
    assert {*page.extras, "max_value"} <= dict(extra.case.hyper).keys()
    assert sized_from_dict(json.loads(extra.to_json())) == extra
