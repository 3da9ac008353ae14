"""Torch's normalizers, called as the pages are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor


def _layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    return functional.layer_norm(x, gamma.shape, gamma, beta, eps)


def _rms_norm(x: Tensor, gamma: Tensor, eps: float = 2**-23) -> Tensor:
    return functional.rms_norm(x, gamma.shape, gamma, eps)


def _add_layer_norm(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    summed = x + residual
    return _layer_norm(summed, gamma, beta, eps), summed


def _add_rms_norm(
    x: Tensor, residual: Tensor, gamma: Tensor, eps: float = 2**-23
) -> tuple[Tensor, Tensor]:
    summed = x + residual
    return _rms_norm(summed, gamma, eps), summed


def _group_norm(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float = 1e-5) -> Tensor:
    return torch.group_norm(x, groups, gamma, beta, eps)


def _batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Let torch write the running statistics into copies; beside 16 bits, lines are fp32.

    So torch's modules keep them under autocast. In 16 bits it would keep sums in those.
    """
    kept = torch.promote_types(x.dtype, torch.float32)
    mean, var = (line.detach().to(kept, copy=True) for line in (running_mean, running_var))
    lines = gamma.to(kept), beta.to(kept)
    z = functional.batch_norm(x, mean, var, *lines, training, momentum, eps)
    return z, mean.to(x.dtype), var.to(x.dtype)


NORMS: Mapping[str, Callable[..., Any]] = {
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "add_layer_norm": _add_layer_norm,
    "add_rms_norm": _add_rms_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
}
"""By op: the call that returns what the page does."""
