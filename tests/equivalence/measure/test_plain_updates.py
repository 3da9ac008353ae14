"""A failing life of an optimizer, lived again with its numbers in the plain way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.cases.call import Recipe, attribute_pairs
from equivalence.cases.updates.levels import plainest
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.plainly import MOST_STEPS, update_plainly, ways
from equivalence.measure.update import measure_update
from tests.equivalence.backends import declarable


class Keeping(declarable.LargeSteps):
    """Steps by the gradients of the step before where the same tensors come again."""

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        handle = super().optimizer(name, params, hyper)
        known: dict[int, Tensor] = {}
        plain = handle.step

        def step(gradients: Sequence[Tensor | None]) -> None:
            plain([None if g is None else known.get(g.data_ptr(), g) for g in gradients])
            known.update({g.data_ptr(): g.clone() for g in gradients if g is not None})

        handle.step = step  # type: ignore[method-assign]
        return handle


def case(handing: str, layout: str = "contiguous", steps: int = 2) -> UpdateSpec:
    hyper = attribute_pairs({**plainest("sgd"), "lr": 0.5})
    recipe = Recipe("normal", 0, layout)
    return UpdateSpec(
        "sgd", "fp32", ((3, 4), (3, 4)), recipe, recipe, hyper, steps=steps, handing=handing
    )


CONTRACT = declarable.LargeSteps().capabilities().contract("sgd", "fp32")


def test_gradients_of_their_own_are_named_as_what_passes() -> None:
    backend, reused = Keeping(), case("reused")
    assert measure_update(backend, reused, CONTRACT).failed
    (way,) = ways(reused)
    assert way == ("given gradients of their own",)
    assert not update_plainly(backend, reused, CONTRACT, way).failed


def test_the_numbers_stay_where_axes_are_expanded_or_gradients_shared() -> None:
    given = case("shared", "expanded")
    assert list(ways(given))[-1] == ("contiguous", "given gradients of their own")
    seen: list[list[Tensor]] = []

    class Seeing(declarable.LargeSteps):
        def optimizer(self, name: str, params: Sequence[Tensor], hyper: Any) -> Any:
            seen.append([p.clone() for p in params])
            return super().optimizer(name, params, hyper)

    assert not measure_update(Seeing(), given, CONTRACT).failed
    for way in ways(given):
        assert not update_plainly(Seeing(), given, CONTRACT, way).failed
    assert all(torch.equal(a, b) for other in seen for a, b in zip(other, seen[0], strict=True))


def test_a_long_life_is_not_lived_again() -> None:
    assert list(ways(case("reused", steps=MOST_STEPS + 1))) == []
