"""Extra hyper-parameters: who does not name one is never asked about it, and who does, is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import UnknownBackend, check, declared
from equivalence.backends.protocol import Capabilities
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.declared.inside import all_of
from equivalence.cases.shrink import smaller_updates
from equivalence.cases.strategies import draw_many
from equivalence.cases.updates.design import spoiled_cases, update_specs, update_strata
from equivalence.cases.updates.extras import combinations, idle_at, with_extras
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.sizes import sized_update
from equivalence.runs.results import Row
from equivalence.runs.runner import run_row
from spec.optim import OPTIMIZERS

EXTRA = sorted(name for name, page in OPTIMIZERS.items() if page.extras)


def named(case: UpdateSpec) -> Iterator[str]:
    """Yield the hyper-parameters that a backend sees in a case."""
    settings = case.settings()
    for group in (settings, *settings.get("groups", ())):
        yield from group
    yield from (event.name for event in case.events)


@pytest.mark.parametrize("optimizer", EXTRA)
def test_nobody_is_asked_about_an_extra_that_he_does_not_name(optimizer: str) -> None:
    every = [
        *update_strata(optimizer, "fp32", PAIRS),
        *spoiled_cases(optimizer, "fp32"),
        *draw_many(update_specs(optimizer, "fp32"), 30, 0),
        sized_update(optimizer, "fp32"),
    ]
    assert not {*OPTIMIZERS[optimizer].extras} & {name for case in every for name in named(case)}


@pytest.mark.parametrize("optimizer", EXTRA)
def test_who_names_extras_has_the_same_cases_and_more(optimizer: str) -> None:
    inside, page = all_of(optimizer, "fp32"), OPTIMIZERS[optimizer]
    without = update_strata(optimizer, "fp32", SINGLES)
    cases = update_strata(optimizer, "fp32", SINGLES, inside=inside)
    assert set(without) < set(cases)
    more = [case for case in cases if case not in without]
    _, *on = combinations(optimizer, [*page.extras])
    seen = [dict(pair for pair in case.hyper if pair[0] in page.extras) for case in more]
    assert all(chosen in seen for chosen in on)
    grouped = [dict(own) for case in more for _, own in case.groups]
    for name, values in page.extras.items():
        assert {own[name] for own in grouped if name in own} == {*values}
    drawn = draw_many(update_specs(optimizer, "fp32", inside), 30, 0)
    assert {*page.extras} <= {name for case in drawn for name in named(case)}


@pytest.mark.parametrize("optimizer", EXTRA)
def test_a_failing_case_is_tried_without_its_extras(optimizer: str) -> None:
    case = next(
        case
        for case in update_strata(optimizer, "fp32", SINGLES, inside=all_of(optimizer, "fp32"))
        if {name for name, _ in case.hyper} & {*OPTIMIZERS[optimizer].extras} and not case.groups
    )
    plainer = [{*named(small)} for small in smaller_updates(case)]
    assert {*named(case)} & {*OPTIMIZERS[optimizer].extras} - set.intersection(*plainer)


class Strict:
    """Adam as it was published, whose arguments are those alone; it says what it remembers."""

    name = "strict"

    def __init__(self, *extras: str) -> None:
        self.extras: Any = {"adam": extras} if extras else {}

    def capabilities(self) -> Capabilities:
        return Capabilities({}, declared("torch"), {"adam": ("fp32",)}, extras=self.extras)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        raise NotImplementedError

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> Sequence[Tensor | None]:
        raise NotImplementedError

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        return Handle(params, **hyper)


class Handle:
    """Parameters under it; a group may differ in the same arguments."""

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        start_step: int = 0,
        max_norm: float | None = None,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        usual = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
        self.own = [dict(usual) for _ in params]
        for group in groups:
            told = {name: value for name, value in group.items() if name != "params"}
            assert told.keys() <= usual.keys()
            for k in group["params"]:
                self.own[k] |= told
        self.max_norm, self.counts = max_norm, [start_step] * len(params)
        self.held = [p.detach().clone(memory_format=torch.contiguous_format) for p in params]
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.held]

    def step(self, grads: Sequence[Tensor | None]) -> None:
        there = [g for g in grads if g is not None]
        share: Tensor | float = 1.0
        if self.max_norm is not None and there:
            norm = torch.cat([g.double().flatten() for g in there]).norm().float()
            share = torch.clamp(self.max_norm / (norm + 1e-6), max=1.0)
        for k, g in enumerate(grads):
            if g is not None:
                self.update(k, g * share, **self.own[k])

    def update(
        self,
        k: int,
        g: Tensor,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
    ) -> None:
        self.counts[k] += 1
        p, (m, v), t = self.held[k], self.moments[k], self.counts[k]
        g = g + weight_decay * p if weight_decay else g
        m, v = m + (1 - beta1) * (g - m), beta2 * v + (1 - beta2) * g * g
        root = v.sqrt() / (1 - beta2**t) ** 0.5 + eps
        self.moments[k] = m, v
        p.sub_(lr / (1 - beta1**t) * (m / root))

    def params(self) -> Sequence[Tensor]:
        return self.held

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        first, second = zip(*self.moments, strict=True)
        return {
            "exp_avg": first,
            "exp_avg_sq": second,
            "step": list(map(torch.tensor, self.counts)),
        }


def test_an_older_implementation_is_judged_as_it_was() -> None:
    result = run_row(Strict(), Row("adam", "update", "fp32"), counted=20, seed=0, findings=())
    assert result.status == "conformant", result.failures


def test_who_names_an_extra_and_lacks_it_is_found() -> None:
    result = run_row(
        Strict("maximize"), Row("adam", "update", "fp32"), counted=20, seed=0, findings=()
    )
    assert result.status == "error"
    assert any("maximize" in str(failure) for failure in result.failures)


def test_what_an_older_implementation_holds_of_an_extra_is_its_own_affair() -> None:
    first, *_ = update_strata("adam", "fp32", SINGLES)
    assert idle_at(first, 0, 0) == {"max_exp_avg_sq"}
    assert idle_at(with_extras(first, {"amsgrad": True}), 0, 0) == set()


@pytest.mark.parametrize(
    ("extras", "says"),
    [
        (["maximize"], "extras is no mapping of optimizers to names"),
        ({"adamx": ["maximize"]}, r"extras names what the backend does not offer: .*nearest: adam"),
        ({"adam": "maximize"}, r"a collection, such as \('maximize',\); got 'maximize'"),
        ({"adam": ["maximise"]}, r"unknown extra hyper-parameter 'maximise' \(nearest: maximize\)"),
        ({"adam": ["lr"]}, r"its page has amsgrad, maximize"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_runs(extras: Any, says: str) -> None:
    backend = Strict()
    backend.extras = extras
    with pytest.raises(UnknownBackend, match=says):
        check("strict", backend)


@pytest.mark.parametrize("optimizer", EXTRA)
def test_no_case_comes_twice(optimizer: str) -> None:
    cases = update_strata(optimizer, "fp32", PAIRS, inside=all_of(optimizer, "fp32"))
    assert len(cases) == len({*cases})
