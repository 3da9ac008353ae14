"""Every edge row of every page, by equality: NaN equals NaN, and the zeros differ by their sign.

The rows are run in three worlds: floats, and numbers that are rounded to binary32 and to bfloat16
after every single operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spec.op import AnyTensor, Edge, Op
from spec.ops import OPS
from spec.rounded import BF16, BINARY32, Format, Rounded
from spec.tensor import Nested, tensor

Enter = Callable[[float], Any]


def _rounded(format: Format) -> Enter:
    return lambda number: Rounded(format, float(number))


WORLDS: dict[str, Enter] = {
    "float": float,
    "binary32": _rounded(BINARY32),
    "bfloat16": _rounded(BF16),
}

BEYOND = {("layer_norm", "a constant slice", "bfloat16")}
"""Rows a world's precision cannot meet: the sum of 64 times 1e4 needs more bits than bf16 keeps."""


def rows() -> Iterator[Any]:
    """Yield every row in every world."""
    for op in OPS.values():
        for edge in op.edges:
            for world in WORLDS:
                yield pytest.param(op, edge, world, id=f"{op.name}: {edge.why} ({world})")


def key(number: Any) -> tuple[float, float]:
    """Return what two results must share to be the same: NaN is one number, the zeros are two."""
    plain = float(number.number if isinstance(number, Rounded) else number)
    return (math.inf, math.inf) if math.isnan(plain) else (plain, math.copysign(1.0, plain))


def meets(got: AnyTensor | None, allowed: Nested | None, enter: Enter) -> bool:
    """Compare a result with one allowed result, which enters the world first."""
    if got is None or allowed is None:
        return got is allowed
    read = tensor(allowed)
    return got.shape == read.shape and [key(x) for x in got.data] == [
        key(enter(x)) for x in read.data
    ]


def results(op: Op, edge: Edge, enter: Enter) -> tuple[AnyTensor | None, ...]:
    """Run the row: the value, or the gradients where the row has a cotangent."""
    inputs = [
        tensor(x) if k in op.index_inputs else tensor(x).map(enter)
        for k, x in enumerate(edge.inputs)
    ]
    op.check(*inputs, **edge.attributes)
    if edge.cotangent is None:
        world = {"like": enter(0.0)} if op.kind == "source" else {}
        return (op.value(*inputs, **edge.attributes, **world),)
    return op.vjp(inputs, tensor(edge.cotangent).map(enter), **edge.attributes)


def is_allowed(op: Op, edge: Edge, enter: Enter) -> bool:
    """Whether the results are among those that the row allows."""
    got = results(op, edge, enter)
    choices = [(a,) if edge.cotangent is None else a for a in edge.allowed]
    return any(
        len(got) == len(choice)
        and all(meets(g, a, enter) for g, a in zip(got, choice, strict=True))
        for choice in choices
    )


@pytest.mark.parametrize(("op", "edge", "world"), list(rows()))
def test_an_edge_row_holds(op: Op, edge: Edge, world: str) -> None:
    expected = (op.name, edge.why, world) not in BEYOND
    found = is_allowed(op, edge, WORLDS[world])
    assert found == expected, f"got {results(op, edge, WORLDS[world])}, allowed {edge.allowed}"


def test_every_page_has_edge_rows() -> None:
    assert [op.name for op in OPS.values() if not op.edges] == []


def test_comparison_tells_signs_of_zeros_and_knows_nan() -> None:
    zeros = tensor([0.0, math.nan])
    assert meets(zeros, [0.0, math.nan], float)
    assert not meets(zeros, [-0.0, math.nan], float)
    assert not meets(zeros, [0.0, 0.0], float)
    assert not meets(zeros, [[0.0, math.nan]], float)
    assert meets(tensor([Rounded(BF16, -0.0)]), [-0.0], _rounded(BF16))
    assert not meets(tensor([Rounded(BF16, 0)]), [-0.0], _rounded(BF16))
