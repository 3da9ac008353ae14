"""Edge rows: the pages' own tables of NaN, infinities, ties and empty axes.

They are judged by membership, never by budget: a result must equal one of the results that the page
allows, NaN for NaN and signed zero for signed zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from equivalence.answers import Malformed, gradients, in_memory, is_plain, several
from equivalence.cases.call import (
    CaseSpec,
    Recipe,
    Shape,
    attribute_pairs,
    dtype_at,
    dtype_of_value,
    handed,
)
from equivalence.cases.declared.plain import plain_numbers
from equivalence.cases.domains import regimes
from equivalence.cases.guard import Guarded, guard
from equivalence.conventions import OURS, Conventions, rows_of
from equivalence.registry import OPS
from spec.op import Edge, Type
from spec.several import unpacked
from spec.tensor import Nested, tensor


def edges(op: str, direction: str) -> list[Edge]:
    """Return the edge rows of one direction of an operation."""
    wanted = direction == "vjp"
    return [edge for edge in OPS[op].edges if (edge.cotangent is not None) == wanted]


def _place(nested: Nested, dtype: torch.dtype, device: str) -> Guarded:
    """Put nested lists in a guard arena."""
    read = tensor(nested)
    return guard(list(read.data), tuple(read.shape), dtype, "contiguous", device)


def _same(got: torch.Tensor, nested: Nested, shape: Shape, signed: bool) -> bool:
    """Compare a result with an allowed one: shape, NaN, numbers, exactly, and signs of zeros."""
    entries = [float(entry) for entry in tensor(nested).data]
    if tuple(got.shape) != shape or math.prod(shape) != len(entries):
        return False
    exact = torch.tensor(entries, dtype=torch.float64).reshape(shape).to(got.dtype)
    both_nan = torch.isnan(got) & torch.isnan(exact)
    equal = got == exact
    if signed:
        equal &= torch.signbit(got) == torch.signbit(exact)
    return bool(torch.all(both_nan | equal))


def _shapes(op: str, edge: Edge) -> list[Shape]:
    """Return the shapes of the results; nested lists cannot tell (0, 2) from (0,)."""
    page = OPS[op]
    types = page.types_at(*(tuple(tensor(nested).shape) for nested in edge.inputs))
    if edge.cotangent is None:
        return [tuple(page.type_rule(*types, **edge.attributes).shape)]
    return [type_.shape for type_ in types]


def call_shapes(op: str, edge: Edge) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Return the shapes of the inputs of an edge's call, and those of its results."""
    inputs = tuple(tuple(tensor(nested).shape) for nested in edge.inputs)
    return inputs, tuple(tuple(each.shape) for each in _types(op, edge).values())


def plain_call(op: str, edge: Edge, direction: str, dtype: str) -> CaseSpec:
    """Return the call of an edge's types whose numbers are plain."""
    shapes, attributes = call_shapes(op, edge)[0], dict(edge.attributes)
    suited = regimes(OPS[op], len(shapes), attributes)
    recipes = tuple(Recipe(among[0]) for among in suited)
    seed = Recipe() if direction == "vjp" else None
    pairs = attribute_pairs(attributes)
    return plain_numbers(CaseSpec(op, direction, dtype, shapes, recipes, pairs, cotangent=seed))


def _types(op: str, edge: Edge) -> Mapping[str, Type]:
    """Return the types of the results of an edge's call."""
    page = OPS[op]
    types = page.types_at(*(tuple(tensor(nested).shape) for nested in edge.inputs))
    return page.types_of_results(*types, **edge.attributes)


def _seeds(op: str, edge: Edge, dtype: str, device: str) -> list[Guarded]:
    """Put the cotangents of an edge in guard arenas, if it has any: one for each result."""
    if edge.cotangent is None:
        return []
    held = dtype_of_value(op, edge.attributes, dtype)
    if OPS[op].results is None:
        return [_place(edge.cotangent, held, device)]
    parts = unpacked(tensor(edge.cotangent), _types(op, edge)).values()
    return [guard(list(x.data), tuple(x.shape), held, "contiguous", device) for x in parts]


def edge_tensors(
    op: str, edge: Edge, dtype: str, device: str
) -> tuple[list[Guarded], list[Guarded]]:
    """Put the inputs of an edge and its cotangents in guard arenas."""
    inputs = [
        _place(nested, dtype_at(op, k, dtype), device) for k, nested in enumerate(edge.inputs)
    ]
    return inputs, _seeds(op, edge, dtype, device)


def _answered(
    backend: Any,
    op: str,
    edge: Edge,
    views: list[torch.Tensor],
    seeds: list[Guarded],
    dtype: str,
) -> list[torch.Tensor | None]:
    """Ask a backend at an edge; several results come joined, as the edge writes them."""
    attributes = handed(op, edge.attributes, dtype)
    if edge.cotangent is not None:
        found = backend.vjp(op, views, attributes, [seed.view for seed in seeds])
        return gradients(op, found, len(views))
    made = backend.value(op, views, attributes)
    if OPS[op].results is None:
        return [is_plain(f"value of {op}", made)]
    types = _types(op, edge)
    listed = several(f"value of {op}", made, list(types))
    for result, (name, each) in zip(listed, types.items(), strict=True):
        if tuple(result.shape) != each.shape:
            shapes = f"{list(each.shape)}, got {list(result.shape)}"
            raise Malformed(f"result {name}: expected shape {shapes}")
    return [torch.cat([result.reshape(-1) for result in listed])]


def _fits(
    results: list[torch.Tensor | None], allowed: Any, shapes: list[Shape], signed: bool
) -> bool:
    """Say whether the results are the ones that an edge row allows."""
    rows = tuple(allowed)
    if not len(rows) == len(results) == len(shapes):
        return False
    return all(
        got is None
        if row is None
        else got is not None and _same(in_memory(got), row, shape, signed)
        for got, row, shape in zip(results, rows, shapes, strict=True)
    )


def edge_problem(
    backend: Any, op: str, edge: Edge, dtype: str, device: str, conventions: Conventions = OURS
) -> str | None:
    """Return what is wrong with a backend of some conventions at an edge, or None."""
    inputs, seeds = edge_tensors(op, edge, dtype, device)
    try:
        results = _answered(backend, op, edge, [item.view for item in inputs], seeds, dtype)
    except Malformed as malformed:
        return f"edge {edge.why!r}: {malformed}"
    for seed in seeds:
        seed.check("the cotangent")
    for k, item in enumerate(inputs):
        item.check(f"input {k}")
    shapes = _shapes(op, edge)
    rows = rows_of(op, edge, conventions)
    if any(_fits(results, row, shapes, conventions.signed_zeros) for row in rows):
        return None
    got = [None if r is None else r.tolist() for r in results]
    shown = got[0] if edge.cotangent is None else got
    attrs = "".join(f", {name}={value!r}" for name, value in edge.attributes.items())
    came = "" if edge.cotangent is None else f" with cotangent {edge.cotangent}"
    taken = ", ".join(_short(nested) for nested in edge.inputs)
    allowed = " or ".join(_short(nested) for nested in edge.allowed)
    return (
        f"edge {edge.why!r} ({edge.source}): {op}({taken}{attrs}){came} "
        f"gave {_short(shown)}; allowed: {allowed}"
    )


def _short(nested: Any) -> str:
    """Show nested lists, the middle of long ones left out."""
    text = str(nested)
    return text if len(text) <= 80 else f"{text[:40]} ... {text[-30:]}"
