"""Clipping: each entry of a gradient by a value, then all gradients together by their norm.

    g = g * (1 / grad_scale)
    g = min(max(g, -max_value), max_value)      NaN survives
    norm = sqrt(sum of g^2)                     over every entry of every gradient
    g = g * min(1, max_norm / (norm + 1e-6))

Who differentiates a loss multiplied by grad_scale, so that small gradients do not underflow on
their way, has it divided out first. Without a max_value no entry is clipped, and without a max_norm
no norm is; with both, the norm is that of the clipped entries.

The gradients are those of the parameters that the update writes, in all groups together: trainable
and reached. What is frozen or was not reached does not count. A group may have a max_value of its
own, which takes the place of the update's. The norm of a group that has a max_norm of its own is
that of its gradients alone, and these do not count elsewhere. None stands for no bound.

Where the norm is not finite the update goes on, as PyTorch's does unless told to raise. By an
infinite norm finite entries become 0 and infinite ones NaN; by a NaN all become NaN. No step is
left out: who scales looks at the gradients first.

C1  max_norm is finite and > 0.
C2  grad_scale is finite and > 0.
C3  max_value is finite and > 0.

Reference: PyTorch's torch.nn.utils.clip_grad_value_ and clip_grad_norm_, the latter with
error_if_nonfinite=False.

>>> from spec.tensor import tensor
>>> clipped([tensor([3.0]), tensor([4.0])], max_norm=5.5)
[Tensor([3.0]), Tensor([4.0])]
>>> clipped([tensor([Fraction(3)]), tensor([Fraction(4)])], max_norm=Fraction(5000001, 2000000))
[Tensor([Fraction(3, 2)]), Tensor([Fraction(2, 1)])]
>>> scaled([tensor([9.0, -2.0]), tensor([-8.0])], [Limits(max_value=4.0), Limits()], grad_scale=2.0)
[Tensor([4.0, -1.0]), Tensor([-4.0])]
"""

# This file is longer than the guide because the scale, the value and the norm have one order.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, checked
from spec.refusals import listed, refuse
from spec.scalar import divide, lift, maximum, sqrt, square, sum_over
from spec.worlds import is_number

GUARD = Fraction(1, 1_000_000)
"""What is added to the norm, so that none divides by zero."""


def check(max_norm: float | Fraction) -> None:
    """Refuse what breaks C1."""
    if not _positive(max_norm):
        raise refuse("clip C1", "max_norm is finite and > 0", repr(max_norm))


def check_scale(grad_scale: float | Fraction) -> None:
    """Refuse what breaks C2."""
    if not _positive(grad_scale):
        raise refuse("clip C2", "grad_scale is finite and > 0", repr(grad_scale))


def _positive(number: object) -> bool:
    return is_number(number) and 0 < number < math.inf


@dataclass(frozen=True)
class Limits:
    """What bounds a gradient: the norm that it has together with others, and its entries.

    `apart` is the number of the group whose norm is its own; it is 0 of all that share a norm.
    """

    max_norm: float | Fraction | None = None
    max_value: float | Fraction | None = None
    apart: int = 0

    def __post_init__(self) -> None:
        """Refuse what breaks C1 or C3."""
        if self.max_norm is not None:
            check(self.max_norm)
        if self.max_value is not None and not _positive(self.max_value):
            raise refuse("clip C3", "max_value is finite and > 0", repr(self.max_value))


def scaled(
    gradients: Sequence[AnyTensor], limits: Sequence[Limits], grad_scale: float | Fraction = 1
) -> list[AnyTensor]:
    """Return what an update does to its gradients first, each of which has its limits."""
    check_scale(grad_scale)
    found = [
        clamped(divided(g, grad_scale), limit.max_value)
        for g, limit in zip(gradients, limits, strict=True)
    ]
    for apart in dict.fromkeys(limit.apart for limit in limits):
        members = [k for k, limit in enumerate(limits) if limit.apart == apart]
        bound = limits[members[0]].max_norm
        if bound is not None:
            together = clipped([found[k] for k in members], bound)
            for k, gradient in zip(members, together, strict=True):
                found[k] = gradient
    return found


def divided(gradient: AnyTensor, grad_scale: float | Fraction) -> AnyTensor:
    """Return a gradient times the inverse of a number that obeys C2."""
    inverse = 1 / Fraction(grad_scale)

    def entry(g: Any) -> Any:
        return g * lift(g, inverse)

    return gradient if inverse == 1 else gradient.map(entry)


def clamped(gradient: AnyTensor, max_value: float | Fraction | None) -> AnyTensor:
    """Return a gradient whose entries lie in [-max_value, max_value], or are NaN."""
    if max_value is None:
        return gradient
    bound = Fraction(max_value)

    def entry(g: Any) -> Any:
        least = lift(g, -bound)
        # A minimum by way of `maximum`, through which NaN survives.
        return -maximum(-maximum(g, least), least)

    return gradient.map(entry)


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
