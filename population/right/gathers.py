"""Right take, scatter_add and losses: other ways to read and to write by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from equivalence.worlds.contract import Form
from population.pieces.labelled import by_rows, weighed
from population.record import right
from spec.composite import composite
from spec.op import AnyTensor
from spec.ops import OPS
from spec.ops.cross_entropy import program
from spec.shape import size


def _flat(g: Tensor, x: Tensor, indices: Tensor, at: int) -> Tensor:
    return g.reshape(*x.shape[:at], indices.numel(), *x.shape[at + 1 :])


def _taken(chosen: Tensor, x: Tensor, indices: Tensor, at: int) -> Tensor:
    return chosen.reshape(x.shape[:at] + indices.shape + x.shape[at + 1 :])


@right("take value", "value")
def by_indexing(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The axis is moved to the front and indexed."""
    at = axis % x.dim()
    return _taken(x.movedim(at, 0)[indices.reshape(-1)].movedim(0, at), x, indices, at)


@right("take value", "value")
def by_ones_and_zeros(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Finite numbers are selected by a product with ones and zeros."""
    at = axis % x.dim()
    if not bool(x.isfinite().all()) or bool(torch.signbit(x[x == 0]).any()):
        return _taken(torch.index_select(x, at, indices.reshape(-1)), x, indices, at)
    ones = functional.one_hot(indices.reshape(-1), x.shape[at]).to(x.dtype)
    found = torch.tensordot(ones, x, dims=([1], [at]))
    return _taken(found.movedim(0, at), x, indices, at)


@right("take vjp", "gradient")
def by_sorting(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Cotangents are sorted by where they go, and added up in that order."""
    at = axis % x.dim()
    order = torch.argsort(indices.reshape(-1), stable=True)
    flat = _flat(g, x, indices, at).index_select(at, order)
    zeros = torch.zeros(x.shape, dtype=x.dtype)
    return zeros.index_add(at, indices.reshape(-1)[order], flat), None


@right("take vjp", "precision")
def added_in_double(g: Tensor, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, None]:
    """Cotangents of one entry are added up in double."""
    at = axis % x.dim()
    zeros = torch.zeros(x.shape, dtype=torch.float64)
    flat = _flat(g, x, indices, at).double()
    return zeros.index_add(at, indices.reshape(-1), flat).to(x.dtype), None


@right("scatter_add value", "precision")
def last_terms_first(x: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    """The terms are added in the opposite order."""
    at = axis % x.dim()
    flat = _flat(source, x, indices, at).flip(at)
    return torch.index_add(x, at, indices.reshape(-1).flip(0), flat)


@right("scatter_add value", "precision")
def terms_before_the_input(x: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    """The terms are added to zeros, and their sum to the input."""
    at = axis % x.dim()
    zeros = torch.zeros(x.shape, dtype=x.dtype)
    return x + zeros.index_add(at, indices.reshape(-1), _flat(source, x, indices, at))


@right("scatter_add vjp", "gradient")
def gathered(
    g: Tensor, x: Tensor, indices: Tensor, source: Tensor, axis: int
) -> tuple[Tensor, None, Tensor]:
    """The terms' gradient is gathered by indexing."""
    at = axis % x.dim()
    terms = g.movedim(at, 0)[indices.reshape(-1)].movedim(0, at)
    return g.clone(), None, _taken(terms, x, indices, at)


def _asked(
    labels: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: None = None,
) -> tuple[Tensor, float, str]:
    """Return which rows count, the smoothing and the reduction of a call."""
    return labels != ignore_index, label_smoothing, reduction


def _reduced(losses: Tensor, kept: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() / max(int(kept.sum()), 1) if reduction == "mean" else losses.sum()


def _picked(x: Tensor, labels: Tensor, kept: Tensor, rest: float) -> Tensor:
    found = x[torch.arange(x.shape[0]), torch.where(kept, labels, 0)]
    return torch.where(kept, -found, rest)


@right("nll_loss value", "value")
@by_rows("nll_loss")
def ignored_rows_are_minus_zero(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """A row that is ignored gives minus zero."""
    kept, _, reduction = _asked(labels, **call)
    return _reduced(_picked(x, labels, kept, -0.0), kept, reduction)


@right("nll_loss value", "precision")
@by_rows("nll_loss")
def shares_summed(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """Each loss is divided before they are summed."""
    kept, _, reduction = _asked(labels, **call)
    losses = _picked(x, labels, kept, 0.0)
    if reduction != "mean":
        return losses if reduction == "none" else losses.sum()
    return (losses / max(int(kept.sum()), 1)).sum()


@right("nll_loss vjp", "gradient")
@by_rows("nll_loss")
def by_comparing_with_the_label(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """Every class is compared with the label."""
    kept, _, reduction = _asked(labels, **call)
    share = g / max(int(kept.sum()), 1) if reduction == "mean" else g
    hit = (torch.arange(x.shape[1])[None] == labels[:, None]) & kept[:, None]
    return torch.where(hit, -share.reshape(-1, 1), 0.0), None


def _smoothed(logs: Tensor, labels: Tensor, kept: Tensor, smoothing: float) -> Tensor:
    """Return the loss of each row from its log-probabilities."""
    losses = _picked(logs, labels, kept, 0.0)
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * (logs.sum(1) / logs.shape[1])
    return torch.where(kept, losses, 0.0)


@right("cross_entropy value", "precision")
@by_rows("cross_entropy")
def loss_in_double(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """All of it is done in double, and rounded once."""
    kept, smoothing, reduction = _asked(labels, **call)
    losses = _smoothed(torch.log_softmax(x.double(), 1), labels, kept, smoothing)
    return _reduced(losses, kept, reduction).to(x.dtype)


@right("cross_entropy value", "value")
@by_rows("cross_entropy")
def from_log_softmax(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """It reads torch's log_softmax."""
    kept, smoothing, reduction = _asked(labels, **call)
    losses = _smoothed(torch.log_softmax(x, 1), labels, kept, smoothing)
    return _reduced(losses, kept, reduction)


def _less_label(probability: Tensor, g: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """Return the probability less the label, times the share of the cotangent."""
    kept, smoothing, reduction = _asked(labels, **call)
    at = torch.where(kept, labels, 0)[:, None]
    due = torch.full(probability.shape, smoothing / probability.shape[1], dtype=probability.dtype)
    due = due.scatter_add(1, at, torch.full(at.shape, 1 - smoothing, dtype=due.dtype))
    share = g / max(int(kept.sum()), 1) if reduction == "mean" else g
    return torch.where(kept[:, None], (probability - due) * share.reshape(-1, 1), 0.0)


@right("cross_entropy vjp", "gradient", source="what most kernels do")
@by_rows("cross_entropy")
def probability_less_label(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """The gradient is the probability less the label, times the cotangent."""
    return _less_label(torch.softmax(x, 1), g, labels, **call), None


def _by_logsumexp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axis: int = -1
) -> tuple[AnyTensor]:
    """Return log_softmax's gradient g - exp(x - logsumexp) sum g, with logsumexp rounded."""
    (x,) = inputs
    if not size(x.shape):
        return (cotangent,)

    def along(row: AnyTensor) -> AnyTensor:
        wide: AnyTensor = OPS["broadcast_to"].value(row, shape=x.shape)
        return wide

    kept = OPS["logsumexp"].value(x, axes=(axis,), keepdims=True)
    probability = OPS["exp"].value(OPS["sub"].value(x, along(kept)))
    total = OPS["sum"].value(cotangent, axes=(axis,), keepdims=True)
    return (OPS["sub"].value(cotangent, OPS["mul"].value(probability, along(total))),)


_PAGE = OPS["cross_entropy"]
_STEPS = {op.name: op for op in _PAGE.uses}
_STEPS["log_softmax"] = replace(OPS["log_softmax"], vjp=_by_logsumexp)
BY_LOGSUMEXP = Form(
    "exp(x - logsumexp)",
    vjp=composite(
        _PAGE.name, _PAGE.type_rule, program, tuple(_STEPS.values()), index_inputs=(1,)
    ).vjp,
)
"""Where all logits are large, what rounding takes of the logsumexp is large in the exponent."""


@right(
    "cross_entropy vjp",
    "non-finite",
    source="kernels that keep one logsumexp for each row",
    contract={"forms": (BY_LOGSUMEXP,)},
)
@by_rows("cross_entropy")
def probability_by_logsumexp(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """The probability is exp(x - logsumexp), and is declared to be: 0 beside an infinite logit."""
    wide = x.double()
    probability = torch.exp(wide - torch.logsumexp(wide, 1, keepdim=True)).to(x.dtype)
    return _less_label(probability, g, labels, **call), None


@right("cross_entropy vjp", "precision")
@by_rows("cross_entropy")
def gradient_in_double(g: Tensor, x: Tensor, labels: Tensor, **call: Any) -> tuple[Tensor, None]:
    """The gradient is formed in double, and rounded once."""
    kept, smoothing, reduction = _asked(labels, **call)
    at = torch.where(kept, labels, 0)[:, None]
    due = torch.full(x.shape, smoothing / x.shape[1], dtype=torch.float64)
    due = due.scatter_add(1, at, torch.full(at.shape, 1 - smoothing, dtype=torch.float64))
    share = g.double() / max(int(kept.sum()), 1) if reduction == "mean" else g.double()
    gradient = (torch.softmax(x.double(), 1) - due) * share.reshape(-1, 1)
    return torch.where(kept[:, None], gradient, 0.0).to(x.dtype), None


@right("cross_entropy value", "value")
@by_rows("cross_entropy", weights=True)
def weights_at_the_classes(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """Weights multiply the log-probabilities, of which one is then read off."""
    safe = torch.where((labels != call.get("ignore_index", -100))[:, None], x, 0.0)
    return weighed(torch.log_softmax(safe, 1), labels, **call)


@right("mse_loss", "precision")
def squares_in_double(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """All of it is done in double, and rounded once."""
    return functional.mse_loss(x.double(), y.double(), reduction=reduction).to(x.dtype)


@right("mse_loss value", "value")
def product_with_itself(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """The sum of squares is a product of the difference with itself."""
    d = (x - y).reshape(-1)
    if reduction == "none":
        return (d * d).reshape(x.shape)
    total = (d * d).sum() if d.numel() < 2 else torch.dot(d, d)
    return total / d.numel() if reduction == "mean" else total


@right("mse_loss vjp", "gradient")
def doubled_last(g: Tensor, x: Tensor, y: Tensor, reduction: str = "mean") -> tuple[Tensor, Tensor]:
    """The difference is doubled after it has been multiplied by its share."""
    share = g / x.numel() if reduction == "mean" else g
    dx = (share * (x - y)) * 2
    return dx, -dx
