"""Programs that Liger follows in place of the pages': what a user of it may declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from equivalence.backends.strangers.interpreted import contract
from equivalence.registry import OPS
from equivalence.worlds.contract import Contract, Form
from spec.composite import composite
from spec.op import AnyTensor
from spec.ops.cross_entropy import program as scored
from spec.ops.sigmoid import logistic
from spec.shape import size
from spec.tensor import zip_map


def _minus_logsumexp(x: AnyTensor, *, axis: int = -1) -> AnyTensor:
    """Return x - logsumexp(x), whose parts cancel where the label is certain."""
    if not size(x.shape):
        return x
    total = OPS["logsumexp"].value(x, axes=(axis,), keepdims=True)
    found: AnyTensor = OPS["sub"].value(x, OPS["broadcast_to"].value(total, shape=x.shape))
    return found


_PAGE = OPS["cross_entropy"]
_STEPS = {
    **{op.name: op for op in _PAGE.uses},
    "log_softmax": replace(OPS["log_softmax"], value=_minus_logsumexp),
}
_BY_LOGSUMEXP = composite(
    _PAGE.name,
    _PAGE.type_rule,
    scored,
    tuple(_STEPS.values()),
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
    if own.store == own.compute or op not in STEPPING:
        return own
    return replace(own, steps="storage", accumulate=own.store)
