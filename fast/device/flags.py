"""One sticky word per device, set by a kernel that met an index out of range.

The word is 0, or an op's code and the index. Kernels that find a bad index let it contribute zero
and write the word; optimizer kernels read it and, unless it is 0, write nothing; a readback calls
`raise_if_set`, which names the op and the index. Only `clear` resets it.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.errors import Rejected

_CODES: dict[str, int] = {}
"""The ops whose kernels meet indices, and the numbers by which they are named in the word."""

_SHIFT = 48
_LOW = 2**_SHIFT - 1
_SIGN = 2 ** (_SHIFT - 1)
_MASK = tl.constexpr(_LOW)
_UNIT = tl.constexpr(2**_SHIFT)


def code_of(op: str) -> int:
    """Return the number by which an op's kernels name it in the word: the next one at first."""
    return _CODES.setdefault(op, len(_CODES) + 1)


@cache
def _word(device: torch.device) -> Tensor:
    return torch.zeros(1, dtype=torch.int64, device=device)


def word(device: torch.device) -> Tensor:
    """Return the device's word, an int64 tensor of one element with a fixed address."""
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return _word(device)


@triton.jit
def flag_bad(word, index, bad, CODE: tl.constexpr):
    """Write the word from every lane that is bad; one of them stays."""
    message = (index.to(tl.int64) & _MASK) + _UNIT * CODE
    tl.store(word + index.to(tl.int64) * 0, message, mask=bad)


def guard(op: str, indices: Tensor, extent: int) -> tuple[Tensor, Tensor | None]:
    """Do the same for an ATen kernel: indices that are safe, and where they were not.

    On the host `check` has already refused, so nothing is done there.
    """
    if indices.device.type == "cpu":
        return indices, None
    bad = (indices < 0) | (indices >= extent)
    messages = torch.where(bad, (indices.to(torch.int64) & _LOW) + (code_of(op) << _SHIFT), 0)
    if messages.numel():
        at = word(indices.device)
        at.copy_(torch.maximum(at, messages.max()))
    return indices.masked_fill(bad, 0), bad


def raise_if_set(device: torch.device) -> None:
    """Raise `Rejected` with the op and the index if a kernel has met a bad one; this waits."""
    message = int(word(device).item())
    if message:
        op = next(name for name, code in _CODES.items() if code == message >> _SHIFT)
        index = (message & _LOW) - ((message & _SIGN) << 1)
        raise Rejected(
            f"{op} C3: a kernel met the index {index}, which is out of range; it contributed "
            "zero, and parameters stay as they are until the flag is cleared"
        )


def clear(device: torch.device) -> None:
    """Forget the bad index, so that optimizers write again."""
    word(device).zero_()
