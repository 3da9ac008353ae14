"""Programs that Liger follows in place of the pages': what a user of it may declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from equivalence.backends.strangers.interpreted import contract
from equivalence.registry import OPS
from equivalence.worlds.contract import Contract, Form
from spec.composite import composite
from spec.losses import Weights, by_class, counting, divisor, entries_ignored, in_one_class
from spec.op import AnyTensor
from spec.ops.cross_entropy import program as page
from spec.ops.sigmoid import logistic
from spec.shape import size
from spec.tensor import zip_map


def _by_logsumexp(
    ops: Any,
    logits: Any,
    labels: AnyTensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: Weights | None = None,
) -> Any:
    """Take logsumexp - x at the label, and of all classes the sum of x apart from logsumexp.

    The parts cancel where the label is certain, and where all logits are large.
    """
    read: dict[str, Any] = {"ignore_index": ignore_index, "weight": weight}
    if not size(logits.shape):
        smoothed: dict[str, Any] = {"label_smoothing": label_smoothing, "reduction": reduction}
        return page(ops, logits, labels, **smoothed, **read)
    labels = counting(labels, weight, ignore_index, reduction)
    ignored = entries_ignored(labels, logits.shape, ignore_index)
    x = ops.where(ignored, ops.constant(0, logits.shape, like=logits), logits)
    total = ops.logsumexp(x, axes=(1,), keepdims=True)
    scores = ops.sub(x, ops.broadcast_to(total, shape=x.shape))
    exact = ops.nll_loss(scores, labels, reduction=reduction, **read)
    if not label_smoothing:
        return exact
    classes = logits.shape[1]
    each = x if weight is None else ops.mul(x, by_class(weight, x.shape))
    all_weights = Fraction(classes) if weight is None else sum(map(Fraction, weight))
    shares = ops.mul(total, ops.constant(all_weights, total.shape, like=total))
    every = ops.sub(ops.sum(each, axes=(1,), keepdims=True), shares)
    weighed = weight is not None and reduction == "mean"
    smooth = ops.nll_loss(
        every,
        in_one_class(labels, ignore_index),
        ignore_index=-1,
        reduction="sum" if weighed else reduction,
    )
    if weighed and divisor(labels, weight, ignore_index, Fraction(0)) is not None:
        ones = ops.constant(-1, logits.shape, like=logits)
        smooth = ops.div(smooth, ops.nll_loss(ones, labels, reduction="sum", **read))
    part = Fraction(label_smoothing)
    kept = ops.mul(exact, ops.constant(1 - part, exact.shape, like=logits))
    return ops.add(kept, ops.mul(smooth, ops.constant(part / classes, exact.shape, like=logits)))


_PAGE = OPS["cross_entropy"]
_BY_LOGSUMEXP = composite(
    _PAGE.name,
    _PAGE.type_rule,
    _by_logsumexp,
    (*_PAGE.uses, OPS["logsumexp"], OPS["sub"], OPS["broadcast_to"]),
    index_inputs=_PAGE.index_inputs,
)


def _silu_by_parts(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> tuple[AnyTensor]:
    """Return g (x s (1 - s) + s), in which 1 - s loses its digits where s is near 1."""
    (x,) = inputs

    def share(x: Any, g: Any) -> Any:
        s = logistic(x)
        return g * (x * s * (1 - s) + s)

    return (zip_map(share, x, cotangent),)


FORMS: Mapping[str, tuple[Form, ...]] = {
    "cross_entropy": (Form("logsumexp - logit", _BY_LOGSUMEXP.value),),
    "silu": (Form("x s (1 - s) + s", vjp=_silu_by_parts),),
}

STEPPING = frozenset({"cross_entropy", "softmax", "silu", "gelu", "embedding"})
"""The ops that step in the format of storage: losses are stored and then summed, y is read back."""


def declared_by_liger(op: str, dtype: str) -> Contract:
    """Return the contract of a user who declares what Liger does beside the page."""
    own = replace(contract(op, dtype), forms=FORMS.get(op, ()))
    if op == "silu":
        # 1 / (1 + e^-x) is 0 where e^-x overflows, and the logistic curve subnormal.
        own = replace(own, flush="outputs")
    if own.store == own.compute or op not in STEPPING:
        return own
    return replace(own, steps="storage", accumulate=own.store)
