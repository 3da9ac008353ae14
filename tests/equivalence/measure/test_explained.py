"""What a failure shows of its cause: only what is true, and numbers that can be read back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.budgets.numerals import shortest
from equivalence.budgets.outcome import Detail
from equivalence.cases.built import build
from equivalence.cases.call import TORCH, CaseSpec, Recipe, case_from_dict
from equivalence.measure.call import measure
from equivalence.measure.explained.common import in_common
from equivalence.measure.explained.needs import needed
from equivalence.measure.explained.places import places
from equivalence.measure.plainly import call_plainly, ways

CONTRACT = declared("torch")("softmax", "fp32")


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16", "fp64"])
def test_a_number_is_read_back_in_its_dtype(dtype: str) -> None:
    source = torch.Generator().manual_seed(0)
    drawn = torch.randn(200, generator=source, dtype=torch.float64)
    scaled = (drawn * 2.0 ** torch.linspace(-30, 14, 200, dtype=torch.float64)).to(TORCH[dtype])
    ends = torch.tensor([0.0, -0.0, 2.0**-14, 1.0, -1.0, math.inf, 0.1]).to(TORCH[dtype])
    for number in (*scaled, *ends):
        text = shortest(float(number), dtype)
        assert torch.equal(torch.tensor(float(text), dtype=TORCH[dtype]), number), text
    assert shortest(float(torch.tensor(0.1, dtype=TORCH[dtype])), dtype) == "0.1"
    assert shortest(math.nan, dtype) == "nan" and shortest(-0.0, dtype) == "-0.0"


def mask(shape: Sequence[int], *where: Any) -> Any:
    found = np.zeros(shape, dtype=bool)
    for place in where:
        found[place] = True
    return found


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (mask((67,), slice(64, None)), "from element 64 on, of 67, beyond the first 64"),
        (mask((200,), slice(192, None)), "from element 192 on, of 200, beyond 3 blocks of 64"),
        (mask((5, 4), 3), "in row 3"),
        (mask((5, 4), (slice(None), 1)), "in column 1"),
        (mask((2, 3, 4), (slice(None), 2)), "from index 2 on, of 3 along axis 1"),
        (mask((8,), slice(1, None, 2)), "where the number of the element is 1 modulo 2"),
        (mask((6,), slice(0, 2)), "up to element 1, of 6"),
        (mask((6,), slice(0, 1)), "at element 0, of 6"),
        (mask((3, 5), (2, slice(3, None))), "from element 13 on, of 15 in row-major order"),
        (mask((9,), 2, 5), None),
        (mask((4, 4), (1, 1), (2, 2)), None),
        (mask((7,), 3), None),
    ],
)
def test_places_are_said_where_they_separate(failing: Any, said: str | None) -> None:
    found = list(places(failing, np.ones_like(failing)))
    if said == "from index 2 on, of 3 along axis 1":
        said = "in index 2 along axis 1"
    assert found[:1] == ([said] if said else [])


def test_an_element_that_nobody_judged_neither_passes_nor_fails() -> None:
    failing, judged = mask((4, 4), (1, 0), (1, 1)), ~mask((4, 4), (1, 2), (1, 3))
    assert list(places(failing, judged)) == ["in row 1"]


X = np.array([[1.0, -2.0, np.nan], [4.0, 5.0, -6.0], [-7.0, 0.0, 9.0], [1.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (np.isnan(X), "they are exactly those where x is NaN"),
        (X == 0, "they are exactly those where x is 0"),
        (X < 0, "they are exactly those where x is negative"),
        (mask((4, 3), 0), "for which, along axis 1, some number of x is NaN"),
        (np.ones((4, 3), dtype=bool), "every one of the 12 judged elements is over budget"),
        (mask((4, 3), (1, 0), (2, 1), (0, 2)), None),
    ],
)
def test_what_is_common_is_said_where_it_separates(failing: Any, said: str | None) -> None:
    found = in_common(failing, np.ones_like(failing), {"x": X})
    assert any(said in line for line in found) if said else found == ()


def test_of_a_row_that_is_reduced_the_row_is_looked_at() -> None:
    failing = np.isnan(X).any(axis=1)
    (said, *_) = in_common(failing, np.ones(4, dtype=bool), {"x": X})
    assert said == "they are exactly those for which, along axis 1, some number of x is NaN"


def test_signs_that_separate_by_chance_are_not_named() -> None:
    x = np.array([1.0, -2.0, 3.0])
    assert in_common(x < 0, np.ones(3, dtype=bool), {"x": x}) == ()


def test_sizes_are_named_where_all_larger_ones_fail() -> None:
    x = np.arange(1.0, 13.0).reshape(3, 4)[:, [2, 0, 3, 1]]
    found = in_common(x > 6.5, np.ones((3, 4), dtype=bool), {"x": x[:, ::-1] * 0, "y": x})
    assert found == ("y is at least 7 there, and at most 6 elsewhere",)


def call(op: str, *shapes: Sequence[int], direction: str = "value", **attrs: Any) -> CaseSpec:
    recipe = ["normal", 0, "contiguous"]
    plain: dict[str, Any] = {"op": op, "direction": direction, "dtype": "fp32", "attrs": attrs}
    plain |= {"shapes": list(shapes), "recipes": [recipe] * len(shapes)}
    return case_from_dict({**plain, "cotangent": recipe} if direction == "vjp" else plain)


def test_an_element_depends_on_what_its_page_reads() -> None:
    row = {(1, 0), (1, 1), (1, 2)}
    found = needed(build(call("softmax", [2, 3])), 0, (1, 2), CONTRACT)
    assert found == {"input 0": row}
    found = needed(build(call("matmul", [2, 3], [3, 4])), 0, (1, 2), CONTRACT)
    assert found == {"input 0": row, "input 1": {(0, 2), (1, 2), (2, 2)}}
    found = needed(build(call("matmul", [2, 3], [3, 4], direction="vjp")), 1, (2, 3), CONTRACT)
    assert found is not None
    assert found["input 0"] == {(0, 2), (1, 2)} and found["cotangent"] == {(0, 3), (1, 3)}
    found = needed(build(call("exp", [4], direction="vjp")), 0, (2,), CONTRACT)
    assert found == {"input 0": {(2,)}, "cotangent": {(2,)}}


class Softmax:
    """A softmax that takes 1 off one result, and may misread a layout or share memory."""

    name = "softmax"

    def __init__(self, at: tuple[int, ...] = (), layouts: bool = False, sharing: bool = False):
        self.at, self.layouts, self.sharing = at, layouts, sharing
        self.held: dict[Any, Tensor] = {}

    def capabilities(self) -> Any:
        from equivalence.backends.protocol import Capabilities

        return Capabilities({"softmax": ("fp32",)}, declared("torch"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Any) -> Tensor:
        (x,) = inputs
        found = torch.softmax(x, attrs.get("axis", -1))
        if self.at:
            found[self.at] -= 1.0
        if self.layouts and not x.is_contiguous():
            found = found.flip(-1)
        if self.sharing:
            return self.held.setdefault(tuple(x.shape), torch.empty_like(found)).copy_(found)
        return found


def detail_of(backend: Any, case: CaseSpec) -> Detail:
    detail = measure(backend, case, CONTRACT).detail
    assert detail is not None
    return detail


def test_a_small_case_is_shown_whole_and_of_a_large_one_the_row() -> None:
    small = detail_of(Softmax((1, 2)), call("softmax", [2, 3]))
    ((name, text),) = small.inputs
    built = build(call("softmax", [2, 3])).views()[0]
    assert name == "input 0" and torch.equal(torch.tensor(eval(text)), built)
    large = detail_of(Softmax((7, 2)), call("softmax", [9, 4]))
    ((name, text),) = large.inputs
    row = build(call("softmax", [9, 4])).views()[0][7]
    assert name == "input 0[7, :]" and torch.equal(torch.tensor(eval(text)), row)
    assert large.index == (7, 2)


def test_of_a_long_row_the_first_numbers_and_the_own_one_are_shown() -> None:
    found = dict(detail_of(Softmax((1, 60)), call("softmax", [2, 65])).inputs)
    assert set(found) == {"input 0[1, 60]", "input 0[1, :]"}
    assert found["input 0[1, :]"].endswith("and 57 more]")


def laid(case: CaseSpec, layout: str, calling: str = "alone") -> CaseSpec:
    recipes = tuple(Recipe(r.regime, r.seed, layout) for r in case.recipes)
    return replace(case, recipes=recipes, calling=calling)


@pytest.mark.parametrize("layout", ["transposed", "padded", "expanded"])
def test_the_numbers_of_a_layout_pass_when_contiguous(layout: str) -> None:
    backend, case = Softmax(layouts=True), laid(call("softmax", [3, 4]), layout)
    assert list(ways(case)) == [("contiguous",)] and measure(backend, case, CONTRACT).failed
    assert not call_plainly(backend, case, CONTRACT, ("contiguous",)).failed
    assert call_plainly(Softmax((0, 0)), case, CONTRACT, ("contiguous",)).failed


def test_the_calling_pattern_is_told_from_the_layout() -> None:
    backend, case = Softmax(sharing=True), laid(call("softmax", [3, 4]), "padded", "late")
    assert list(ways(case)) == [
        ("contiguous",),
        ("called alone",),
        ("contiguous", "called alone"),
    ]
    assert call_plainly(backend, case, CONTRACT, ("contiguous",)).failed
    assert not call_plainly(backend, case, CONTRACT, ("called alone",)).failed


def test_a_plain_case_has_no_plainer_way() -> None:
    assert list(ways(call("softmax", [3]))) == []
