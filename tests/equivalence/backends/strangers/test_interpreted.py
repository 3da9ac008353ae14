"""Conditions of blocks in the interpreter: entry by entry, as the compiler takes them."""

from __future__ import annotations

from typing import Any

import torch

from equivalence.backends.strangers.interpreted import as_compiled, tl, triton


@triton.jit
def _masks(x: Any, z: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at) > 0, at < n
    tl.store(z + at, 1.0, mask=a and b)
    tl.store(z + BLOCK + at, 1.0, mask=a or b)
    tl.store(z + 2 * BLOCK + at, 1.0, mask=not a and b)
    tl.store(z + 3 * BLOCK + at, 1.0, mask=a and n > 1)
    tl.store(z + 4 * BLOCK + at, 1.0, mask=a or n > 1)


def test_conditions_of_blocks_hold_entry_by_entry() -> None:
    x, z = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.zeros(5, 4)
    with as_compiled():
        _masks[(1,)](x, z, 2, BLOCK=4)
    assert z.tolist() == [
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [1.0, 0.0, 1.0, 0.0],
        [1.0, 1.0, 1.0, 1.0],
    ]
