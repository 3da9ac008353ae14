"""Operands of a product as the tile of this GPU reads them fastest: copied, where need be."""

from __future__ import annotations

from torch import Tensor

from fast.kernels import tiles
from fast.kernels.elementwise import pointwise


def turned(x: Tensor, y: Tensor, tf32: bool) -> tuple[Tensor, Tensor]:
    """Return the operands [..., m, k] and [..., k, n] with the same numbers, perhaps copied."""
    left, right = tiles.turns(x, y, tf32)
    return _along_the_other(x) if left else x, _along_the_other(y) if right else y


def _along_the_other(operand: Tensor) -> Tensor:
    """Copy matrices to lie along their other axis; one that a batch repeats is copied once."""
    if operand.dim() == 3 and operand.stride(0) == 0:
        return _along_the_other(operand[0]).expand(operand.shape)
    if operand.stride(-1) == 1:
        return pointwise.copy(operand.mT).mT
    return pointwise.copy(operand)
