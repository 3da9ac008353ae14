"""Formulas that torch and others follow and that are less stable than those of the pages.

They are written with the pages of `spec`, and count for whoever declares the contract of torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from equivalence.worlds.contract import Form
from spec.op import AnyTensor
from spec.ops import OPS
from spec.scalar import is_zero, select, zero_like
from spec.tensor import zip_map


def _by_the_result(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> tuple[AnyTensor]:
    """Return (g (1 - z)) z, in which 1 - z has lost what z was rounded by (BinaryOpsKernel.cpp)."""
    z = OPS["sigmoid"].value(*inputs)
    return (zip_map(lambda g, y: g * (1 - y) * y, cotangent, z),)


def _by_the_cube(inputs: Sequence[AnyTensor], cotangent: AnyTensor) -> tuple[AnyTensor]:
    """Return (-g / 2) z^3 (derivatives.yaml); a zero cotangent is absorbed on the page."""
    z = OPS["rsqrt"].value(*inputs)

    def share(g: Any, y: Any) -> Any:
        return select(is_zero(g), zero_like(g), g * Fraction(-1, 2) * (y * y * y))

    return (zip_map(share, cotangent, z),)


FORMS: Mapping[str, tuple[Form, ...]] = {
    "rsqrt": (Form("(-g / 2) z^3", vjp=_by_the_cube),),
    "sigmoid": (Form("sigmoid_backward", vjp=_by_the_result),),
}
"""By op: other programs of its page."""
