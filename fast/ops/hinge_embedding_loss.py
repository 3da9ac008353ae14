"""Twin of spec.ops.hinge_embedding_loss.

Both losses are computed, and one is chosen, in one pass (fast.kernels.losses.paired), which reads y
as bytes. Saved: the inputs, as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.examples import Example, pairs
from fast.kernels.losses import paired
from fast.kernels.page import Gradients, Op, Saved


@triton.jit
def _loss(x, y, margin):
    # Written so, a NaN survives.
    lacking = margin - x
    return tl.where(y != 0, x, tl.where(lacking < 0, 0.0, lacking))


@triton.jit
def _vjp(x, y, share, margin):
    back = tl.where(margin - x >= 0, -share, 0.0)
    return tl.where(y != 0, share, back), share


def check(x: Tensor, y: Tensor, *, margin: float = 1.0, reduction: str = "mean") -> None:
    """Refuse what losses of pairs do (C1 to C3), a y that is no mask (C4), and no margin (C5)."""
    checks.masked("hinge_embedding_loss", "C4", x, y)
    paired.check_reduction("hinge_embedding_loss", x, reduction)
    checks.finite("hinge_embedding_loss C5", margin=margin)


def value(
    x: Tensor, y: Tensor, *, margin: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up distances, and what others lack to the margin, or keep them; x and y are saved."""
    least = float(margin)
    z = paired.of_pairs(_loss, x, y.view(torch.uint8), reduction, (least,))
    return z, (x, y, least, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g where a pair is alike, else -g up to the margin, divided where the loss was."""
    x, y, least, reduction = saved
    wanted, alike = (needs[0], False), y.view(torch.uint8)
    return paired.to_pairs(_vjp, x, alike, cotangent, wanted, reduction, (least,))


def aten_value(
    x: Tensor, y: Tensor, *, margin: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up distances, and what others lack to the margin, or keep them; x and y are saved."""
    least, x32 = float(margin), wide(x)
    each = torch.where(y, x32, (least - x32).clamp_(min=0))
    return paired.aten_reduced(each, reduction, x.dtype), (x, y, least, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g where a pair is alike, else -g up to the margin, divided where the loss was."""
    x, y, least, reduction = saved
    if not needs[0]:
        return None, None
    share = paired.aten_share(cotangent, x, reduction)
    back = torch.where(least - wide(x) >= 0, -share, 0.0)
    return torch.where(y, share, back).to(x.dtype), None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a mask for each example of a loss of pairs."""
    for (x, y), attributes in pairs(margin=1.0)(dtype):
        yield (x, y > 0), attributes


op = Op(
    "hinge_embedding_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "y"), index_inputs=(1,), mask_inputs=(1,),
    attributes={"margin": 1.0, "reduction": "mean"},
)  # fmt: skip
