"""Wrong normalizers of a sum with a residual."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, rms_norm

from population.record import OWN, wrong

PRE_NORM = "transformers' blocks before the norm, whose sum goes on as the residual"
STORED = "kernels that read back the sum that they have stored"
IN_PLACE = "kernels of inference, which add to the residual in place"
FUSED = "rms_norm's backward reused for the fused kernel"
EPS, LAYER_EPS = 2.0**-23, 1e-5
Pair = tuple[Tensor, Tensor]
Gradients = tuple[Tensor, ...]


@wrong("add_rms_norm value", "value", source=OWN)
def statistics_of_x(x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS) -> Pair:
    """The root is that of x, and the sum is divided by it."""
    axes, summed = tuple(range(-gamma.dim(), 0)), x + residual
    over = torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)
    return summed * over * gamma, summed


@wrong("add_rms_norm value", "value", source=PRE_NORM)
def residual_as_it_came(x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS) -> Pair:
    """The second result is the residual, without x."""
    return rms_norm(x + residual, gamma.shape, gamma, eps), residual.clone()


@wrong("add_rms_norm value", "value", source="blocks with the norm after the sum")
def residual_of_the_normal_form(
    x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS
) -> Pair:
    """The residual is added to what was normalized."""
    z = rms_norm(x + residual, gamma.shape, gamma, eps)
    return z, z + residual


@wrong("add_rms_norm value", "dtype", dtypes=("bf16", "fp16"), source=STORED)
def of_the_rounded_sum(x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS) -> Pair:
    """The sum is rounded to 16 bits before it is normalized."""
    summed = x + residual
    wide = summed.float()
    axes = tuple(range(-gamma.dim(), 0))
    over = torch.rsqrt(wide.square().mean(axes, keepdim=True) + eps)
    return (wide * over * gamma.float()).to(x.dtype), summed


@wrong("add_rms_norm value", "aliasing", source=IN_PLACE)
def added_in_place(x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS) -> Pair:
    """The residual that was handed in becomes the sum."""
    summed = residual.add_(x)
    return rms_norm(summed, gamma.shape, gamma, eps), summed


def _of_rms(g: Tensor, summed: Tensor, gamma: Tensor, eps: float) -> Pair:
    """Return the gradients of rms_norm."""
    axes = tuple(range(-gamma.dim(), 0))
    over = torch.rsqrt(summed.square().mean(axes, keepdim=True) + eps)
    scaled = g * gamma
    along = (scaled * summed).mean(axes, keepdim=True) * over**3
    dgamma = (g * (summed * over)).reshape(-1, *gamma.shape).sum(0)
    return scaled * over - summed * along, dgamma


@wrong("add_rms_norm vjp", "gradient", source=FUSED)
def cotangent_of_the_sum_ignored(
    seeds: Pair, x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS
) -> Gradients:
    """What comes to the sum goes no further."""
    dx, dgamma = _of_rms(seeds[0], x + residual, gamma, eps)
    return dx, dx.clone(), dgamma


@wrong("add_rms_norm vjp", "gradient", source=OWN)
def residual_receives_no_cotangent_of_the_sum(
    seeds: Pair, x: Tensor, residual: Tensor, gamma: Tensor, eps: float = EPS
) -> Gradients:
    """The cotangent of the sum reaches x alone."""
    dx, dgamma = _of_rms(seeds[0], x + residual, gamma, eps)
    return dx + seeds[1], dx, dgamma


@wrong("add_layer_norm value", "value", source=OWN)
def mean_of_x(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, eps: float = LAYER_EPS
) -> Pair:
    """The mean that is subtracted is that of x."""
    axes, summed = tuple(range(-gamma.dim(), 0)), x + residual
    centred = summed - x.mean(axes, keepdim=True)
    root = torch.sqrt(centred.square().mean(axes, keepdim=True) + eps)
    return centred / root * gamma + beta, summed


def _of_layers(g: Tensor, h: Tensor, summed: Tensor, gamma: Tensor, eps: float) -> Gradients:
    """Return the gradients of layer_norm, whose scaled cotangent has h added to it."""
    axes = tuple(range(-gamma.dim(), 0))
    centred = summed - summed.mean(axes, keepdim=True)
    root = torch.sqrt(centred.square().mean(axes, keepdim=True) + eps)
    normal, scaled = centred / root, g * gamma + h
    along = (scaled * normal).mean(axes, keepdim=True)
    dx = (scaled - scaled.mean(axes, keepdim=True) - normal * along) / root
    down = [t.reshape(-1, *gamma.shape).sum(0) for t in (g * normal, g)]
    return dx, *down


@wrong("add_layer_norm vjp", "gradient", source=OWN)
def cotangents_joined_before_the_norm(
    seeds: Pair, x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor,
    eps: float = LAYER_EPS,
) -> Gradients:  # fmt: skip
    """The cotangent of the sum goes back through the norm as well."""
    dx, *others = _of_layers(*seeds, x + residual, gamma, eps)
    return dx, dx.clone(), *others


@wrong("add_layer_norm vjp", "gradient", source="residual streams counted twice")
def cotangent_of_the_sum_twice(
    seeds: Pair, x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor,
    eps: float = LAYER_EPS,
) -> Gradients:  # fmt: skip
    """The residual receives the cotangent of the sum from either term."""
    g, h = seeds
    dx, *others = _of_layers(g, torch.zeros_like(h), x + residual, gamma, eps)
    return dx + h, dx + 2 * h, *others


@wrong("add_layer_norm value", "sizes", source="loops that keep the first block alone")
def sum_of_the_first_block(
    x: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, eps: float = LAYER_EPS
) -> Pair:
    """Of a row over 256 entries, the sum is stored of the first 256; behind them lies x."""
    z = layer_norm(x + residual, gamma.shape, gamma, beta, eps)
    behind = torch.arange(gamma.numel()).view(gamma.shape) >= 256
    return z, torch.where(behind, x, x + residual)
