"""Patterns of calls: what a backend keeps between calls shows, and a right one notices nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.backends.fast.providers import FastAten
from equivalence.backends.protocol import Capabilities
from equivalence.backends.torch.backend import TorchBackend
from equivalence.cases.built import allows, build
from equivalence.cases.call import CALLING_PATTERNS, CaseSpec, Recipe
from equivalence.measure.call import measure
from spec.ops import tanh

Inputs = Sequence[Tensor]
Product = Callable[[Inputs], Tensor]


def case(calling: str, direction: str = "value", op: str = "mul") -> CaseSpec:
    """Return a call on matrices of normal numbers."""
    recipes = (Recipe("normal", 3), Recipe("normal", 5, "strided"))
    count = 2 if op == "mul" else 1
    return CaseSpec(
        op,
        direction,
        "fp32",
        ((3, 4),) * count,
        recipes[:count],
        cotangent=Recipe("normal", 7) if direction == "vjp" else None,
        tangent=Recipe("normal", 7) if direction == "jvp" else None,
        calling=calling,
    )


class Kept:
    """Products, by a rule that may keep something between calls."""

    name = "kept"

    def __init__(self, product: Product) -> None:
        self.product = product

    def capabilities(self) -> Capabilities:
        return Capabilities({"mul": ("fp32",)}, declared("torch"))

    def value(self, op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Tensor:
        return self.product(inputs)

    def vjp(
        self, op: str, inputs: Inputs, attrs: Mapping[str, Any], cotangents: Inputs
    ) -> list[Tensor]:
        return [self.product((inputs[1], cotangents[0])), self.product((inputs[0], cotangents[0]))]


def right(inputs: Inputs) -> Tensor:
    return inputs[0] * inputs[1]


def one_buffer() -> Product:
    buffer = torch.empty(3, 4)
    return lambda inputs: torch.mul(inputs[0], inputs[1], out=buffer)


def cached(key: Callable[[Tensor], Any]) -> Callable[[], Product]:
    def make() -> Product:
        known: dict[Any, Tensor] = {}
        return lambda inputs: known.setdefault(key(inputs[0]), right(inputs)).clone()

    return make


def first_time_only() -> Product:
    seen: list[int] = []

    def product(inputs: Inputs) -> Tensor:
        seen.append(1)
        return right(inputs) if len(seen) == 1 else right(inputs) + 1

    return product


def squared_twice() -> Product:
    """Take the square for a gradient that is counted twice, where both factors are one tensor."""
    return lambda inputs: right(inputs) * (2 if inputs[0] is inputs[1] else 1)


def by_address() -> Product:
    """Multiply element by element on the assumption that two tensors never share memory."""

    def product(inputs: Inputs) -> Tensor:
        one, two = inputs
        apart = one.untyped_storage().data_ptr() != two.untyped_storage().data_ptr()
        return right(inputs) if apart or one is two else one * one

    return product


@pytest.mark.parametrize(
    ("make", "patterns"),
    [
        (one_buffer, {"late"}),
        (cached(lambda x: tuple(x.shape)), {"repeated"}),
        (cached(lambda x: x.data_ptr()), {"repeated"}),
        (cached(id), {"repeated"}),
        (first_time_only, {"again", "repeated"}),
        (squared_twice, {"shared"}),
        (by_address, {"overlapping"}),
    ],
)
def test_what_is_kept_between_calls_shows(make: Callable[[], Product], patterns: set[str]) -> None:
    """A call alone is right, and the patterns that tell are the ones that were planted for."""
    contract = declared("torch")("mul", "fp32")
    seen = {m for m in CALLING_PATTERNS if measure(Kept(make()), case(m), contract).failed}
    assert seen == patterns


@pytest.mark.parametrize("calling", CALLING_PATTERNS)
@pytest.mark.parametrize("backend", [FastAten(), TorchBackend()], ids=lambda b: b.name)
@pytest.mark.parametrize(
    ("op", "direction"),
    [("mul", "value"), ("mul", "vjp"), ("permute", "value"), (tanh.op.name, "vjp")],
)
def test_a_right_backend_notices_nothing(
    backend: Any, op: str, direction: str, calling: str
) -> None:
    """Also where a result is a view of an input, as that of a permutation may be."""
    asked = case(calling, direction, op)
    if op == "permute":
        asked = CaseSpec(
            op, direction, "fp32", asked.shapes, asked.recipes, (("axes", (1, 0)),), calling=calling
        )
    if not allows(asked, calling):
        pytest.skip("only one tensor of real numbers")
    outcome = measure(backend, asked, backend.capabilities().contract(op, "fp32"))
    assert not outcome.failed
    assert outcome.judged


def test_shared_tensors_are_one_object_and_overlapping_ones_share_memory() -> None:
    shared, apart = build(case("shared", "vjp")), build(case("overlapping", "vjp"))
    assert shared.cotangent is not None
    assert shared.inputs[0].view is shared.inputs[1].view is shared.cotangent
    first, second = (item.view for item in apart.inputs)
    assert first.data_ptr() + 4 == second.data_ptr()
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


@pytest.mark.parametrize("calling", ["shared", "overlapping"])
def test_recorded_numbers_denote_the_same_tensors(calling: str) -> None:
    drawn = build(case(calling, "vjp"))
    numbers = {position: item.numbers() for position, item in drawn.tensors()}
    again = build(case(calling, "vjp"), numbers=numbers)
    for (_, one), (_, two) in zip(drawn.tensors(), again.tensors(), strict=True):
        assert torch.equal(one.view, two.view)


def test_a_case_that_shares_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no two real tensors can be shared"):
        build(case("shared", "value", tanh.op.name))


def test_a_write_to_a_shared_tensor_is_a_trespass() -> None:
    def in_place(inputs: Inputs) -> Tensor:
        return inputs[0].mul_(inputs[1])

    outcome = measure(Kept(in_place), case("shared"), declared("torch")("mul", "fp32"))
    assert outcome.problem is not None
    assert "overwritten" in outcome.problem
