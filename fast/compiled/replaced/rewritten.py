"""What is written down otherwise than torch would: where its own rewriting changes results.

Inductor takes calls apart into simpler ones. That of the gradient of a labelled loss multiplies a
row of zeros with -1 at the label by the cotangent: beside an infinite cotangent zeros become NaN,
and what learns nothing gets -0. A kernel of torch's writes to the label alone, and so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

MEAN = 1
"""What torch calls the reduction to a mean."""


def _labelled(
    cotangent: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None, reduction: int,
    ignored: int, total: Tensor,
) -> Tensor:  # fmt: skip
    """Write the cotangent of each row, negated, weighted and divided, to the row's label."""
    kept = labels != ignored
    places = torch.where(kept, labels, 0)
    share = cotangent / total if reduction == MEAN else cotangent
    if weight is not None:
        share = share * weight[places]
    learned = torch.where(kept, -share, 0)
    return torch.zeros_like(x).scatter(1, places.unsqueeze(1), learned.unsqueeze(1))


REWRITTEN: Mapping[Any, Callable[..., Any]] = {
    aten.nll_loss_backward.default: _labelled,
    aten.nll_loss2d_backward.default: _labelled,
}
"""By what torch calls them, the calls that are taken apart here."""
