"""Wrong chains: gradients that walk the wrong way back, and steps that are rounded or lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.torch.backend import OPS, pulled_back
from population.record import wrong
from spec.ops.chain import read

FUSED = "fused kernels that keep one number where the backward pass needs each"


def _walked(x: Tensor, steps: Sequence[Any]) -> list[Tensor]:
    """Return the input and the result of every step."""
    values = [x]
    for name, attributes in read(steps):
        values.append(OPS[name](values[-1], **attributes))
    return values


def _back(g: Tensor, x: Tensor, step: Any) -> Tensor:
    """Return what one step sends back."""
    name, attributes = step
    (found,) = pulled_back(OPS[name], g, [x], attributes)
    assert found is not None
    return found


@wrong("chain vjp", "gradient", source=FUSED)
def rates_at_the_input(g: Tensor, x: Tensor, steps: Sequence[Any]) -> Tensor:
    """Every step's rate is taken at the chain's input, not at the step's own."""
    for step in reversed(read(steps)):
        g = _back(g, x, step)
    return g


@wrong("chain vjp", "gradient", source=FUSED)
def back_in_the_same_order(g: Tensor, x: Tensor, steps: Sequence[Any]) -> Tensor:
    """The first step's rate comes first, of a number that is its input's no more."""
    values = _walked(x, steps)
    for value, step in zip(values[-2::-1], read(steps), strict=True):
        g = _back(g, value, step)
    return g


@wrong("chain value", "dtype", source="intermediate results kept in 16 bits between fused steps")
def steps_stored_in_16_bits(x: Tensor, steps: Sequence[Any]) -> Tensor:
    """What lies between the steps passes through bf16."""
    for name, attributes in read(steps):
        x = OPS[name](x.to(torch.bfloat16).to(x.dtype), **attributes)
    return x


@wrong("chain value", "structure", source="a buffer of three fused steps, as long as tests are")
def steps_beyond_three_are_lost(x: Tensor, steps: Sequence[Any]) -> Tensor:
    """Of longer chains, the fourth step and those behind it are left out."""
    return _walked(x, steps[:3])[-1]
