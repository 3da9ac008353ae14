"""Wrong softmax, log_softmax, layer_norm and max: what works along rows."""

from __future__ import annotations

import torch
from torch import Tensor

from equivalence.population.record import wrong


@wrong("softmax value", "range", source="Goodfellow et al., Deep Learning, section 4.1")
def maximum_forgotten(x: Tensor, axis: int = -1) -> Tensor:
    """No maximum is subtracted, so that logits over 88 overflow."""
    e = torch.exp(x)
    return e / e.sum(axis, keepdim=True)
