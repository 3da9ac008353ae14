"""The smallest case is small: for tails, for padding lanes, and where an attribute names axes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from equivalence.cases.call import CaseSpec, Recipe, attribute_pairs, case_from_dict
from equivalence.cases.shrink import ATTEMPTS, accepted, smaller_calls, smaller_updates, smallest
from equivalence.cases.smaller.extents import lower_extents
from equivalence.cases.updates.levels import plainest
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.registry import OPS

PLAIN = ["integers", 0, "contiguous"]


def call(op: str, *shapes: list[int], direction: str = "value", **attrs: Any) -> CaseSpec:
    plain = {
        "op": op,
        "direction": direction,
        "dtype": "fp32",
        "shapes": list(shapes),
        "recipes": [PLAIN] * len(shapes),
        "attrs": attrs,
    }
    return case_from_dict({**plain, "cotangent": PLAIN} if direction == "vjp" else plain)


def along(case: CaseSpec) -> int:
    """The extent along the axis that a call names, or its last one."""
    shape, attrs = case.shapes[0], case.attributes()
    axes = attrs.get("axes")
    axis = attrs.get("axis", -1) if axes is None else axes[-1] if axes else None
    return shape[axis] if axis is not None and -len(shape) <= axis < len(shape) else 0


def ragged(case: CaseSpec) -> bool:
    """Wrong in padding lanes: the extent is no power of two."""
    return along(case) & (along(case) - 1) > 0


def tailed(case: CaseSpec) -> bool:
    """Wrong in a tail: the extent is more than a block of 64, and no multiple of it."""
    return along(case) > 64 and along(case) % 64 != 0


@pytest.mark.parametrize(
    ("start", "fails", "shapes", "attrs"),
    [
        (call("softmax", [65]), ragged, ((3,),), {}),
        (call("softmax", [1025, 1], axis=0), ragged, ((3,),), {}),
        (call("softmax", [1, 1025], axis=-1), ragged, ((3,),), {}),
        (call("softmax", [2, 1025, 3], axis=-2), ragged, ((3,),), {}),
        (call("softmax", [1000]), tailed, ((65,),), {}),
        (call("softmax", [3, 1000], axis=1), tailed, ((65,),), {}),
        (call("cumsum", [4, 129, 5], axis=1), ragged, ((3,),), {"axis": 0}),
        (call("argmax", [31, 7, 1], axis=0), ragged, ((3,),), {}),
        (call("layer_norm", [17, 65], [65], [65]), ragged, ((3,), (3,), (3,)), {}),
        (call("sum", [1, 65, 1], axes=[0, 1]), ragged, ((3,),), {}),
        (
            call("permute", [1, 65, 1], axes=[2, 1, 0]),
            lambda c: 65 in c.shapes[0],
            ((65,),),
            {"axes": (0,)},
        ),
        (call("concat", [1, 9], [1, 9], axis=1), ragged, ((3,),), {"axis": 0}),
    ],
)
def test_the_smallest_case_is_small(
    start: CaseSpec,
    fails: Callable[[CaseSpec], bool],
    shapes: tuple[tuple[int, ...], ...],
    attrs: dict[str, Any],
) -> None:
    assert accepted(start) and fails(start)
    tried: list[CaseSpec] = []

    def failing(case: CaseSpec) -> bool:
        tried.append(case)
        return fails(case)

    found = smallest(start, failing, smaller_calls)
    assert (found.shapes, found.attributes()) == (shapes, attrs)
    assert len(tried) <= ATTEMPTS and all(map(accepted, tried))


def test_one_of_two_equal_extents_is_made_smaller_alone() -> None:
    found = smallest(
        call("softmax", [33, 33]),
        lambda c: len(c.shapes[0]) == 2 and c.shapes[0][1] > 32,
        smaller_calls,
    )
    assert found.shapes == ((1, 33),)


def test_a_smaller_call_keeps_what_its_calling_pattern_needs() -> None:
    plain = json.loads(call("add", [5], [5]).to_json())
    start = case_from_dict({**plain, "calling": "shared"})
    found = smallest(start, lambda case: case.calling == "shared", smaller_calls)
    assert found.shapes in (((), ()), ((0,), (0,)))


def test_lower_extents_are_those_where_blocks_end() -> None:
    assert lower_extents(1025, 1) == [1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 512, 513, 1024]
    assert lower_extents(1, 1) == [] and lower_extents(2, 1) == [1]
    assert lower_extents(0) == [] and lower_extents(1) == [0]


def test_every_smaller_call_is_one_that_the_page_accepts() -> None:
    for op, shapes in (("softmax", [[1, 4]]), ("matmul", [[1, 3], [3, 1]]), ("mul", [[1, 3], [3]])):
        found = list(smaller_calls(call(op, *shapes)))
        assert found and all(OPS[op].type_rule(*c.types(), **c.attributes()) for c in found)


def test_the_parameter_of_an_update_is_made_smaller() -> None:
    settings = attribute_pairs(plainest("sgd"))
    start = UpdateSpec("sgd", "fp32", ((1025, 3), (2,)), Recipe(), Recipe(), settings)
    found = smallest(
        start, lambda case: any(n > 2 for shape in case.shapes for n in shape), smaller_updates
    )
    assert found.shapes == ((3,),) and found.steps == 1
