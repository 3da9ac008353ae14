"""Wrong losses of pairs, beside mse_loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from population.pieces.tensors import of_triplets, scored, shared
from population.record import wrong

TORCH = "https://github.com/pytorch/pytorch/"
KERAS = "https://github.com/keras-team/keras-core/issues/196"
CANDLE = "https://github.com/huggingface/candle/issues/2561"
LIGER = "https://github.com/linkedin/Liger-Kernel/pull/262"
BATCH = "means over the batch"
ABS = "https://github.com/pytorch/pytorch/pull/1792"


@wrong("mae_loss vjp", "ties", source="a sign by a comparison")
def equal_pairs_pull(
    g: Tensor, x: Tensor, y: Tensor, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """Where the two are equal the rate is -1."""
    share = shared(g, x, reduction)
    slope = torch.where(x > y, share, -share)
    return slope, -slope


@wrong("mae_loss value", "value", source=BATCH)
def mean_over_the_batch(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """The mean divides by the rows of a matrix of two columns or more."""
    losses = (x - y).abs()
    rows = x.shape[0] if x.dim() > 1 else x.numel()
    return losses.sum() / rows if reduction == "mean" else scored(losses, reduction)


@wrong("huber_loss value", "value", source="Huber and smooth L1 taken for one another")
def divided_by_delta(x: Tensor, y: Tensor, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """It is smooth_l1_loss, which is delta times smaller."""
    return functional.smooth_l1_loss(x, y, reduction=reduction, beta=delta)


@wrong("huber_loss vjp", "gradient", source="a clamp of the result")
def beyond_delta_flat(
    g: Tensor, x: Tensor, y: Tensor, delta: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """Beyond delta the gradient is 0."""
    d = x - y
    slope = torch.where(d.abs() > delta, 0.0, d) * shared(g, x, reduction)
    return slope, -slope


@wrong("smooth_l1_loss value", "value", source=TORCH + "pull/17447")
def jumps_at_beta(x: Tensor, y: Tensor, beta: float = 1.0, reduction: str = "mean") -> Tensor:
    """A beta other than 1 moves the border between the pieces, which no longer meet."""
    far = (x - y).abs()
    return scored(torch.where(far < beta, 0.5 * far * far, far - 0.5), reduction)


@wrong("smooth_l1_loss value", "precision", source="a quotient by a reciprocal in 16 bits")
def huber_loss_over_a_rounded_beta(
    x: Tensor, y: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """It is the Huber loss over beta, whose reciprocal has 16 bits."""
    far = (x - y).abs()
    if not beta:
        return scored(far, reduction)
    share = float(torch.tensor(1 / beta).bfloat16())
    huber = torch.where(far <= beta, 0.5 * far * far, beta * (far - 0.5 * beta))
    return scored(huber * share, reduction)


@wrong("smooth_l1_loss value", "value")
def linear_piece_a_whole_beta_lower(
    x: Tensor, y: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """The linear piece subtracts beta, not its half."""
    far = (x - y).abs()
    if not beta:
        return scored(far, reduction)
    return scored(torch.where(far < beta, 0.5 * far * far / beta, far - beta), reduction)


@wrong("smooth_l1_loss vjp", "gradient", source=TORCH + "issues/96813")
def equal_pairs_over_zero(
    g: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """With a beta of 0, the rate where the two are equal is 0 / 0."""
    d = x - y
    slope = torch.where(d.abs() > beta, torch.sign(d), d / torch.tensor(beta, dtype=x.dtype))
    slope = slope * shared(g, x, reduction)
    return slope, -slope


@wrong("bce_with_logits value", "range", source=CANDLE)
def logarithms_of_the_curve(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The logarithms are of a sigmoid, which is 0 or 1 far out."""
    p = torch.sigmoid(x)
    return scored(-(target * p.log() + (1 - target) * (1 - p).log()), reduction)


@wrong("bce_with_logits value", "range", source=KERAS)
def probabilities_clipped(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Probabilities are clipped to [1e-7, 1 - 1e-7] before their logarithms."""
    p = torch.sigmoid(x).clamp(1e-7, 1 - 1e-7)
    return scored(-(target * p.log() + (1 - target) * (1 - p).log()), reduction)


@wrong("bce_with_logits", "gradient", source=ABS)
def kink_at_zero(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The gradient goes through |x| and max(x, 0), whose rates at 0 are 0."""
    losses = torch.relu(x) - x * target + torch.log1p(torch.exp(-x.abs()))
    return scored(losses, reduction)


def _divergences(x: Tensor, p: Tensor, logarithm: Tensor) -> Tensor:
    return torch.where(p == 0, torch.where(x.isnan(), x, 0.0), p * (logarithm - x))


@wrong("kl_div value", "value", source=TORCH + "issues/69230")
def negative_probabilities_cost_nothing(
    x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> Tensor:
    """The guard of 0 ln 0 asks whether the target is positive."""
    if log_target:
        return scored(_divergences(x, target.exp(), target), reduction)
    losses = _divergences(x, target, target.log())
    return scored(torch.where(target < 0, 0.0, losses), reduction)


@wrong("kl_div value", "value", source=TORCH + "issues/2259")
def mean_of_divergences(
    x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> Tensor:
    """The mean is of the divergences of rows, and not of entries."""
    p, logarithm = (target.exp(), target) if log_target else (target, target.log())
    losses = _divergences(x, p, logarithm)
    rows = x.shape[0] if x.dim() > 1 else x.numel()
    return losses.sum() / rows if reduction == "mean" else scored(losses, reduction)


@wrong("kl_div value", "range", source=LIGER)
def logarithm_of_at_least_an_epsilon(
    x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> Tensor:
    """The logarithm is of no target below 1e-10."""
    p, logarithm = (target.exp(), target) if log_target else (target, target.clamp(1e-10).log())
    return scored(_divergences(x, p, logarithm), reduction)


@wrong("kl_div vjp", "gradient", source=TORCH + "issues/89558")
def no_pole(
    g: Tensor, x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """The gradient of a target of 0 is 0, where it is minus infinity."""
    share = shared(g, x, reduction).expand_as(x)
    if log_target:
        p = target.exp()
        return -p * share, torch.where(p == 0, 0.0, p * (target - x + 1)) * share
    rate = torch.where((target == 0) | (share == 0), 0.0, target.log() - x + 1)
    return -target * share, rate * share


@wrong("hinge_embedding_loss value", "value", source=TORCH + "pull/1378")
def margin_of_one(x: Tensor, y: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The margin that is asked for is not handed on, and is 1."""
    return scored(torch.where(y, x, (1 - x).clamp(min=0)), reduction)


@wrong("hinge_embedding_loss vjp", "gradient", source=TORCH + "pull/3773")
def beyond_the_margin_pushed(
    g: Tensor, x: Tensor, y: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, None]:
    """What lies beyond the margin gets a gradient as well."""
    share = shared(g, x, reduction).expand_as(x)
    return torch.where(y, share, -share), None


@wrong("hinge_embedding_loss", "ties", source="a maximum for a clamp")
def half_at_the_margin(
    x: Tensor, y: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """At the margin half of the gradient comes back, as of a maximum with 0."""
    lacking = torch.maximum(margin - x, torch.zeros_like(x))
    return scored(torch.where(y, x, lacking), reduction)


def _apart(u: Tensor, v: Tensor, p: int, eps: float) -> Tensor:
    """Return how far rows lie apart."""
    lengths: Tensor = torch.linalg.vector_norm(u - v + eps, p, -1)
    return lengths


@wrong("triplet_margin_loss", "value", source="one flag more, handed to nobody")
def never_swapped(*rows: Tensor, **attributes: Any) -> Tensor:
    """The distance of the positive from the negative is not looked at."""
    return of_triplets(_apart, *rows, **{**attributes, "swap": False})


@wrong("triplet_margin_loss", "value", source="squares without their root")
def squared_distances(*rows: Tensor, **attributes: Any) -> Tensor:
    """Distances of order 2 are squared."""
    return of_triplets(lambda u, v, p, eps: _apart(u, v, p, eps) ** p, *rows, **attributes)


@wrong("triplet_margin_loss", "gradient", source="a root that is not safe at 0")
def rate_at_no_distance(*rows: Tensor, **attributes: Any) -> Tensor:
    """The root of squares that are all 0 sends NaN back."""

    def apart(u: Tensor, v: Tensor, p: int, eps: float) -> Tensor:
        d = u - v + eps
        return d.abs().sum(-1) if p == 1 else d.square().sum(-1).sqrt()

    return of_triplets(apart, *rows, **attributes)
