"""The losses as JAX's users write them, each named for its op; Optax writes some of them so."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import nn

Array = Any
"""A jax.Array, as in `backend`."""


def _mse_loss(x: Array, y: Array, reduction: str = "mean") -> Array:
    return _reduced(jnp.square(x - y), x.size, reduction)


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


LOSSES = (_mse_loss, _nll_loss, _cross_entropy)
