"""Twin of spec.ops.linear_activation.

The product of fast.ops.linear, whose epilogue bends the fp32 sum before the one rounding to
storage: one launch, where the inner axis is not cut into parts. relu saves the result, which is
positive, or NaN, exactly where the sum is. The other curves save the sum, which the same launch
stores beside the result: to find it again would cost the backward pass a product more, and it has
two. Saved too: x, w, and whether tf32 was allowed.

The VJP is that of the curve's page, of the sum as it was stored, and then that of linear. What
stands between them is stored in the dtype of the session, so that in 16 bits its products run on
tensor cores. The contract declares both roundings (equivalence/backends/fast/forms.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import NARROW
from fast.errors import Rejected
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Places, Saved
from fast.kernels.product import TF32, aten_product, bent_product
from fast.kernels.split_k import LONG
from fast.ops import linear
from fast.ops.gelu import op as gelu
from fast.ops.linear import matrix_of
from fast.ops.relu import op as relu
from fast.ops.sigmoid import op as sigmoid
from fast.ops.silu import op as silu
from fast.ops.tanh import op as tanh

ACTIVATIONS: Mapping[str, tuple[Op, dict[str, Any]]] = MappingProxyType(
    {
        "relu": (relu, {}),
        "gelu": (gelu, {"approximate": "none"}),
        "gelu_tanh": (gelu, {"approximate": "tanh"}),
        "silu": (silu, {}),
        "tanh": (tanh, {}),
        "sigmoid": (sigmoid, {}),
    }
)
"""The page of each curve, and its attributes. Its kernels save one tensor, and then these."""


def check(x: Tensor, w: Tensor, b: Tensor, *, activation: str) -> None:
    """Refuse anything but x [..., in], w [out, in] and b [out], and another curve (C4)."""
    linear.fitting("linear_activation", x, w, b)
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise Rejected(
            f"linear_activation C4: activation is one of {tuple(ACTIVATIONS)}; got {activation!r}"
        )


@cache
def _curve(activation: str) -> Any:
    """Return the function of a curve's kernel: its page's host is asked what it would launch."""
    page, attributes = ACTIVATIONS[activation]
    with pointwise.watched() as seen:
        page.value(torch.empty(1), **attributes)
    ((fn, _, _),) = seen
    return fn


def value(x: Tensor, w: Tensor, b: Tensor, *, activation: str) -> tuple[Tensor, Saved]:
    """Multiply by w transposed, add the bias to every row, and bend; mostly in one launch."""
    tf32, keep = TF32.get(), activation != "relu"
    z, straight = bent_product(matrix_of(x), w.t(), b, _curve(activation), tf32, keep)
    shape = (*x.shape[:-1], w.shape[0])
    z = z.view(shape)
    return z, (z if straight is None else straight.view(shape), activation, x, w, tf32)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Bend the cotangent, and return what linear returns for it."""
    if not any(needs):
        return None, None, None
    kept, activation, *layer = saved
    page, attributes = ACTIVATIONS[activation]
    (g,) = page.vjp((kept, *attributes.values()), cotangent, (True,))
    assert g is not None
    return linear.vjp(tuple(layer), g, needs)


def aten_value(x: Tensor, w: Tensor, b: Tensor, *, activation: str) -> tuple[Tensor, Saved]:
    """Multiply, add the bias, and bend; in 16 bits the sum is bent before it is rounded."""
    tf32, (page, attributes) = TF32.get(), ACTIVATIONS[activation]
    y = aten_product(matrix_of(x), w.t(), tf32, b, stored=False)
    y = y.view(*x.shape[:-1], w.shape[0])
    z, kept = page.aten_value(y, **attributes)
    if x.dtype in NARROW:
        z = z.to(x.dtype)
        kept = (z if activation == "relu" else y.to(x.dtype),)
    return z, (kept, activation, x, w, tf32)


def aten_vjp(
    saved: Saved, cotangent: Tensor, needs: Sequence[bool], places: Places = (None, None, None)
) -> Gradients:
    """Bend the cotangent, and return what linear returns for it."""
    if not any(needs):
        return None, None, None
    kept, activation, *layer = saved
    page, attributes = ACTIVATIONS[activation]
    if cotangent.dtype in NARROW and page is gelu:
        # What its twin saves beside the sum is made again: the sum has been rounded since.
        _, kept = page.aten_value(*kept, **attributes)
    (g,) = page.aten_vjp(kept, cotangent, (True,))
    assert g is not None
    return linear.aten_vjp(tuple(layer), g, needs, places)


MOST_KERNELS = 166
"""In fp32: for each of six curves, forward, one kernel for operands that are not aligned, and for
others each order of two operands in two tiles, all in IEEE arithmetic and in tf32; for each, two
that add the sums of parts, and two back. Beside them 32 of matmul, and two for sums of rows."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield each curve for the large tile, and gelu for the small one and for unaligned matrices.

    The last has an inner axis of parts, which are bent when they are added. Other orders of
    operands are those of linear, and no curve asks for them.
    """
    sizes = [(128, 128, activation) for activation in ACTIVATIONS]
    for size, inputs, activation in (
        *sizes, (48, 48, "gelu"), (45, 45, "gelu"), (16, LONG, "gelu")
    ):  # fmt: skip
        x, w = torch.ones(size, inputs, dtype=dtype), torch.ones(size, inputs, dtype=dtype)
        yield (x, w, torch.ones(size, dtype=dtype)), {"activation": activation}


op = Op(
    "linear_activation", check, value, vjp, aten_value, aten_vjp, inputs=("x", "w", "b"),
    attributes={"activation": REQUIRED}, aten_writes=True,
)  # fmt: skip
