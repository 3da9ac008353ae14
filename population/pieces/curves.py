"""The curves of a linear layer, in torch, and what goes back through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

CURVES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def bent_back(
    g: Tensor, y: Tensor, x: Tensor, w: Tensor, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a linear layer whose results y a curve has bent, in double."""
    with torch.enable_grad():
        wide = y.detach().double().requires_grad_()
        (back,) = torch.autograd.grad(CURVES[activation](wide), wide, g.double())
    rows, inputs = back.reshape(-1, back.shape[-1]), x.double().reshape(-1, x.shape[-1])
    dx = (rows @ w.double()).reshape(x.shape)
    return dx.to(x.dtype), (rows.t() @ inputs).to(x.dtype), rows.sum(0).to(x.dtype)
