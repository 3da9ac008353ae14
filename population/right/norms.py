"""Right rms_norm, group_norm and batch_norm, and of sums with a residual: other ways."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import right

EPS = 2.0**-23
Two = tuple[Tensor, Tensor]


def _axes(gamma: Tensor) -> tuple[int, ...]:
    return tuple(range(-gamma.dim(), 0))


@right("rms_norm value", "value")
def torchs_own(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """It is torch's rms_norm."""
    return torch.nn.functional.rms_norm(x, gamma.shape, gamma, eps)


@right("rms_norm", "precision")
def in_double(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """All of it is done in double, and rounded once."""
    wide = x.double()
    over = torch.rsqrt(wide.square().mean(_axes(gamma), keepdim=True) + eps)
    return (wide * over * gamma.double()).to(x.dtype)


@right("rms_norm value", "precision", dtypes=("fp32", "fp64"))
def by_a_root(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """One is divided by the root, of squares that blocks of 16 add up."""
    rows = x.reshape(-1, gamma.numel())
    total = torch.zeros(len(rows), 1, dtype=x.dtype)
    for at in range(0, rows.shape[1], 16):
        total = total + rows[:, at : at + 16].square().sum(1, keepdim=True)
    over = 1 / torch.sqrt(total / gamma.numel() + eps)
    return (rows * over).reshape(x.shape) * gamma


@right("rms_norm vjp", "gradient", dtypes=("bf16", "fp16"))
def by_the_normal_form(g: Tensor, x: Tensor, gamma: Tensor, eps: float = EPS) -> Two:
    """The projection is onto the normal form, and the factor is taken out; all in double."""
    wide, h = x.double(), g.double() * gamma.double()
    over = torch.rsqrt(wide.square().mean(_axes(gamma), keepdim=True) + eps)
    normal = wide * over
    dx = (h - normal * (h * normal).mean(_axes(gamma), keepdim=True)) * over
    dgamma = (g.double() * normal).reshape(-1, *gamma.shape).sum(0)
    return dx.to(x.dtype), dgamma.to(x.dtype)


@right("group_norm", "precision")
def of_groups_in_double(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Tensor:
    """All of it is done in double, and rounded once."""
    if not x.numel():
        return x * 1 + 0 * (gamma.sum() + beta.sum())
    row = x.double().reshape(x.shape[0], groups, -1)
    centred = row - row.mean(-1, keepdim=True)
    normal = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps)
    column = (-1, *(1 for _ in x.shape[2:]))
    z = normal.reshape(x.shape) * gamma.double().view(column) + beta.double().view(column)
    return z.to(x.dtype)


@right("group_norm value", "precision", source="two passes over the mean")
def centred_twice(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> Tensor:
    """Each group is centred twice, so that no rounding of the mean is left."""
    if not x.numel():
        return x.clone()
    row = x.reshape(x.shape[0], groups, -1)
    centred = row - row.mean(-1, keepdim=True)
    centred = centred - centred.mean(-1, keepdim=True)
    normal = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps)
    column = (-1, *(1 for _ in x.shape[2:]))
    return normal.reshape(x.shape) * gamma.view(column) + beta.view(column)


def _over_channels(x: Tensor, lines: tuple[Tensor, ...], training: bool, momentum: float,
                   eps: float) -> tuple[Tensor, ...]:  # fmt: skip
    gamma, beta, mean, var = lines
    axes, column = (0, *range(2, x.dim())), (-1, *(1 for _ in x.shape[2:]))
    if not training:
        normal = (x - mean.view(column)) / torch.sqrt(var + eps).view(column)
        return normal * gamma.view(column) + beta.view(column), mean * 1, var * 1
    n, middle = x.numel() // x.shape[1], x.mean(axes)
    centred = x - middle.view(column)
    rest = centred.mean(axes)
    squares = (centred - rest.view(column)).square().sum(axes)
    normal = (centred - rest.view(column)) / torch.sqrt(squares / n + eps).view(column)
    z = normal * gamma.view(column) + beta.view(column)
    pairs = (mean, middle), (var, squares / (n - 1))
    return z, *(held * (1 - momentum) + new.detach() * momentum for held, new in pairs)


@right("batch_norm", "precision")
def of_channels_in_double(
    x: Tensor, *lines: Tensor, training: bool = True, momentum: float = 0.1, eps: float = 1e-5
) -> tuple[Tensor, ...]:
    """All of it is done in double, each channel centred twice, and rounded once."""
    gamma, beta, *held = (line.double() for line in lines)
    given = (gamma, beta, *(one.detach() for one in held))
    found = _over_channels(x.double(), given, training, momentum, eps)
    return tuple(one.to(x.dtype) for one in found)


@right("batch_norm value", "precision", source="two passes over the mean")
def channels_centred_twice(
    x: Tensor, *lines: Tensor, training: bool = True, momentum: float = 0.1, eps: float = 1e-5
) -> tuple[Tensor, ...]:
    """Each channel is centred twice; beside 16 bits it is all done in fp32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    found = _over_channels(
        x.to(wide), tuple(line.to(wide) for line in lines), training, momentum, eps
    )
    return tuple(one.to(x.dtype) for one in found)


@right("batch_norm vjp", "gradient", source="torch._decomp, native_batch_norm_backward")
def scale_of_the_channel_first(
    seeds: tuple[Tensor, ...],
    x: Tensor,
    *lines: Tensor,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """The weight and the rate of a channel meet before anything is multiplied by them."""
    gamma, _, mean, var = lines
    g, axes, column = seeds[0], (0, *range(2, x.dim())), (-1, *(1 for _ in x.shape[2:]))
    if training:
        mean = x.mean(axes)
        var = (x - mean.view(column)).square().mean(axes)
    centred, rate = x - mean.view(column), 1 / torch.sqrt(var + eps)
    by_beta, dot = g.sum(axes), (g * centred).sum(axes)
    if training:
        n = x.numel() // x.shape[1]
        along = centred * (dot / n * rate * rate).view(column)
        g = g - (by_beta / n).view(column) - along
    by_x = g * (rate * gamma).view(column)
    return by_x, dot * rate, by_beta, *(torch.zeros_like(line) for line in lines[2:])


@right("add_rms_norm", "precision")
def of_a_sum_in_double(x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS) -> Two:
    """All of it is done in double, and each result is rounded once."""
    summed = x.double() + residual.double()
    over = torch.rsqrt(summed.square().mean(_axes(gamma), keepdim=True) + eps)
    return (summed * over * gamma.double()).to(x.dtype), summed.to(x.dtype)


@right("add_rms_norm vjp", "gradient", dtypes=("bf16", "fp16"))
def by_the_normal_form_of_the_sum(
    seeds: Two, x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS
) -> tuple[Tensor, ...]:
    """The sum is found again, and the cotangents meet before they are rounded; all in double."""
    g, h = seeds
    wide, scaled = x.double() + residual.double(), g.double() * gamma.double()
    over = torch.rsqrt(wide.square().mean(_axes(gamma), keepdim=True) + eps)
    normal = wide * over
    dx = (scaled - normal * (scaled * normal).mean(_axes(gamma), keepdim=True)) * over
    dx = (dx + h.double()).to(x.dtype)
    dgamma = (g.double() * normal).reshape(-1, *gamma.shape).sum(0)
    return dx, dx.clone(), dgamma.to(x.dtype)


@right("add_layer_norm value", "precision", source="two passes over the mean")
def of_a_sum_centred_twice(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Two:
    """The sum is centred twice, so that no rounding of the mean is left."""
    summed, axes = x + residual, _axes(gamma)
    centred = summed - summed.mean(axes, keepdim=True)
    centred = centred - centred.mean(axes, keepdim=True)
    root = torch.sqrt(centred.square().mean(axes, keepdim=True) + eps)
    return centred / root * gamma + beta, summed
