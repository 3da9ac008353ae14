"""The losses as JAX's users write them, each named for its op; Optax writes some of them so."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import nn

Array = Any
"""A jax.Array, as in `jax_backend`."""


def _mse_loss(x: Array, y: Array, reduction: str = "mean") -> Array:
    return _reduced(jnp.square(x - y), x.size, reduction)


def _mae_loss(x: Array, y: Array, reduction: str = "mean") -> Array:
    return _reduced(jnp.abs(x - y), x.size, reduction)


def _huber_loss(x: Array, y: Array, delta: float = 1.0, reduction: str = "mean") -> Array:
    """Write the loss as Optax does: a square of what is within delta, and a line beyond."""
    far = jnp.abs(x - y)
    within = jnp.minimum(far, delta)
    return _reduced(0.5 * within**2 + delta * (far - within), x.size, reduction)


def _smooth_l1_loss(x: Array, y: Array, beta: float = 1.0, reduction: str = "mean") -> Array:
    far = jnp.abs(x - y)
    if not beta:
        return _reduced(far, x.size, reduction)
    losses = jnp.where(far < beta, 0.5 * far**2 / beta, far - 0.5 * beta)
    return _reduced(losses, x.size, reduction)


def _bce_with_logits(x: Array, target: Array, reduction: str = "mean") -> Array:
    """Write the loss as Optax does, by the logarithms of both probabilities."""
    losses = -target * nn.log_sigmoid(x) - (1 - target) * nn.log_sigmoid(-x)
    return _reduced(losses, x.size, reduction)


def _kl_div(x: Array, target: Array, log_target: bool = False, reduction: str = "mean") -> Array:
    """Write the loss as Optax does: targets that are 0 have a logarithm of 0."""
    if log_target:
        return _reduced(jnp.exp(target) * (target - x), x.size, reduction)
    logarithm = jnp.where(target == 0, 0, jnp.log(jnp.where(target == 0, 1, target)))
    return _reduced(target * (logarithm - x), x.size, reduction)


def _hinge_embedding_loss(
    x: Array, y: Array, margin: float = 1.0, reduction: str = "mean"
) -> Array:
    lacking = margin - x
    losses = jnp.where(y, x, jnp.where(lacking < 0, 0, lacking))
    return _reduced(losses, x.size, reduction)


def _triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    near, far, other = (
        jnp.linalg.norm(x - y + eps, ord=p, axis=-1)
        for x, y in ((anchor, positive), (anchor, negative), (positive, negative))
    )
    lacking = near - (jnp.minimum(far, other) if swap else far) + margin
    return _reduced(jnp.where(lacking < 0, 0, lacking), lacking.size, reduction)


def _nll_loss(
    log_probabilities: Array,
    labels: Array,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Array:
    kept = labels != ignore_index
    weights = _weights(weight, log_probabilities)
    losses = -_picked(log_probabilities, labels, kept) * weights[jnp.where(kept, labels, 0)]
    return _reduced(jnp.where(kept, losses, 0), _counted(kept, labels, weights), reduction)


def _cross_entropy(
    logits: Array,
    labels: Array,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Array:
    """Mix the loss of the label with the mean over the classes, as the page does."""
    scores = nn.log_softmax(logits, axis=1)
    kept = labels != ignore_index
    weights = _weights(weight, logits)
    picked = _picked(scores, labels, kept) * weights[jnp.where(kept, labels, 0)]
    losses = -(1 - label_smoothing) * picked
    if label_smoothing:
        each = scores * weights.reshape(-1, *(1 for _ in scores.shape[2:]))
        losses = losses - label_smoothing * jnp.mean(each, axis=1)
    return _reduced(jnp.where(kept, losses, 0), _counted(kept, labels, weights), reduction)


def _weights(weight: tuple[float, ...] | None, scores: Array) -> Array:
    """Return a weight for each class; ValueError where there are too few or too many."""
    if weight is None:
        return jnp.ones(scores.shape[1], scores.dtype)
    return jnp.broadcast_to(jnp.asarray(weight, scores.dtype), scores.shape[1])


def _picked(scores: Array, labels: Array, kept: Array) -> Array:
    """Read each row at its label, and anywhere where that is ignored."""
    return jnp.take_along_axis(scores, jnp.where(kept, labels, 0)[:, None], axis=1)[:, 0]


def _counted(kept: Array, labels: Array, weights: Array) -> Array:
    """Add up the weights of the labels that are not ignored; where nothing counts, it is 1."""
    total = jnp.sum(jnp.where(kept, weights[jnp.where(kept, labels, 0)], 0))
    return jnp.where(total == 0, 1, total)


def _reduced(losses: Array, count: Array, reduction: str) -> Array:
    """Reduce losses; KeyError of another word than the three."""
    ways = {"none": lambda: losses, "sum": losses.sum, "mean": lambda: losses.sum() / count}
    return ways[reduction]()


LOSSES = (
    *(_mse_loss, _mae_loss, _huber_loss, _smooth_l1_loss, _bce_with_logits, _kl_div),
    *(_hinge_embedding_loss, _triplet_margin_loss),
    *(_nll_loss, _cross_entropy),
)
