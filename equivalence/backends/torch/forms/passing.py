"""What forms share: what is stored on the way, and programs that run on tensors as pages do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from equivalence.worlds.storage import saved
from spec.composite import composite
from spec.kinds import same_shape
from spec.op import AnyTensor, Op

Gradients = tuple[AnyTensor | None, ...]
Program = Callable[..., Any]
Step = Callable[[AnyTensor], AnyTensor]
"""Hands a tensor on, as it is or stored."""


def as_they_are(x: AnyTensor) -> AnyTensor:
    """Hand a tensor on in the format of computation."""
    return x


def stored(x: AnyTensor) -> AnyTensor:
    """Store a tensor on the way, and read it again."""
    return x.map(saved)


def page(program: Program, steps: Sequence[Op]) -> Program:
    """Run a program of such steps on tensors, as the page of an op runs its own."""
    return composite(program.__name__, same_shape, program, tuple(steps)).value
