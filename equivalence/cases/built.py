"""What a case denotes: its tensors, each in a guard arena of its own, or several in one.

The same case always denotes the same tensors, so that a failing call can be made again anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from equivalence.cases.call import (
    TORCH,
    CaseSpec,
    Recipe,
    Shape,
    dtype_at,
    dtype_of_value,
    integers_of,
)
from equivalence.cases.domains import NARROWEST, domain
from equivalence.cases.fills.indices import fill_indices, fill_mask
from equivalence.cases.fills.regimes import fill
from equivalence.cases.guard import Guarded, core_shape, guard, overlapping
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS


@dataclass(frozen=True, slots=True)
class Built:
    """The tensors of a case, each in its guard arena."""

    case: CaseSpec
    inputs: tuple[Guarded, ...]
    cotangents: tuple[Guarded, ...] = ()
    tangents: tuple[Guarded | None, ...] = ()

    def views(self) -> tuple[torch.Tensor, ...]:
        """Return the inputs as a backend receives them."""
        return tuple(item.view for item in self.inputs)

    @property
    def cotangent(self) -> torch.Tensor | None:
        """The cotangent of the record's one result: those of several, flattened and joined."""
        views = [item.view for item in self.cotangents]
        if OPS[self.case.op].results is None:
            return views[0] if views else None
        return torch.cat([view.reshape(-1) for view in views]) if views else None

    @property
    def device(self) -> str:
        """The device of the tensors; where there are none, that of the host."""
        return next((str(item.view.device) for _, item in self.tensors()), "cpu")

    def check(self) -> None:
        """Raise guard.Trespass if the backend wrote outside its own memory."""
        for position, item in self.tensors():
            item.check(position)

    def tensors(self) -> list[tuple[str, Guarded]]:
        """Name the tensors of the case by their positions."""
        named: list[tuple[str, Guarded | None]] = [
            *((f"input {k}", item) for k, item in enumerate(self.inputs)),
            *(zip(self._positions(), self.cotangents, strict=True)),
            *((f"tangent {k}", item) for k, item in enumerate(self.tangents)),
        ]
        return [(position, item) for position, item in named if item is not None]

    def _positions(self) -> list[str]:
        """Return the positions of the cotangents, if there are any."""
        return [position for position, _ in self.case.cotangents()] if self.cotangents else []


Numbers = Mapping[str, Sequence[float]]
"""Recorded numbers of tensors by their positions, instead of those that their recipes draw."""


Parts = Sequence[tuple[str, Shape, Recipe]]
"""Position, shape and recipe of the tensors of real numbers in a case."""


def build(case: CaseSpec, device: str = "cpu", numbers: Numbers | None = None) -> Built:
    """Construct the tensors that a case denotes."""
    real = _together(case, device, numbers)
    inputs = tuple(
        real[f"input {k}"] if f"input {k}" in real else _index_tensor(case, k, device, numbers)
        for k in range(len(case.shapes))
    )
    if case.tangent is None:
        seeds = case.cotangents() if case.cotangent is not None else ()
        return Built(case, inputs, tuple(real[position] for position, _ in seeds))
    return Built(case, inputs, (), tuple(real.get(f"tangent {k}") for k in range(len(inputs))))


def real_parts(case: CaseSpec) -> Parts:
    """List the tensors of real numbers: inputs, then the cotangents or the tangents."""
    integer = OPS[case.op].index_inputs
    real = [(k, shape) for k, shape in enumerate(case.shapes) if k not in integer]
    parts = [(f"input {k}", shape, case.recipes[k]) for k, shape in real]
    if case.cotangent is not None:
        parts.extend((position, shape, case.cotangent) for position, shape in case.cotangents())
    if case.tangent is not None:
        parts.extend((f"tangent {k}", shape, case.tangent) for k, shape in real)
    return parts


def shared_shape(parts: Parts) -> Shape | None:
    """Return the first shape that several tensors have, None where all shapes differ."""
    shapes = [shape for _, shape, _ in parts]
    return next((shape for k, shape in enumerate(shapes) if shape in shapes[:k]), None)


def allows(case: CaseSpec, calling: str) -> bool:
    """Say whether a case fits a calling pattern: to be shared, a tensor has to fit twice."""
    parts = real_parts(case)
    if OPS[case.op].converts:
        parts = [part for part in parts if not is_cotangent(part[0])]
    return {"shared": shared_shape(parts) is not None, "overlapping": len(parts) > 1}.get(
        calling, True
    )


def _together(case: CaseSpec, device: str, numbers: Numbers | None) -> dict[str, Guarded]:
    """Construct the tensors of real numbers, by their positions."""
    parts = real_parts(case)
    if case.calling in ("shared", "overlapping"):
        if not allows(case, case.calling):
            raise ValueError(f"{case.op}: no two real tensors can be {case.calling} in this case")
        recipe = _narrowest(case, parts)
        parts = [(name, shape, replace(recipe, layout=own.layout)) for name, shape, own in parts]
    if case.calling == "overlapping":
        return _overlapping(case, parts, device, numbers)
    shape = shared_shape(parts) if case.calling == "shared" else None
    found: dict[str, Guarded] = {}
    first: Guarded | None = None
    for position, own, recipe in parts:
        if own == shape and first is not None:
            found[position] = first
            continue
        found[position] = real_tensor(case, recipe, position, own, device, numbers)
        first = found[position] if own == shape else first
    return found


def _narrowest(case: CaseSpec, parts: Parts) -> Recipe:
    """Return the recipe whose numbers suit all tensors: that of the narrowest domain."""
    op, attributes = OPS[case.op], case.attributes()
    inputs = [k for k in range(len(case.shapes)) if k not in op.index_inputs]
    narrowest = min(inputs, key=lambda k: NARROWEST.index(domain(op, k, attributes)))
    return case.recipes[narrowest]


def _overlapping(
    case: CaseSpec, parts: Parts, device: str, numbers: Numbers | None
) -> dict[str, Guarded]:
    """Construct tensors that are views of one allocation."""
    values = [_numbers(case, recipe, name, shape, numbers) for name, shape, recipe in parts]
    forms = [(shape, recipe.layout) for _, shape, recipe in parts]
    placed = overlapping(values, forms, TORCH[case.dtype], device)
    return {position: item for (position, _, _), item in zip(parts, placed, strict=True)}


def real_tensor(
    case: CaseSpec,
    recipe: Recipe,
    position: str,
    shape: Shape,
    device: str,
    numbers: Numbers | None,
) -> Guarded:
    """Construct one tensor of real numbers from its recipe, or from recorded numbers."""
    values = _numbers(case, recipe, position, shape, numbers)
    return guard(values, shape, dtype_at_position(case, position), recipe.layout, device)


def is_cotangent(position: str) -> bool:
    """Tell the position of a result's cotangent from the others."""
    return position.startswith("cotangent")


def dtype_at_position(case: CaseSpec, position: str) -> torch.dtype:
    """Return the dtype of a tensor of real numbers: a cotangent has that of the result."""
    if not is_cotangent(position):
        return TORCH[case.dtype]
    return dtype_of_value(case.op, case.attributes(), case.dtype)


def _numbers(
    case: CaseSpec, recipe: Recipe, position: str, shape: Shape, numbers: Numbers | None
) -> Sequence[float]:
    """Return the numbers that a tensor stores, row-major: recorded ones, or those of its recipe."""
    if numbers is not None:
        return list(numbers[position])
    stored, reach = core_shape(shape, recipe.layout), DTYPES[case.dtype].reach
    return fill(recipe.regime, recipe.seed, position, stored, reach, _axis_of_rows(case, shape))


def _axis_of_rows(case: CaseSpec, shape: Shape) -> int:
    """Return the axis along which an op takes the rows of a tensor: the last where it takes none.

    Of several axes it is the last one; a tensor of another rank than the first input has its own.
    """
    return axis_of_rows(case.attributes(), case.shapes, shape)


def axis_of_rows(attributes: Mapping[str, Any], shapes: Sequence[Shape], shape: Shape) -> int:
    """Return the axis along which a call takes the rows of a tensor of some shape."""
    axis = attributes.get("axis")
    axes = attributes.get("axes") or (-1 if axis is None else axis,)
    return axes[-1] if shapes and len(shape) == len(shapes[0]) else -1


def _index_tensor(case: CaseSpec, k: int, device: str, numbers: Numbers | None) -> Guarded:
    """Construct one tensor of indices, all of them in range, or one mask."""
    shape, recipe, position = case.shapes[k], case.recipes[k], f"input {k}"
    stored = core_shape(shape, recipe.layout)
    if numbers is not None:
        values = [int(number) for number in numbers[position]]
    elif k in OPS[case.op].mask_inputs:
        values = fill_mask(recipe.regime, recipe.seed, position, stored)
    else:
        allowed = integers_of(case, k)
        values = fill_indices(recipe.regime, recipe.seed, position, stored, allowed)
    return guard(values, shape, dtype_at(case.op, k, case.dtype), recipe.layout, device)
