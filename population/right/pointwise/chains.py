"""Right chains: in a wider format, and backwards by torch's own tape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from equivalence.backends.torch.backend import OPS, pulled_back
from population.record import right


@right("chain value", "precision")
def steps_in_64_bits(x: Tensor, steps: Sequence[Any]) -> Tensor:
    """All steps are taken in float64, and the result is rounded once."""
    return OPS["chain"](x.double(), steps).to(x.dtype)


@right("chain vjp", "gradient")
def back_by_a_tape(g: Tensor, x: Tensor, steps: Sequence[Any]) -> Tensor:
    """Torch's tape walks back, in float64."""
    (found,) = pulled_back(partial(OPS["chain"], steps=steps), g.double(), [x.double()], {})
    assert found is not None
    return found.to(x.dtype)
