"""Right gather, embedding and one_hot: other ways to read by numbers and to write them down."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import right


@right("gather value", "value")
def by_advanced_indexing(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The input is indexed by the places of the result, with the indices for one of them."""
    at = list(torch.meshgrid(*map(torch.arange, indices.shape), indexing="ij"))
    at[axis] = indices
    return x[tuple(at)]


@right("gather vjp", "precision")
def collected_in_double(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Cotangents of one entry are added up in double, the last one first."""
    zeros = torch.zeros(x.shape, dtype=torch.float64)
    order = indices.flip(axis), g.double().flip(axis)
    return zeros.scatter_add(axis, *order).to(x.dtype), None


@right("embedding value", "value")
def rows_indexed(indices: Tensor, weight: Tensor) -> Tensor:
    """The weight is indexed."""
    return weight[indices].clone()


@right("embedding vjp", "precision")
def rows_sorted(g: Tensor, indices: Tensor, weight: Tensor) -> tuple[None, Tensor]:
    """Cotangents are sorted by their rows, and added up in double."""
    flat = indices.reshape(-1)
    order = torch.argsort(flat, stable=True)
    rows = g.reshape(flat.numel(), weight.shape[1]).double()[order]
    zeros = torch.zeros(weight.shape, dtype=torch.float64)
    return None, zeros.index_add(0, flat[order], rows).to(weight.dtype)


@right("one_hot", "structure")
def ones_scattered(indices: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Ones are written into zeros."""
    zeros = torch.zeros((*indices.shape, classes), dtype=dtype)
    return zeros.scatter(-1, indices[..., None], 1.0)
