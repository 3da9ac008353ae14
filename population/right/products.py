"""Right matmul, bmm and linear: other orders, other precisions, other shapes of the same sum."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.curves import CURVES, bent_back
from population.pieces.tensors import back_on_matrices, kept_in, on_matrices
from population.record import right

Three = tuple[Tensor, Tensor, Tensor]


@right("matmul value", "precision")
def blocks_of_the_inner_axis(x: Tensor, y: Tensor) -> Tensor:
    """Blocks of 16 of the inner axis are added one by one."""
    starts = range(0, x.shape[1], 16)
    return torch.stack([x[:, k : k + 16] @ y[k : k + 16] for k in starts]).sum(0)


@right("matmul value", "precision")
def outer_products(x: Tensor, y: Tensor) -> Tensor:
    """Outer products are added one by one."""
    total = torch.zeros((x.shape[0], y.shape[1]), dtype=x.dtype)
    for k in range(x.shape[1]):
        total = total + x[:, k, None] * y[None, k]
    return total


@right("matmul value", "precision", source="split-K products")
def halves_of_the_inner_axis(x: Tensor, y: Tensor) -> Tensor:
    """Two halves of the inner axis are multiplied apart."""
    k = x.shape[1] // 2
    return x[:, :k] @ y[:k] + x[:, k:] @ y[k:]


@right("matmul value", "precision", source="split-K products, reduced in pairs")
def parts_in_pairs(x: Tensor, y: Tensor) -> Tensor:
    """Parts of 16 of the inner axis are multiplied apart, and added in pairs of pairs."""
    parts = [x[:, k : k + 16] @ y[k : k + 16] for k in range(0, max(x.shape[1], 1), 16)]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [a + b for a, b in pairs] + parts[len(parts) // 2 * 2 :]
    return parts[0]


@right("matmul value", "precision")
def from_the_end(x: Tensor, y: Tensor) -> Tensor:
    """The inner axis is walked backwards."""
    return x.flip(1) @ y.flip(0)


@right("matmul", "precision")
def in_double(x: Tensor, y: Tensor) -> Tensor:
    """The product is formed in double, and rounded once."""
    return (x.double() @ y.double()).to(x.dtype)


@right("matmul", "structure")
def transposed(x: Tensor, y: Tensor) -> Tensor:
    """It is the transpose of the transposes' product."""
    return (y.t() @ x.t()).t()


@right("matmul value", "precision", source="emulation of fp32 by nine bf16 products")
def three_parts_of_bf16(x: Tensor, y: Tensor) -> Tensor:
    """Each factor is three bf16 numbers, which hold all of it."""

    def parts(t: Tensor) -> list[Tensor]:
        high = kept_in(t, torch.bfloat16)
        middle = kept_in(t - high, torch.bfloat16)
        return [t - high - middle, middle, high]

    largest = torch.finfo(torch.bfloat16).max
    if not all(bool((t.abs() <= largest).all()) for t in (x, y, x @ y)):
        return x @ y
    total = torch.zeros((x.shape[0], y.shape[1]), dtype=x.dtype)
    for a in parts(x):
        for b in parts(y):
            total = total + a @ b
    return total


@right("matmul vjp", "gradient")
def by_sums_of_products(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Each gradient is a sum of products over an axis of its own."""
    dx = (g[:, None, :] * y[None]).sum(2)
    return dx, (x[:, :, None] * g[:, None, :]).sum(0)


@right("bmm", "structure")
def place_by_place(x: Tensor, y: Tensor) -> Tensor:
    """Each place of the batch is a product of its own."""
    places = [a @ b for a, b in zip(x, y, strict=True)]
    return torch.stack(places) if places else torch.bmm(x, y)


@right("bmm vjp", "gradient")
def batch_by_sums_of_products(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Each gradient is a sum of products over an axis of its own."""
    dx = (g[:, :, None, :] * y[:, None]).sum(3)
    return dx, (x[:, :, :, None] * g[:, :, None, :]).sum(1)


@right("linear value", "precision", source="torch.addmm, and epilogues that begin with the bias")
@on_matrices
def bias_first(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The sum begins with the bias."""
    total = b.expand(x.shape[0], -1).clone()
    for k in range(x.shape[1]):
        total = total + x[:, k, None] * w[None, :, k]
    return total


@right("linear", "value")
@on_matrices
def bias_last(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The bias is added to the finished product."""
    return x @ w.t() + b


@right("linear value", "structure")
@on_matrices
def bias_as_a_column(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The bias is one more column of the weights."""
    ones = torch.ones((x.shape[0], 1), dtype=x.dtype)
    return torch.cat((x, ones), 1) @ torch.cat((w, b[:, None]), 1).t()


@right("linear", "precision")
@on_matrices
def linear_in_double(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """All of it is done in double, and rounded once."""
    return (x.double() @ w.double().t() + b.double()).to(x.dtype)


@right("linear vjp", "gradient")
@back_on_matrices
def bias_by_a_product(g: Tensor, x: Tensor, w: Tensor, b: Tensor) -> Three:
    """The gradient of the bias is a product with ones."""
    return g @ w, (x.t() @ g).t(), torch.ones(g.shape[0], dtype=g.dtype) @ g


@right("matmul value", "dtype", dtypes=("bf16", "fp16"))
def narrow_product_in_double(x: Tensor, y: Tensor) -> Tensor:
    """Narrow factors are multiplied and added up in double."""
    return (x.double() @ y.double()).to(x.dtype)


@right("linear_activation", "precision")
def bent_in_double(x: Tensor, w: Tensor, b: Tensor, *, activation: str) -> Tensor:
    """All of it is done in double, and rounded once."""
    y = x.double() @ w.double().t() + b.double()
    return CURVES[activation](y).to(x.dtype)


@right("linear_activation vjp", "gradient", source="backward passes that save no sum")
def sum_found_again(g: Tensor, x: Tensor, w: Tensor, b: Tensor, *, activation: str) -> Three:
    """The sum is found again, with the bias as one more column of the weights."""
    ones = torch.ones((*x.shape[:-1], 1), dtype=x.dtype)
    y = torch.cat((x, ones), -1) @ torch.cat((w, b[:, None]), 1).t()
    return bent_back(g, y, x, w, activation)
