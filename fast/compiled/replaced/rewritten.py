"""What is written down otherwise than torch would: where its own rewriting changes results.

Inductor takes calls apart into simpler ones. That of the gradient of a labelled loss multiplies a
row of zeros with -1 at the label by the cotangent: beside an infinite cotangent zeros become NaN,
and what learns nothing gets -0. A kernel of torch's writes to the label alone, and so does this.

Where results of 16 bits are rounded as they are stored (`emulate_precision_casts`), Inductor rounds
the numbers that tensors are added to or multiplied by, too, as if they had been stored. torch's
kernels compute with such a number in 32 bits. The judge has found that in torch 2.13.

A whole power below 0 is written out as a power of 1/x, so that the rounding of that quotient counts
as often as the power says. Here it is 1 over the product, as in torch's kernel of x^-2 and in our
page. The judge has found that in torch 2.13, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

MEAN = 1
"""What torch calls the reduction to a mean."""

SIXTEEN = (torch.bfloat16, torch.float16)
WIDE = (torch.float32, torch.float64)


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


def _in_32_bits(call: Callable[..., Tensor]) -> Callable[..., Any]:
    """Have a call on a tensor of 16 bits and a number compute with the number as it is."""

    def wide(x: Tensor, number: Tensor | float, **named: Any) -> Any:
        if x.dtype not in SIXTEEN or isinstance(number, Tensor):
            return NotImplemented
        return call(x.to(torch.float32), number, **named).to(x.dtype)

    return wide


def _over_a_product(x: Tensor, power: float) -> Any:
    """Raise to a whole power below 0, of those that Inductor writes out."""
    written_out = -32 < power < 0 and float(power).is_integer() and x.dtype in WIDE
    return x.pow(-power).reciprocal() if written_out else NotImplemented


BESIDE_NUMBERS = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)
"""What torch computes in 32 bits with a number, where the tensor has 16."""

REWRITTEN: Mapping[Any, Callable[..., Any]] = {
    aten.nll_loss_backward.default: _labelled,
    aten.nll_loss2d_backward.default: _labelled,
    aten.pow.Tensor_Scalar: _over_a_product,
    **{call: _in_32_bits(call) for call in BESIDE_NUMBERS},
}
"""By what torch calls them, the calls that are taken apart here, where it is not NotImplemented."""
