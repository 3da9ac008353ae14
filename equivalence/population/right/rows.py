"""Right softmax, log_softmax, layer_norm and max: what works along rows."""

from __future__ import annotations

import torch
from torch import Tensor

from equivalence.population.record import right


@right("softmax", "precision")
def in_double(x: Tensor, axis: int = -1) -> Tensor:
    """All of it is done in double, and rounded once."""
    return torch.softmax(x.double(), axis).to(x.dtype)
