"""What pages share whose parameters have one entry a channel: x as [N, C, entries]."""

from __future__ import annotations

from torch import Tensor


def seen(x: Tensor) -> Tensor:
    """See x as [N, C, entries], by a view where the strides allow it."""
    return x.reshape(*x.shape[:2], x.shape[2:].numel())


def aligned(x: Tensor, unit: int) -> bool:
    """Say whether the entries of each channel begin and end where a 128-bit load may."""
    *steps, step = x.stride()
    return step == 1 and x.data_ptr() % 16 == 0 and not any(n % unit for n in (*steps, x.shape[2]))


def column(parameter: Tensor, x: Tensor) -> Tensor:
    """See one number of each channel beside x."""
    return parameter.view(-1, *(1 for _ in x.shape[2:]))


def added(x: Tensor) -> Tensor:
    """Add up what each channel has."""
    return x.sum([k for k in range(x.dim()) if k != 1])
