"""What optimizers do to a gradient first: negate it to maximize, and add the weight decay.

>>> from spec.tensor import tensor
>>> steered(tensor([4.0]), tensor([1.0]), weight_decay=0.5, maximize=True)
Tensor([1.0])
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from spec.op import AnyTensor
from spec.scalar import lift
from spec.tensor import zip_map


def steered(
    parameter: AnyTensor, gradient: AnyTensor, weight_decay: float, maximize: bool
) -> AnyTensor:
    """Return weight_decay * p + g, or weight_decay * p - g to maximize; both share one shape."""
    if maximize:
        gradient = gradient.map(_negated)
    if not weight_decay:
        return gradient
    decay = Fraction(weight_decay)

    def entry(p: Any, g: Any) -> Any:
        return lift(p, decay) * p + g

    return zip_map(entry, parameter, gradient)


def _negated(g: Any) -> Any:
    return -g
