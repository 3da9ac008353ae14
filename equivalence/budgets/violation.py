"""A promise that was broken, and the checks that find it: bit for bit, or by equality."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

WORDS = {4: torch.int32, 2: torch.int16, 8: torch.int64}


class Violation(AssertionError):
    """A promise was broken; `program` is the text that leads there."""

    def __init__(self, says: str, program: Sequence[str] = ()) -> None:
        """Say which, and remember the program."""
        super().__init__(says)
        self.says = says
        self.program = tuple(program)


def same_bits(x: Tensor, y: Tensor) -> bool:
    """Compare two tensors bit for bit: zeros have signs, and NaN is equal to itself."""
    if x.shape != y.shape or x.dtype is not y.dtype:
        return False
    word = WORDS[x.element_size()]
    return torch.equal(x.view(word), y.view(word))


def check_bits(label: str, got: Tensor, due: Tensor) -> None:
    """Raise unless two tensors are equal bit for bit."""
    if not same_bits(got.contiguous(), due.contiguous()):
        raise Violation(f"{label}: {show(got)}, due is {show(due)}")


def check_equal(label: str, got: object, due: object) -> None:
    """Raise unless two things are equal."""
    if got != due:
        raise Violation(f"{label}: {got}, due is {due}")


def show(value: Tensor) -> str:
    """Write a tensor in a message."""
    return f"{str(value.dtype).removeprefix('torch.')} {value.tolist()}"
