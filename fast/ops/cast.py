"""Twin of spec.ops.cast.

The engine loads a number in fp32 and rounds it once as it stores it. The aten provider rounds once,
too, where torch would round a number of fp64 twice. The gradient is stored in the dtype that the
input has. The result is a ref of another dtype than the session's: ops take it beside others of its
own, such as a loss of fp32 in a session of 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import NAMED, copied
from fast.errors import Rejected, Unavailable
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved


def check(x: Tensor, *, to: Any) -> None:
    """Refuse anything but a floating tensor, and what names no dtype (C1)."""
    checks.floats("cast", x)
    if not isinstance(to, str) or to not in NAMED:
        raise Rejected(f"cast C1: `to` is one of {', '.join(NAMED)}, got {to!r}")


def value(x: Tensor, *, to: str) -> tuple[Tensor, Saved]:
    """Copy x into another dtype; its own is saved."""
    if not NAMED[to].kernels:
        raise Unavailable(f"cast: no Triton kernel writes {to}; the aten provider does")
    return pointwise.copy(x, dtype=NAMED[to].storage), (x.dtype,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Copy the cotangent into the dtype of x."""
    return (pointwise.copy(cotangent, dtype=saved[0]) if needs[0] else None,)


def aten_value(x: Tensor, *, to: str) -> tuple[Tensor, Saved]:
    """Copy x into another dtype; its own is saved."""
    return copied(x, NAMED[to].storage), (x.dtype,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Copy the cotangent into the dtype of x."""
    return (copied(cotangent, saved[0]) if needs[0] else None,)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield one contiguous and one strided input for each dtype that a kernel writes."""
    x = torch.ones(8, 256, dtype=dtype)
    for name, record in NAMED.items():
        if record.kernels:
            yield (x,), {"to": name}
            yield (x.T,), {"to": name}


MOST_KERNELS = 10

op = Op(
    "cast", check, value, vjp, aten_value, aten_vjp, inputs=("x",), attributes={"to": REQUIRED},
    plain=True,
)  # fmt: skip
