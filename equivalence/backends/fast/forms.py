"""The programs that our own providers follow in 16 bits, where they are not the pages' own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from equivalence.worlds.storage import saved
from spec.op import AnyTensor
from spec.ops.linear_activation import ACTIVATIONS

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
