"""How members of the losses that read labels are called: by rows, and without class weights.

A member scores a matrix against a label per row. Any other axes become rows here; a call with class
weights is answered as it should be, unless the member is about them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def weighed(
    scores: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Tensor:
    """Return the loss of log-probabilities [N, C], with class weights."""
    kept = labels != ignore_index
    at = torch.where(kept, labels, 0)
    classes = scores.shape[1]
    weights = torch.tensor([1.0] * classes if weight is None else weight, dtype=scores.dtype)
    own = torch.where(kept, weights[at], 0.0)
    losses = -scores.gather(1, at[:, None])[:, 0] * weights[at]
    if label_smoothing:
        spread = (scores * weights).sum(1) * (label_smoothing / classes)
        losses = (1 - label_smoothing) * losses - spread
    losses = torch.where(kept, losses, 0.0)
    if reduction == "none":
        return losses
    if reduction == "mean" and not own.sum():
        return scores.new_zeros(())
    return losses.sum() / own.sum() if reduction == "mean" else losses.sum()


def _right(op: str, x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    safe = torch.where((labels != call.get("ignore_index", -100))[:, None], x, 0.0)
    return weighed(torch.log_softmax(safe, 1) if op == "cross_entropy" else x, labels, **call)


def by_rows(op: str, weights: bool = False) -> Callable[..., Any]:
    """Return a decorator for members of an op; weights says that they are about class weights."""

    def decorate(member: Callable[..., Any]) -> Callable[..., Any]:
        back = next(iter(member.__annotations__)) == "g"

        def value(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
            rows, at = x.movedim(1, -1).reshape(-1, x.shape[1]), labels.reshape(-1)
            plain = call.get("weight") is None or weights
            found: Tensor = member(rows, at, **call) if plain else _right(op, rows, at, **call)
            return found.reshape(labels.shape) if call.get("reduction") == "none" else found

        def vjp(g: Tensor, x: Tensor, labels: Tensor, **call: Any) -> tuple[Tensor, None]:
            if x.dim() == 2 and call.get("weight") is None:
                alone: tuple[Tensor, None] = member(g, x, labels, **call)
                return alone
            rows, at = x.movedim(1, -1).reshape(-1, x.shape[1]), labels.reshape(-1)
            share = g.reshape(-1) if call.get("reduction") == "none" else g
            if call.get("weight") is None or weights:
                dx, _ = member(share, rows, at, **call)
            else:
                leaf = rows.detach().requires_grad_()
                with torch.enable_grad():
                    z = _right(op, leaf, at, **call)
                wanted = z.requires_grad
                dx = torch.autograd.grad(z, leaf, share)[0] if wanted else torch.zeros_like(rows)
            return dx.reshape(*x.shape[:1], *x.shape[2:], x.shape[1]).movedim(-1, 1), None

        return functools.wraps(member)(vjp if back else value)

    return decorate
