"""Wrong group_norm."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import OWN, wrong

STRIDES = "kernels that cut channels by the number of groups in place of their size"
ONE_PASS = "Chan, Golub and LeVeque, 1983; kernels of one pass"
Three = tuple[Tensor, Tensor, Tensor]


def _column(line: Tensor, x: Tensor) -> Tensor:
    return line.view(-1, *(1 for _ in x.shape[2:]))


def _rows(x: Tensor, groups: int) -> Tensor:
    return x.reshape(x.shape[0], groups, -1)


def _scaled(normal: Tensor, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return normal.reshape(x.shape) * _column(gamma, x) + _column(beta, x)


def _normal(x: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return the normal form of the groups, and their roots."""
    row = _rows(x, groups)
    centred = row - row.mean(-1, keepdim=True)
    root = torch.sqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred / root, root


@wrong("group_norm value", "structure", source=STRIDES)
def channels_are_interleaved(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Tensor:
    """Group j has every channel whose number is j modulo the groups."""
    if not x.numel():
        return x.clone()
    size = x.shape[1] // groups
    turned = x.reshape(x.shape[0], size, groups, *x.shape[2:]).transpose(1, 2)
    normal = _normal(turned.reshape(x.shape), groups, eps)[0].reshape(turned.shape)
    return _scaled(normal.transpose(1, 2), x, gamma, beta)


@wrong("group_norm value", "structure", source=OWN)
def parameters_of_a_group(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Tensor:
    """All channels of a group have the parameters of its first."""
    if not x.numel():
        return x.clone()
    size = x.shape[1] // groups
    lines = (line[::size].repeat_interleave(size) for line in (gamma, beta))
    return _scaled(_normal(x, groups, eps)[0], x, *lines)


@wrong("group_norm value", "precision", source=ONE_PASS)
def one_pass_variance(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Tensor:
    """The mean of squares less the square of the mean, which cancels."""
    if not x.numel():
        return x.clone()
    row = _rows(x, groups)
    mean = row.mean(-1, keepdim=True)
    variance = (row.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0)
    return _scaled((row - mean) / torch.sqrt(variance + eps), x, gamma, beta)


@wrong("group_norm value", "value", source="torch.var, whose default divides so")
def divided_by_one_less(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Tensor:
    """The variance is divided by n - 1."""
    if not x.numel():
        return x.clone()
    row = _rows(x, groups)
    mean, n = row.mean(-1, keepdim=True), row.shape[-1]
    variance = (row - mean).square().sum(-1, keepdim=True) / max(n - 1, 1)
    return _scaled((row - mean) / torch.sqrt(variance + eps), x, gamma, beta)


def _pulled_back(g: Tensor, x: Tensor, gamma: Tensor, groups: int, eps: float) -> Three:
    """Return the right dx, and what each channel of each sample gives to dgamma and dbeta."""
    normal, root = _normal(x, groups, eps)
    scaled = _rows(g * _column(gamma, x), groups)
    along = (scaled * normal).mean(-1, keepdim=True)
    dx = (scaled - scaled.mean(-1, keepdim=True) - normal * along) / root
    entries = (g * normal.reshape(x.shape)).flatten(2).sum(-1) if x.dim() > 2 else None
    share = g * normal.reshape(x.shape) if entries is None else entries
    return dx.reshape(x.shape), share, g.flatten(2).sum(-1) if x.dim() > 2 else g


@wrong("group_norm vjp", "gradient", source="kernels of one sample")
def gamma_of_the_first_sample(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Three:
    """The gradient of gamma is that of the first sample."""
    if not x.numel():
        return torch.zeros_like(x), torch.zeros_like(gamma), torch.zeros_like(gamma)
    dx, dgamma, dbeta = _pulled_back(g, x, gamma, groups, eps)
    return dx, dgamma[0], dbeta.sum(0)


@wrong("group_norm vjp", "gradient")
def mean_of_the_cotangent_dropped(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Three:
    """The term through the mean is missing from dx."""
    if not x.numel():
        return torch.zeros_like(x), torch.zeros_like(gamma), torch.zeros_like(gamma)
    dx, dgamma, dbeta = _pulled_back(g, x, gamma, groups, eps)
    scaled, (_, root) = _rows(g * _column(gamma, x), groups), _normal(x, groups, eps)
    more = (scaled.mean(-1, keepdim=True) / root).expand(scaled.shape)
    return dx + more.reshape(x.shape), dgamma.sum(0), dbeta.sum(0)
