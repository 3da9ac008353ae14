"""Right losses of pairs: other ways to compare two tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from population.pieces.tensors import of_triplets, scored, shared
from population.record import right


@right("mae_loss value", "value")
def larger_less_smaller(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """The smaller is subtracted from the larger."""
    return scored(torch.maximum(x, y) - torch.minimum(x, y), reduction)


@right("mae_loss vjp", "gradient")
def difference_of_comparisons(
    g: Tensor, x: Tensor, y: Tensor, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """The sign is a difference of two comparisons."""
    slope = ((x > y).to(x.dtype) - (x < y).to(x.dtype)) * shared(g, x, reduction)
    return slope, -slope


@right("huber_loss", "precision")
def huber_in_double(x: Tensor, y: Tensor, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """All of it is done in double, and rounded once."""
    return functional.huber_loss(x.double(), y.double(), reduction, delta).to(x.dtype)


@right("smooth_l1_loss value", "value", source="torch.nn.SmoothL1Loss, its note on HuberLoss")
def huber_loss_over_beta(
    x: Tensor, y: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """It is the Huber loss, divided by beta."""
    if not beta:
        return scored((x - y).abs(), reduction)
    far = (x - y).abs()
    huber = torch.where(far <= beta, 0.5 * far * far, beta * (far - 0.5 * beta))
    return scored(huber / beta, reduction)


@right("smooth_l1_loss value", "value")
def both_pieces_over_two_betas(
    x: Tensor, y: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Twice the loss times beta is formed, and divided by twice beta."""
    far = (x - y).abs()
    if not beta:
        return scored(far, reduction)
    doubled = torch.where(far < beta, far * far, beta * (2 * far - beta))
    return scored(doubled / (2 * beta), reduction)


@right("smooth_l1_loss vjp", "gradient")
def rate_cut_off(
    g: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """The quotient is cut off at 1, without a question."""
    d = x - y
    slope = torch.clamp(d / beta, -1, 1) if beta else torch.sgn(d)
    slope = slope * shared(g, x, reduction)
    return slope, -slope


@right("bce_with_logits value", "value")
def larger_part_first(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The product is with the target or what it lacks to 1, chosen by the sign of the logit."""
    weight = torch.where(x < 0, target, 1 - target)
    return scored(x.abs() * weight + torch.log1p(torch.exp(-x.abs())), reduction)


@right("bce_with_logits vjp", "precision")
def curve_in_double(
    g: Tensor, x: Tensor, target: Tensor, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """The difference of curve and target is formed in double, and rounded once."""
    share = shared(g.double(), x, reduction)
    e = torch.exp(-x.double().abs())
    below, t = e / (1 + e), target.double()
    slope = torch.where(x < 0, below - t, (1 - t) - below) * share
    return slope.to(x.dtype), (-x * share).to(x.dtype)


@right("kl_div value", "value")
def entropy_apart(
    x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> Tensor:
    """What the target says of itself and what was thought of it are subtracted as products."""
    p = target.exp() if log_target else target
    own = p * target if log_target else torch.xlogy(target, target)
    nothing = p == 0
    thought = torch.where(nothing & ~x.isnan(), 0.0, p * x)
    return scored(torch.where(nothing, 0.0, own) - thought, reduction)


@right("kl_div vjp", "precision")
def divergence_in_double(
    g: Tensor, x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """The rates are formed in double, and rounded once."""
    share, t = shared(g.double(), x, reduction).expand_as(x), target.double()
    p = t.exp() if log_target else t
    rate = (t if log_target else t.log()) - x.double() + 1
    if log_target:
        rate = torch.where(p == 0, 0.0, p * rate)
    dx, dt = (torch.where(share == 0, 0.0, r * share) for r in (-p, rate))
    return dx.to(x.dtype), dt.to(x.dtype)


@right("hinge_embedding_loss value", "value")
def both_parts_added(x: Tensor, y: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """Either part is 0 where the other one counts, and they are added."""
    lacking = functional.threshold(margin - x, 0.0, 0.0)
    return scored(x.masked_fill(~y, 0) + lacking.masked_fill(y, 0), reduction)


@right("hinge_embedding_loss vjp", "gradient")
def signs_of_pairs(
    g: Tensor, x: Tensor, y: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, None]:
    """The cotangent changes its sign, or is left out, by what the pair is."""
    share = shared(g, x, reduction).expand_as(x).clone()
    share[~y] *= -1
    share[~y & ~(margin - x >= 0)] = 0
    return share, None


@right("triplet_margin_loss value", "value")
def triplets_in_double(*rows: Tensor, **attributes: Any) -> Tensor:
    """All of it is done in double, the margin is added last, and the result is rounded once."""

    def apart(u: Tensor, v: Tensor, p: int, eps: float) -> Tensor:
        lengths: Tensor = torch.linalg.vector_norm(u - v + eps, p, -1)
        return lengths

    return of_triplets(apart, *(x.double() for x in rows), **attributes).to(rows[0].dtype)
