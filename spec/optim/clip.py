"""Clipping by global norm: one number scales all the gradients of an update.

    g = g * (1 / grad_scale)
    norm = sqrt(sum of g^2)             over every entry of every gradient
    g = g * min(1, max_norm / (norm + 1e-6))

Who differentiates a loss multiplied by grad_scale, so that small gradients do not underflow on
their way, has it divided out first. Without a max_norm nothing is clipped.

The gradients are those of the parameters that the update writes, in all groups together: trainable
and reached. What is frozen or was not reached does not count.

Where the norm is not finite the update goes on, as PyTorch's does unless told to raise. By an
infinite norm finite entries become 0 and infinite ones NaN; by a NaN all become NaN. No step is
left out: who scales looks at the gradients first.

C1  max_norm is finite and > 0.
C2  grad_scale is finite and > 0.

Reference: PyTorch's torch.nn.utils.clip_grad_norm_, with error_if_nonfinite=False.

>>> from spec.tensor import tensor
>>> clipped([tensor([3.0]), tensor([4.0])], max_norm=5.5)
[Tensor([3.0]), Tensor([4.0])]
>>> clipped([tensor([Fraction(3)]), tensor([Fraction(4)])], max_norm=Fraction(5000001, 2000000))
[Tensor([Fraction(3, 2)]), Tensor([Fraction(2, 1)])]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, checked
from spec.refusals import listed, refuse
from spec.scalar import divide, lift, maximum, sqrt, square, sum_over
from spec.worlds import is_number

Scaling = Callable[[Sequence[AnyTensor]], list[AnyTensor]]

GUARD = Fraction(1, 1_000_000)
"""What is added to the norm, so that none divides by zero."""


def check(max_norm: float | Fraction) -> None:
    """Refuse what breaks C1."""
    if not (is_number(max_norm) and 0 < max_norm < math.inf):
        raise refuse("clip C1", "max_norm is finite and > 0", repr(max_norm))


def scaling(max_norm: float | Fraction | None, grad_scale: float | Fraction) -> Scaling:
    """Return what an update does to its gradients first, or refuse what breaks C1 or C2."""
    if max_norm is not None:
        check(max_norm)
    if not (is_number(grad_scale) and 0 < grad_scale < math.inf):
        raise refuse("clip C2", "grad_scale is finite and > 0", repr(grad_scale))
    inverse = 1 / Fraction(grad_scale)

    def entry(g: Any) -> Any:
        return g * lift(g, inverse)

    def scaled(gradients: Sequence[AnyTensor]) -> list[AnyTensor]:
        found = list(gradients) if inverse == 1 else [g.map(entry) for g in gradients]
        return found if max_norm is None else clipped(found, max_norm)

    return scaled


def norm_of(gradients: Sequence[AnyTensor]) -> Any:
    """Return the length of all gradients as one vector, 0 where they have no entry."""
    entries: list[Any] = [entry for gradient in gradients for entry in gradient.data]

    def term(k: int) -> Any:
        return square(entries[k])

    return sqrt(sum_over(len(entries), term)) if entries else 0


def coefficient(gradients: Sequence[AnyTensor], max_norm: float | Fraction) -> Any:
    """Return the number that scales the gradients, of which some entry must exist."""
    norm = norm_of(gradients)
    share = divide(lift(norm, Fraction(max_norm)), norm + lift(norm, GUARD))
    # A minimum by way of `maximum`, through which NaN survives.
    return -maximum(-share, lift(share, Fraction(-1)))


def clipped(gradients: Sequence[AnyTensor], max_norm: float | Fraction) -> list[AnyTensor]:
    """Return the gradients scaled so that their norm together is at most max_norm."""
    check(max_norm)
    tensors = [checked("clip", g) for g in listed("clip", "gradients are in a list", gradients)]
    if not any(gradient.data for gradient in tensors):
        return tensors
    scale = coefficient(tensors, max_norm)

    def entry(g: Any) -> Any:
        return g * scale

    return [gradient.map(entry) for gradient in tensors]
