"""The programs that our own providers follow in 16 bits, where they are not the pages' own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from equivalence.registry import OPS
from equivalence.worlds.contract import Contract, Form
from equivalence.worlds.storage import saved
from spec.op import AnyTensor
from spec.ops.linear_activation import ACTIVATIONS

STORAGE_WHY = (
    "between two products a cotangent is stored in the dtype of the tensors, as is the sum that it "
    "is bent by, so that the products of the gradient run on tensor cores "
    "(fast/ops/linear_activation.py)"
)

Gradients = tuple[AnyTensor | None, ...]


def _linear_activation_from_storage(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, activation: str
) -> Gradients:
    """Send a cotangent back through the curve of the stored sum, and store it again."""
    name, attributes = ACTIVATIONS[activation]
    y = OPS["linear"].value(*inputs).map(saved)
    (g,) = OPS[name].vjp((y,), cotangent, **attributes)
    assert g is not None
    back: Gradients = OPS["linear"].vjp(inputs, g.map(saved))
    return back


FROM_STORAGE: Mapping[str, Form] = {
    "linear_activation": Form(
        "a stored sum, and its cotangent", vjp=_linear_activation_from_storage
    )
}
"""By op: the program of a gradient that says itself what passes through 16 bits."""


def passing_storage(contract: Contract, op: str) -> Contract:
    """Let those gradients that a page's twin stores in 16 bits on the way be rounded there."""
    if op not in FROM_STORAGE or contract.store == contract.compute:
        return contract
    sources = (*contract.sources, STORAGE_WHY)
    return replace(contract, forms=(FROM_STORAGE[op],), sources=sources)
