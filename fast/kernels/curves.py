"""Curves that ATen twins share, of wide tensors, in the forms of the pages."""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-30
"""Of numbers below it, of any format, 1 + x has nothing left, and ln(1 + x) is x."""


def shrunk_wide(x: Tensor) -> Tensor:
    """Return e^-|x|, which overflows nowhere, in a tensor of its own."""
    return x.abs().neg_().exp_()


def logistic_wide(x: Tensor) -> Tensor:
    """Return 1 / (1 + e^-x), in a tensor of its own."""
    e = shrunk_wide(x)
    return torch.where(x < 0, e, 1.0) / e.add_(1)


def log1p_wide(x: Tensor) -> Tensor:
    """Return ln(1 + x), in a tensor of its own: x itself where it is tiny.

    There torch, by Intel's MKL, returns 0 or another subnormal number.
    """
    return torch.where(x.abs() < TINY, x, x.log1p())


def softened_wide(x: Tensor) -> Tensor:
    """Return ln(1 + e^x), in a tensor of its own."""
    return log1p_wide(shrunk_wide(x)).add_(x.clamp(min=0))
