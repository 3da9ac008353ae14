"""The inputs of torch's own tests of optimizers, twenty steps each, judged by the pages.

torch's optimizers are judged in fp64, and those of `fast.torch` in fp32, step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import fast.torch
from equivalence.backends import load
from equivalence.backends.torch.optim import TorchOptimizer
from equivalence.cases.call import Recipe, attribute_pairs
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.update import measure_update
from spec.optim import OPTIMIZERS
from tests.turns import of_pages

infos = pytest.importorskip("torch.testing._internal.common_optimizers")

STEPS, SHAPES = 20, ((5, 3), (7,), ())
PAGES = {page.torch: page for page in OPTIMIZERS.values() if page.torch is not None}
FLAGS = ("capturable", "differentiable", "foreach", "fused")
"""What says how torch computes; torch's tests give these beside the hyper-parameters."""


def inputs() -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    """Yield each optimizer with the hyper-parameters of an input, as its page names them."""
    for info in infos.optim_db:
        page = PAGES.get(info.optim_cls.__name__)
        for case in info.optim_inputs_func(device="cpu") if page is not None else ():
            given = {k: v for k, v in case.kwargs.items() if k not in FLAGS}
            if "betas" in given:
                given["beta1"], given["beta2"] = given.pop("betas")
            hyper = {k: float(v) if isinstance(v, Tensor) else v for k, v in given.items()}
            other = {k: v for k, v in hyper.items() if k not in page.arguments}
            if any(other.values()):
                # decoupled_weight_decay makes another page's optimizer of Adam.
                continue
            own = {k: v for k, v in hyper.items() if k in page.arguments}
            yield f"{page.name}-{case.desc or 'default'}", (page.name, own)


INPUTS = dict(inputs())
ONE_BY_ONE = pytest.mark.parametrize("given", of_pages(INPUTS, 4, lambda given: INPUTS[given][0]))


def walk(name: str, dtype: str, hyper: Mapping[str, Any]) -> UpdateSpec:
    page = OPTIMIZERS[name]
    plain = {key: page.tried[key][0] for key in page.required}
    settings = attribute_pairs({**plain, **page.defaults, **hyper})
    return UpdateSpec(
        name, dtype, SHAPES, Recipe("normal", 1), Recipe("normal", 2), settings, STEPS
    )


class OfFast:
    """The optimizers of `fast.torch` as a backend."""

    name = "fast.torch"

    def __init__(self, changed: Mapping[str, Any] | None = None) -> None:
        self.changed = changed or {}

    def capabilities(self) -> Any:
        return load("fast-aten").capabilities()

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        return OfFastHandle(name, params, {**hyper, **self.changed})


class OfFastHandle(TorchOptimizer):
    def _made(self, group: dict[str, Any]) -> torch.optim.Optimizer:
        named = {k: v for k, v in self._named(group).items() if k != "foreach"}
        made: torch.optim.Optimizer = getattr(fast.torch, self.page.torch or "")([named])
        return made


@ONE_BY_ONE
def test_torch_takes_the_pages_steps_in_doubles(given: str) -> None:
    (name, hyper), backend = INPUTS[given], load("torch")
    case = walk(name, "fp64", hyper)
    outcome = measure_update(backend, case, backend.capabilities().contract(name, "fp64"))
    assert not outcome.failed and outcome.judged, outcome.detail


@ONE_BY_ONE
def test_the_classes_for_torch_take_the_pages_steps(given: str) -> None:
    (name, hyper), backend = INPUTS[given], OfFast()
    case = walk(name, "fp32", hyper)
    outcome = measure_update(backend, case, backend.capabilities().contract(name, "fp32"))
    assert not outcome.failed and outcome.judged, outcome.detail


@pytest.mark.parametrize("name", [page.name for page in PAGES.values()])
def test_another_rate_is_told(name: str) -> None:
    backend = OfFast({"lr": 0.0101})
    case = walk(name, "fp32", {"lr": 0.01})
    outcome = measure_update(backend, case, backend.capabilities().contract(name, "fp32"))
    assert outcome.failed and outcome.crash is None


def test_every_optimizer_that_torch_has_too_is_met() -> None:
    assert len(INPUTS) == len([*inputs()]), "two inputs have one name"
    assert {name for name, _ in INPUTS.values()} == {page.name for page in PAGES.values()}
